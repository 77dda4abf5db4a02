"""Ranks: what the cluster has, what the layout takes, and how the one becomes the other."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from msgspec.structs import replace

from trnsim.record import Record
from trnsim.scenario.rules.rule import Rule, divisors, near, one_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnsim.errors import Problem
    from trnsim.scenario.draft import Draft

__all__ = ["RANK_KEYS", "RULES", "Ranks", "ranks_of"]

RANK_KEYS = (
    "cluster.server",
    "cluster.servers",
    "cluster.lnc",
    "cluster.allow_idle",
    "layout.rank",
    "layout.tp",
    "layout.cp",
    "layout.pp",
    "layout.dp",
)
"""Keys that decide how many ranks there are."""


class Ranks(Record):
    """How ranks are counted.

    Parameters
    ----------
    servers, chips, per_chip
        Servers of the cluster, chips of a server, ranks of a chip.
    tp, cp, pp
        Degrees of one replica of the model.
    dp
        Number of replicas; ``None`` where it was to be derived and cannot be.
    """

    servers: int
    chips: int
    per_chip: int
    tp: int
    cp: int
    pp: int
    dp: int | None

    @property
    def available(self) -> int:
        """Ranks that the cluster has."""
        return self.servers * self.chips * self.per_chip

    @property
    def replica(self) -> int:
        """Ranks of one replica."""
        return self.tp * self.cp * self.pp

    @property
    def used(self) -> int | None:
        """Ranks of the layout."""
        return None if self.dp is None else self.replica * self.dp

    @property
    def cluster_text(self) -> str:
        """``16 servers x 144 chips x 1 rank a chip = 2,304 ranks``."""
        parts = ((self.servers, "server"), (self.chips, "chip"), (self.per_chip, "rank"))
        product = " x ".join(f"{count:,} {word}{'' if count == 1 else 's'}" for count, word in parts)
        return f"{product} a chip = {self.available:,} ranks"

    @property
    def replica_text(self) -> str:
        """``tp 8 x pp 9``; cp is named where it is above 1."""
        degrees = (("tp", self.tp), ("cp", self.cp), ("pp", self.pp))
        return " x ".join(f"{axis} {degree:,}" for axis, degree in degrees if degree > 1 or axis != "cp")


def ranks_of(draft: Draft) -> Ranks | None:
    """Count the ranks of a draft; ``None`` where its server or its LNC is not to be used."""
    layout, server, lnc = draft.file.layout, draft.server, draft.lnc
    if server is None or (server.chip.neuron_cores and lnc not in server.chip.neuron_cores.lnc):
        return None
    per_chip = 1 if layout.rank == "chip" else server.chip.logical_cores(lnc)
    ranks = Ranks(draft.file.cluster.servers, server.chips, per_chip, layout.tp, layout.cp, layout.pp, None)
    if layout.dp != "auto":
        return replace(ranks, dp=layout.dp)
    replicas, rest = divmod(ranks.available, ranks.replica)
    whole = replicas > 0 and (rest == 0 or draft.file.cluster.allow_idle)
    return replace(ranks, dp=replicas if whole else None)


def degrees_fit(draft: Draft) -> Iterator[Problem]:
    """Rules 1 and 2: tp x cp x pp x dp is the number of ranks, or less where idle chips are allowed."""
    ranks = ranks_of(draft)
    if ranks is None:
        return
    if ranks.replica > ranks.available:
        yield _too_many(
            draft, ranks, ranks.replica, f"one replica takes {ranks.replica_text} = {ranks.replica:,} ranks"
        )
    elif ranks.dp is None:
        yield _no_whole_dp(draft, ranks)
    elif ranks.used is not None and ranks.used > ranks.available:
        yield _too_many(draft, ranks, ranks.used, f"{ranks.replica_text} x dp {ranks.dp:,} = {ranks.used:,} ranks")
    elif ranks.used is not None and ranks.used < ranks.available and not draft.file.cluster.allow_idle:
        yield _idle(draft, ranks, ranks.used)


def _too_many(draft: Draft, ranks: Ranks, used: int, product: str) -> Problem:
    """More ranks than there are: legal, but the cluster is too small."""
    servers = math.ceil(used / (ranks.chips * ranks.per_chip))
    key = "layout.dp" if ranks.replica <= ranks.available else _largest_degree(ranks)
    fits = f", or dp {ranks.available // ranks.replica:,}" if key == "layout.dp" else ""
    message = f"{product}, and the cluster has {ranks.cluster_text}; it takes {servers:,} servers{fits}"
    return draft.document.problem(key, message, value=_degree(draft, key), capacity=True)


def _no_whole_dp(draft: Draft, ranks: Ranks) -> Problem:
    """Replicas do not divide the ranks: name the degree to change, and its nearest values that divide."""
    replicas, rest = divmod(ranks.available, ranks.replica)
    axis = "pp" if ranks.available % (ranks.tp * ranks.cp) == 0 else "tp"
    degree = ranks.pp if axis == "pp" else ranks.tp
    fixed = ranks.replica // degree
    if ranks.available % fixed == 0:
        choice = f"the nearest {axis} that divides is {one_of(near(degree, divisors(ranks.available // fixed)))}"
    else:
        choice = f"the nearest replica that divides has {one_of(near(ranks.replica, divisors(ranks.available)))} ranks"
    message = (
        f"dp: auto needs whole replicas: {ranks.cluster_text} = {replicas:,} x ({ranks.replica_text} = {ranks.replica:,}) "
        f"+ {rest:,}; {choice}; cluster.allow_idle: true leaves the rest idle"
    )
    return draft.document.problem(f"layout.{axis}", message, value=degree)


def _idle(draft: Draft, ranks: Ranks, used: int) -> Problem:
    whole, rest = divmod(ranks.available, ranks.replica)
    fill = f"dp {whole:,} uses all" if rest == 0 else f"dp {whole:,} leaves {rest:,}"
    message = (
        f"{ranks.replica_text} x dp {ranks.dp:,} = {used:,} ranks, and the cluster has {ranks.cluster_text}: "
        f"{ranks.available - used:,} stay idle; {fill}, and cluster.allow_idle: true permits it"
    )
    return draft.document.problem("layout.dp", message)


def _largest_degree(ranks: Ranks) -> str:
    return "layout.tp" if ranks.tp >= ranks.pp else "layout.pp"


def _degree(draft: Draft, key: str) -> object:
    return getattr(draft.file.layout, key.removeprefix("layout."))


def order_is_complete(draft: Draft) -> Iterator[Problem]:
    """Every axis above 1 has one place in the order."""
    layout = draft.file.layout
    ranks = ranks_of(draft)
    sizes = {"tp": layout.tp, "cp": layout.cp, "pp": layout.pp, "dp": 1 if ranks is None else ranks.dp or 1}
    twice = sorted({axis for axis in layout.order if layout.order.count(axis) > 1})
    missing = [axis for axis, size in sizes.items() if size > 1 and axis not in layout.order]
    if twice:
        yield draft.document.problem("layout.order", f"{', '.join(twice)} stands twice; each axis has one place")
    if missing:
        has, it = ("is above 1 and has", "it") if len(missing) == 1 else ("are above 1 and have", "them")
        yield draft.document.problem("layout.order", f"{', '.join(missing)} {has} no place in the order; list {it}")


def instances_are_filled(draft: Draft) -> Iterator[Problem]:
    """Rule 15: a job may use only some counts of cores or chips of an instance."""
    server, count = draft.server, cores_on_last_host(draft)
    if server is None or server.instance_use is None or count is None:
        return
    use = server.instance_use
    valid = (*use.allowed, *use.reported)
    if count in valid:
        return
    unit = "chips" if use.unit == "chip" else "NeuronCores"
    message = (
        f"the layout uses {count} {unit} of the last instance, and one instance of {server.name} may use "
        f"{one_of(use.allowed)}; the nearest are {one_of(near(count, valid), 'and')}"
    )
    yield draft.document.problem("layout.dp", message)


def cores_on_last_host(draft: Draft) -> int | None:
    """Return how many chips or NeuronCores of the last host in use the layout takes, in the unit of the server's rule."""
    server, ranks = draft.server, ranks_of(draft)
    if server is None or server.instance_use is None or ranks is None or ranks.used is None:
        return None
    if ranks.used > ranks.available:
        return None
    chips_a_host = server.chips_per_host
    ranks_on_last = (ranks.used - 1) % (chips_a_host * ranks.per_chip) + 1
    if server.instance_use.unit == "chip" or server.chip.neuron_cores is None:
        return math.ceil(ranks_on_last / ranks.per_chip)
    return ranks_on_last * server.chip.neuron_cores.count // ranks.per_chip


RULES = (
    Rule(RANK_KEYS, degrees_fit),
    Rule(("layout.order", *RANK_KEYS), order_is_complete),
    Rule(RANK_KEYS, instances_are_filled),
)
