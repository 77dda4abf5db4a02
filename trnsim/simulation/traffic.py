"""What travels in a step: collectives and messages, the links they cross, the tiers that each axis uses."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from trnsim.collectives import busbw_factor
from trnsim.results import CollectiveUse, LinkUse, Tier

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnsim.fabric import Price
    from trnsim.simulation.machine import Machine
    from trnsim.simulation.simulated import Simulated
    from trnsim.training import Node


@dataclass(frozen=True, slots=True)
class Use:
    """Transfers of one rank in one step that are alike.

    Parameters
    ----------
    name, op, axis, size
        What they are for, the operation, the axis and size of the group.
    bytes, count
        Bytes of one, and how many there are.
    price
        What one costs.
    """

    name: str
    op: str
    axis: str
    size: int
    bytes: int
    count: int
    price: Price


def collective_facts(run: Simulated) -> tuple[CollectiveUse, ...]:
    """Describe the collectives and messages of the rank that finishes last, as it sees them in one step."""
    node = run.last.node
    exposed = run.account.by_name()
    uses = [*_sent(run, node), *_received(run, node)]
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


def link_facts(machine: Machine, run: Simulated) -> tuple[LinkUse, ...]:
    """Count the bytes of one step on the links of each kind, busiest first."""
    counts, rates, carried = machine.fabric.link_counts(), machine.link_rates(), _carried(run)
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


def _carried(run: Simulated) -> dict[str, int]:
    """Sum the bytes on all links of a kind, exactly, so that folding does not change the last digit."""
    transfers: Counter[tuple[str, float, int]] = Counter()
    for node in run.folding.nodes:
        for use in _sent(run, node):
            for kind, size_bytes in use.price.bytes_by_kind.items():
                transfers[kind, size_bytes, _payers(use)] += use.count * node.ranks
    total: dict[str, Fraction] = {}
    for (kind, size_bytes, payers), count in transfers.items():
        total[kind] = total.get(kind, Fraction(0)) + Fraction(size_bytes) * count / payers
    return {kind: round(carried) for kind, carried in total.items()}


def tier_facts(run: Simulated) -> tuple[Tier, ...]:
    """Say which kinds of links the groups of each axis cross."""
    kinds: dict[str, dict[str, None]] = {}
    for node in run.folding.nodes:
        for use in _sent(run, node):
            kinds.setdefault(use.axis, {}).update(dict.fromkeys(use.price.bytes_by_kind))
    mesh = run.spec.mesh
    return tuple(Tier(axis, mesh.size(axis), tuple(kinds[axis])) for axis in ("tp", "pp", "dp") if axis in kinds)


def derived_algorithms(run: Simulated) -> dict[str, str]:
    """Return the algorithms of all collectives, over all ranks."""
    chosen: dict[str, dict[str, None]] = {}
    for node in run.folding.nodes:
        for use in _sent(run, node):
            if use.op != "send-recv":
                chosen.setdefault(f"{use.axis} {use.op}", {})[use.price.algorithm] = None
    named = (f"{use} {' or '.join(algorithms)}" for use, algorithms in chosen.items())
    return {"algorithms": ", ".join(named)} if chosen else {}


def _sent(run: Simulated, node: Node) -> Iterator[Use]:
    """Yield what a rank sends; messages by their sender only, so that no byte is counted twice."""
    spec, prices, stage = run.spec, node.prices, node.stage
    op, dp = "reduce-scatter" if spec.zero else "all-reduce", spec.mesh.size("dp")
    exchanges: Counter[tuple[str, int]] = Counter()
    for exchange, count in stage.exchanges.items():
        exchanges[exchange.op, exchange.bytes] += count * spec.microbatches
    for (name, size_bytes), count in exchanges.items():
        price = prices.tensor[name, size_bytes]
        yield Use(f"tensor {name}", name, "tp", spec.mesh.size("tp"), size_bytes, count, price)
    for name, sent in (("send activation", prices.send_activation), ("send gradient", prices.send_gradient)):
        if sent is not None:
            yield Use(name, "send-recv", "pp", 2, spec.activation_bytes, spec.microbatches, sent)
    for bucket, price in zip(stage.buckets, prices.reduce, strict=False):
        yield Use(bucket.name, op, "dp", dp, bucket.parameters * spec.gradient_bytes, 1, price)
    if prices.gather is not None:
        yield Use("weights", "all-gather", "dp", dp, 2 * stage.parameters, 1, prices.gather)
    if prices.tied is not None:
        yield Use("tied embedding gradients", "all-reduce", "pp", 2, spec.tied_bytes, 1, prices.tied)


def _received(run: Simulated, node: Node) -> Iterator[Use]:
    spec, stride = run.spec, run.spec.mesh.stride("pp")
    stage, last = node.stage.number, len(spec.split) - 1
    for name, source, there in (("receive activation", -stride, stage > 0), ("receive gradient", stride, stage < last)):
        if there:
            price = run.communication.message(node.first_rank + source, node.first_rank)
            yield Use(name, "send-recv", "pp", 2, spec.activation_bytes, spec.microbatches, price)


def _exposed_s(use: Use, exposed: dict[tuple[str, str], float]) -> float:
    """Sum the time that was booked on a transfer: by its name, or, inside a pass, by its operation."""
    heading = f"exposed_{use.axis}"
    times = (time_s for (name, booked), time_s in exposed.items() if booked == heading and _is_named(use, name))
    return math.fsum(times)


def _is_named(use: Use, name: str) -> bool:
    return name == use.name or (use.axis == "tp" and f" {use.op} " in name)


def _payers(use: Use) -> int:
    """Ranks that share the bytes of one price: all members of a group, or the one sender of a message."""
    return 1 if use.op == "send-recv" else use.size


def _rate(size_bytes: int, time_s: float) -> float:
    return size_bytes / time_s if time_s else 0.0
