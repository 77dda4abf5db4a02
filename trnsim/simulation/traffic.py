"""What travels in a step: collectives and messages, the links they cross, the tiers that each axis uses."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING

from trnsim.collectives import busbw_factor
from trnsim.record import Record
from trnsim.results import CollectiveUse, LinkUse, Tier
from trnsim.training import (
    COPIES,
    GRADIENTS,
    RECEIVE_ACTIVATION,
    RECEIVE_GRADIENT,
    SEND_ACTIVATION,
    SEND_GRADIENT,
    TIED_EMBEDDING,
    WEIGHTS,
)
from trnsim.workload import WEIGHT_BYTES

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from trnsim.fabric import Price
    from trnsim.parallel import Mesh
    from trnsim.simulation.machine import Machine
    from trnsim.simulation.simulated import Simulated
    from trnsim.training import Node, StepSpec

    Sent = Sequence[tuple["Use", int]]


class Use(Record):
    """Transfers of one rank in one step that are alike.

    Parameters
    ----------
    name, op, axis, size
        What they are for, the operation, the axis and size of the group.
    bytes, count
        Bytes of one, and how many there are.
    price
        What one costs.
    booked_as
        How the names end under which a rank's log books it.
    """

    name: str
    op: str
    axis: str
    size: int
    bytes: int
    count: int
    price: Price
    booked_as: tuple[str, ...]

    @property
    def is_message(self) -> bool:
        """Whether one rank sends it to another, so that nobody else pays for it."""
        return self.op == "send-recv"

    @property
    def payers(self) -> int:
        """Ranks that share the bytes of one price: all members of a group, or the one sender of a message."""
        return 1 if self.is_message else self.size


def collective_facts(run: Simulated) -> tuple[CollectiveUse, ...]:
    """Describe the collectives and messages of the rank that finishes last, as it sees them in one step."""
    node = run.last.node
    exposed = run.account.by_name()
    uses = [*sent_by(run.spec, node), *_received(run, node)]
    return tuple(
        CollectiveUse(
            name=use.name,
            op=use.op,
            axis=use.axis,
            algorithm=use.price.algorithm,
            group_size=use.size,
            bytes=use.bytes,
            count=use.count,
            time_s=use.price.time_s,
            algbw_bytes_per_s=_rate(use.bytes, use.price.time_s),
            busbw_bytes_per_s=_rate(use.bytes, use.price.time_s) * busbw_factor(use.op, use.size),
            exposed_s=_exposed_s(use, exposed),
        )
        for use in uses
    )


def all_sent(run: Simulated) -> Sent:
    """Return what all ranks send in one step, each with the number of ranks that send it."""
    ranks: Counter[Hashable] = Counter()
    firsts: dict[Hashable, Node] = {}
    for node in run.folding.nodes:
        key = node.stage.number, node.prices  # one record for all for which all is equal
        ranks[key] += node.ranks
        firsts.setdefault(key, node)
    return [(use, ranks[key]) for key, node in firsts.items() for use in sent_by(run.spec, node)]


def link_facts(machine: Machine, run: Simulated, sent: Sent) -> tuple[LinkUse, ...]:
    """Count the bytes of one step on the links of each kind, busiest first."""
    counts, rates, carried = machine.fabric.link_counts(), machine.link_rates(), _carried(sent)
    found = [
        LinkUse(
            name=kind,
            kind=kind,
            count=count,
            bytes=carried.get(kind, 0),
            utilization_fraction=carried.get(kind, 0) / (count * rates[kind] * run.window.duration_s),
        )
        for kind, count in counts.items()
        if count
    ]
    return tuple(sorted(found, key=lambda link: -link.utilization_fraction))


def _carried(sent: Sent) -> dict[str, int]:
    """Sum the bytes on all links of a kind, exactly, so that folding does not change the last digit."""
    transfers: Counter[tuple[str, float, int]] = Counter()
    for use, ranks in sent:
        for kind, size_bytes in use.price.bytes_by_kind.items():
            transfers[kind, size_bytes, use.payers] += use.count * ranks
    total: dict[str, Fraction] = {}
    for (kind, size_bytes, payers), count in transfers.items():
        total[kind] = total.get(kind, Fraction(0)) + Fraction(size_bytes) * count / payers
    return {kind: round(carried) for kind, carried in total.items()}


def tier_facts(mesh: Mesh, sent: Sent) -> tuple[Tier, ...]:
    """Say which kinds of links the groups of each axis cross."""
    kinds: dict[str, dict[str, None]] = {}
    for use, _ in sent:
        kinds.setdefault(use.axis, {}).update(dict.fromkeys(use.price.bytes_by_kind))
    return tuple(Tier(axis, mesh.size(axis), tuple(kinds[axis])) for axis in ("tp", "pp", "dp") if axis in kinds)


def derived_algorithms(sent: Sent) -> dict[str, str]:
    """Return the algorithms of all collectives, over all ranks."""
    chosen: dict[str, dict[str, None]] = {}
    for use, _ in sent:
        if not use.is_message:
            chosen.setdefault(f"{use.axis} {use.op}", {})[use.price.algorithm] = None
    named = (f"{use} {' or '.join(algorithms)}" for use, algorithms in chosen.items())
    return {"algorithms": ", ".join(named)} if chosen else {}


def sent_by(spec: StepSpec, node: Node) -> Iterator[Use]:
    """Yield what a rank sends; messages by their sender only, so that no byte is counted twice."""
    prices = node.prices
    yield from _tensor_uses(spec, node)
    following, preceding = _neighbouring_virtual_stages(spec, node)
    ways = (
        (SEND_ACTIVATION.name, prices.send_activation, following),
        (SEND_GRADIENT.name, prices.send_gradient, preceding),
    )
    for name, sent, virtual_stages in ways:
        if sent is not None:
            count = virtual_stages * spec.microbatches
            yield Use(name, "send-recv", "pp", 2, spec.activation_bytes, count, sent, (name,))
    yield from _data_uses(spec, node)
    if prices.tied is not None:
        name = TIED_EMBEDDING.name
        yield Use(name, "all-reduce", "pp", 2, spec.tied_bytes, 1, prices.tied, (name,))


def _data_uses(spec: StepSpec, node: Node) -> Iterator[Use]:
    """Yield the data-parallel collectives of a rank, those of buckets of one size together."""
    sharding, prices, microbatches = spec.sharding, node.prices, spec.microbatches
    reductions, gathers = sharding.reductions_a_step(microbatches), sharding.gathers_a_step(microbatches)
    kinds = (
        (GRADIENTS, sharding.reduce_op, sharding.group, prices.reduce, reductions, sharding.reduce_bytes, 1),
        (COPIES, "all-reduce", sharding.copies, prices.merge, 1, sharding.reduce_bytes, sharding.optimizer_shards),
        (WEIGHTS, "all-gather", sharding.group, prices.gather, gathers, WEIGHT_BYTES, 1),
    )
    for name, op, ranks, found, times, bytes_each, shards in kinds:
        alike: dict[int, list[int]] = {}
        for bucket in node.stage.buckets[: len(found)]:
            alike.setdefault(bytes_each * -(-bucket.parameters // shards), []).append(bucket.number)
        for size_bytes, numbers in alike.items():
            booked_as = tuple(f"{name} {number}" for number in numbers)
            yield Use(name, op, "dp", ranks, size_bytes, times * len(numbers), found[numbers[0]], booked_as)


def _tensor_uses(spec: StepSpec, node: Node) -> Iterator[Use]:
    """Yield the tensor-parallel collectives of a rank, alike ones together."""
    counts: Counter[tuple[str, int]] = Counter()
    names: dict[tuple[str, int], list[str]] = {}
    for exchange, count in node.stage.exchanges.items():
        key = (exchange.op, exchange.bytes)
        counts[key] += count * spec.microbatches
        names.setdefault(key, []).append(f"{exchange.op} {exchange.name}")
    for (op, size_bytes), count in counts.items():
        price, booked_as = node.prices.tensor[op, size_bytes], tuple(names[op, size_bytes])
        yield Use(f"tensor {op}", op, "tp", spec.mesh.size("tp"), size_bytes, count, price, booked_as)


def _received(run: Simulated, node: Node) -> Iterator[Use]:
    spec, stage, stages = run.spec, node.stage.number, run.spec.pipeline.stages
    following, preceding = _neighbouring_virtual_stages(spec, node)
    for name, step, virtual_stages in ((RECEIVE_ACTIVATION.name, -1, preceding), (RECEIVE_GRADIENT.name, 1, following)):
        if virtual_stages:
            source = node.first_rank + ((stage + step) % stages - stage) * spec.mesh.stride("pp")
            price, count = run.communication.message(source, node.first_rank), virtual_stages * spec.microbatches
            yield Use(name, "send-recv", "pp", 2, spec.activation_bytes, count, price, (name,))


def _neighbouring_virtual_stages(spec: StepSpec, node: Node) -> tuple[int, int]:
    """Count the virtual stages of a rank that have one after them, and one before them."""
    places, last = node.stage.virtual_stages, spec.pipeline.last
    return sum(place < last for place in places), sum(place > 0 for place in places)


def _exposed_s(use: Use, exposed: dict[tuple[str, str], float]) -> float:
    """Sum the time that a rank's log books on a transfer."""
    heading = f"exposed_{use.axis}"
    return math.fsum(s for (name, booked), s in exposed.items() if booked == heading and name.endswith(use.booked_as))


def _rate(size_bytes: int, time_s: float) -> float:
    return size_bytes / time_s if time_s else 0.0
