"""How long a collective takes on a network, size by size."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from trnsim import __version__
from trnsim.collectives import algorithm as find_algorithm
from trnsim.collectives import busbw_factor
from trnsim.collectives.policy import neuron_algorithm
from trnsim.errors import InputError, Problem
from trnsim.fabric.explanation import LATENCY
from trnsim.fabric.explanation import explain as explain_program
from trnsim.fabric.limits import MOST_CHUNK_RANKS
from trnsim.results.collective_times import CollectiveTime, CollectiveTimes
from trnsim.simulation.choice import Chooser
from trnsim.simulation.fitted import WITHOUT_NUMBERS, Fabrics, family_notes
from trnsim.simulation.problems import Report
from trnsim.simulation.question import Question, read_question
from trnsim.simulation.sites import find_site

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnsim.collectives import Arrangement
    from trnsim.fabric.network_fabric import NetworkFabric
    from trnsim.simulation.choice import Choice
    from trnsim.simulation.sites import Site

__all__ = ["collective"]

_OF_THE_PLACE = {"on", "servers", "fabric", "rank", "link_bandwidth", "link_latency", "ties"}


def collective(
    op: str,
    *,
    on: str,
    servers: int = 1,
    fabric: str | None = None,
    ranks: int | None = None,
    rank: str = "chip",
    sizes: str | Sequence[int] | None = None,
    algorithm: str = "auto",
    fidelity: str = "flow",
    policy: str = "fastest",
    link_bandwidth: str | None = None,
    link_latency: str | None = None,
    ties: str | None = None,
    degrade: str | None = None,
    matrix: str | None = None,
    explain: bool = False,
) -> CollectiveTimes:
    """Time a collective on a network, alone.

    Arguments are texts with units, as on the command line: one reader serves both.

    Parameters
    ----------
    op
        all-reduce, reduce-scatter, all-gather, all-to-all, all-to-all-v, broadcast, reduce, send-recv or barrier; case,
        dashes and underscores do not matter. In a send-recv rank i sends S/N bytes to rank i + 1 modulo N.
    on
        A generic machine (``ring``, ``star``, ``switch``, ``fully-connected``, ``torus:4x4x4``, ``mesh:8x8``,
        ``hypercube:6``, ``fat-tree:16x16``), a server of the catalog, a network of ``topologies/networks/``, or a file.
    servers, fabric
        How many of the server, and what joins them; the ultracluster if nothing is said.
    ranks
        Members of the group, on the first endpoints; by default all endpoints.
    rank
        What is one rank of a server: ``chip`` or ``logical_core``.
    sizes
        Bytes of the buffer (the larger of one rank's input and output): a size, ``A:B`` for A and its doubles up to B, or
        a list of whole numbers, 8:1GiB if nothing is said. A number without a unit is bytes.
    algorithm
        A name, or ``auto`` for the fastest.
    fidelity
        ``closed_form``, ``flow`` or ``chunk``.
    policy
        ``fastest``, or ``neuron`` for Neuron's choice by size.
    link_bandwidth, link_latency
        Of each link and direction of a generic machine: ``"50 GB/s"``, ``"250 ns"``.
    ties
        What a transfer does between two ways round a generic torus that are as short: ``split`` or ``positive``.
    degrade
        ``N:FACTOR``: N evenly spaced uplinks keep this share of their bandwidth.
    matrix
        For an all-to-all-v, what each rank (row) sends to each (column), relative to one another: a file of whole numbers.
        All alike without it.
    explain
        Whether to look into the program of the largest size.

    Returns
    -------
    CollectiveTimes
        One row per size.

    Raises
    ------
    InputError
        With everything that is wrong; exit code 3 when there are only too few endpoints for the ranks.

    Examples
    --------
    >>> import trnsim
    >>> times = trnsim.collective(
    ...     "all-reduce", on="star", ranks=8, sizes="1GiB", algorithm="ring", link_bandwidth="50 GB/s", link_latency="250 ns"
    ... )
    >>> f"{times.rows[0].time_s * 1e3:.6f} ms"
    '37.587964 ms'
    """
    report = Report("collective")
    question = read_question(
        report,
        op,
        on,
        servers=servers,
        fabric=fabric,
        ranks=ranks,
        rank=rank,
        sizes=sizes,
        algorithm=algorithm,
        fidelity=fidelity,
        policy=policy,
        link_bandwidth=link_bandwidth,
        link_latency=link_latency,
        ties=ties,
        degrade=degrade,
        matrix=matrix,
    )
    return _times(question, _site(report, question), tuple(report.warnings), explain=explain)


def _site(report: Report, question: Question) -> Site:
    """Return the network, or raise all that is wrong with the question and with the network."""
    site = None
    if not _OF_THE_PLACE & {problem.key for problem in report.problems}:
        try:
            site = find_site(question.place, question.ranks)
        except InputError as error:
            report.problems.extend(error.problems)
    if site is not None:
        _check_ranks(report, question, site)
        if question.degrade is not None:
            try:
                site = site.degraded(*question.degrade)
            except InputError as error:
                report.problems.extend(error.problems)
    report.close()
    return site  # type: ignore[return-value]  # without a site there is a problem


def _check_ranks(report: Report, question: Question, site: Site) -> None:
    """Note what is wrong with the number of ranks."""
    places = site.network.endpoints
    ranks = question.ranks or places
    if ranks > places:
        kind = "chips" if question.place.rank == "chip" else "logical cores"
        report.add("ranks", f"{site.described} has {places:,} {kind}", f"{ranks:,}", capacity=True)
    if question.fidelity == "chunk" and ranks > MOST_CHUNK_RANKS:
        report.add(
            "fidelity", f"chunk follows single messages, of up to {MOST_CHUNK_RANKS:,} ranks, not {ranks:,}", "chunk"
        )
    if question.matrix and len(question.matrix) != ranks:
        report.add("matrix", f"it has {len(question.matrix)} rows, and there are {ranks:,} ranks")


def _times(question: Question, site: Site, warnings: tuple[str, ...], *, explain: bool) -> CollectiveTimes:
    """Time every size."""
    ranks = question.ranks or site.network.endpoints
    arrangement = replace(site.arrange(ranks), sizes=question.matrix)
    fabrics = Fabrics.of_family(site.network, np.arange(ranks), site.family, spans_chips=ranks > arrangement.per_chip)
    by_name = {} if site.adds_by_default else {"in-network": "a generic switch adds only where that is asked for"}
    by_name |= fabrics.without_numbers(question.op)
    chooser = Chooser(fabrics, question.op, arrangement, question.fidelity, by_name)
    notes: dict[str, None] = {} if site.family is None else dict.fromkeys(family_notes(site.family, question.op))
    choices = [_choice(question, chooser, arrangement, size, notes) for size in question.sizes]
    rows = (_row(question, fabrics, size, choice) for size, choice in zip(question.sizes, choices, strict=True))
    taken = {choice.program.algorithm for choice in choices}
    if site.family is not None and (unknown := sorted(taken - site.family.algorithms.keys())):
        notes[f"{' and '.join(unknown)} priced by the links alone: {site.family.name} has no numbers for it"] = None
    plan = choices[-1].program
    return CollectiveTimes(
        op=question.op,
        provenance=_provenance(question, site, ranks),
        bus_factor=busbw_factor(question.op, ranks),
        rows=tuple(rows),
        explanation=(
            explain_program(fabrics.of(plan), plan, question.sizes[-1], question.fidelity) if explain else None
        ),
        notes=tuple(notes),
        warnings=(*warnings, *site.network.warnings),
    )


def _choice(
    question: Question, chooser: Chooser, arrangement: Arrangement, size_bytes: int, notes: dict[str, None]
) -> Choice:
    """Return the program for a size; what was left out or taken instead goes to the notes."""
    name = question.algorithm
    try:
        if name == "auto" and question.policy == "fastest":
            left_out = chooser.left_out.items()
            told = (f"auto leaves {other} out: {why}" for other, why in left_out if why != WITHOUT_NUMBERS)
            notes.update(dict.fromkeys(told))
            return chooser.fastest(size_bytes)
        if name == "auto":
            name = neuron_algorithm(size_bytes)
            if lacking := find_algorithm(question.op, name).lacks(arrangement):
                notes[f"ring in place of {name}, which needs {lacking}"] = None
                name = "ring"
        return chooser.named(name, size_bytes)
    except ValueError as error:
        raise InputError([Problem("algorithm", str(error), value=name)], file="collective") from None


def _row(question: Question, fabrics: Fabrics, size_bytes: int, choice: Choice) -> CollectiveTime:
    return CollectiveTime.of(
        size_bytes,
        choice.program.ranks,
        choice.time_s,
        algorithm=choice.program.algorithm,
        fidelity=question.fidelity,
        bus_factor=busbw_factor(question.op, choice.program.ranks),
        bound_s=fabrics.bound_s(question.op, size_bytes),
        bound_by=_bound_by(fabrics.of(choice.program), choice, size_bytes),
        rivals=choice.rivals,
    )


def _bound_by(fabric: NetworkFabric, choice: Choice, size_bytes: int) -> str:
    """Return what takes most of the time: ``latency``, or the kind of the busiest link with the name of one."""
    parts: defaultdict[str, float] = defaultdict(float)
    examples: dict[str, int] = {}
    for phase in choice.program.phases:
        loads = fabric.loads(phase)
        if loads.busiest >= 0:
            kind = fabric.network.kinds[fabric.network.kind[loads.busiest]]
            parts[kind] += phase.steps * loads.seconds_per_byte * size_bytes
            examples.setdefault(kind, loads.busiest)
    busy_s = sum(parts.values())
    if not parts or choice.time_s - busy_s > max(parts.values()):
        return LATENCY if choice.time_s else ""
    most = max(parts, key=lambda kind: parts[kind])
    return f"{most}, as {fabric.network.link_name(examples[most])}"


def _provenance(question: Question, site: Site, ranks: int) -> dict[str, Any]:
    """Return what was asked, as the JSON document has it."""
    place = question.place
    generic = {"link_bandwidth_bytes_per_s": place.link_bandwidth_bytes_per_s, "link_latency_s": place.link_latency_s}
    return {
        "trnsim": __version__,
        "op": question.op,
        "on": place.on,
        "described": site.described,
        "servers": place.servers,
        "endpoints": site.network.endpoints,
        "ranks": ranks,
        "rank": place.rank,
        **(generic if place.link_bandwidth_bytes_per_s else {}),
        **({} if site.family is None else {"collective_family": site.family.name}),
        "algorithm": question.algorithm,
        "policy": question.policy,
        "degrade": None if question.degrade is None else list(question.degrade),
    }
