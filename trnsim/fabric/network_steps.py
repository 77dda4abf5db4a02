"""The transfers of one step as paths over links, folded into classes of flows that are alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from trnsim.collectives.patterns import SWITCH, Everyone
from trnsim.engine.sharing import Flow
from trnsim.errors import InputError, Problem
from trnsim.fabric.flow_classes import Crossings, FlowClasses, fold, fold_by_orbits
from trnsim.fabric.many_flows import last_end_ps
from trnsim.record import Record
from trnsim.topology.network import Touches

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from trnsim.collectives.program import Move, Phase
    from trnsim.topology.network import Network

    Integers = NDArray[np.int64]

__all__ = [
    "MOST_CROSSINGS",
    "RATE_UNIT",
    "Loads",
    "Paths",
    "Step",
    "folded",
    "last_of_many_ps",
    "loads_of",
    "paths_of",
    "seated",
]

RATE_UNIT = 10**4
"""Rates are whole numbers of this part of a byte per second, and sizes of this part of a byte: finer than what counts."""

MOST_CROSSINGS = 1 << 25
"""Crossings of links that one step may have: 3 GB at most."""


class Paths(Record, eq=False):
    """Paths of the transfers of one step, those left out that cross no link.

    Parameters
    ----------
    crossings
        The links of each path.
    share
        Per path: its part of the buffer.
    start_ps
        Per path: its latency, after which its bytes occupy all its links.
    images
        How many paths each stands for: 1, or the number of endpoints where they are the paths from endpoint 0 and
        symmetries carry them into those of all others.
    """

    crossings: Crossings
    share: NDArray[np.float64]
    start_ps: Integers
    images: int = 1

    @classmethod
    def joined(cls, several: Sequence[Paths]) -> Paths:
        """Return all paths of several lists as one."""
        lengths = np.concatenate([np.diff(paths.crossings.first) for paths in several])
        first = np.concatenate([[0], np.cumsum(lengths)])
        link = np.concatenate([paths.crossings.link for paths in several])
        weight = np.concatenate([paths.crossings.weight for paths in several])
        share = np.concatenate([paths.share for paths in several])
        start_ps = np.concatenate([paths.start_ps for paths in several])
        return cls(Crossings(first, link, weight), share, start_ps, several[0].images)


class Step(Record, eq=False):
    """One step of a phase, folded.

    Parameters
    ----------
    classes
        Which paths and links are alike.
    share, start_ps
        Per flow class: the part of the buffer that one path carries, and its latency.
    bytes_per_s
        Per link class.
    """

    classes: FlowClasses
    share: NDArray[np.float64]
    start_ps: Integers
    bytes_per_s: Integers

    @property
    def capacities(self) -> list[int]:
        """Per link class: bytes/s in :data:`RATE_UNIT`."""
        return [int(rate) * RATE_UNIT for rate in self.bytes_per_s]

    def flows(self, size_bytes: float, now_ps: int = 0) -> list[Flow]:
        """Return the flows of the step, which begins at `now_ps`."""
        sizes = (_size(share, size_bytes) for share in self.share.tolist())
        rows = zip(self.start_ps.tolist(), sizes, self.classes.weights, strict=True)
        return [Flow(now_ps + start, size, weights) for start, size, weights in rows]


class Loads(Record):
    """What one step puts on the links, per byte of the buffer.

    Parameters
    ----------
    latency_s
        Of the longest path.
    seconds_per_byte
        Time of the busiest link.
    busiest
        The first of the links that take so long; -1 if the network has none.
    bytes_by_kind
        Bytes over all links of a kind; a byte counts on every link that it crosses.
    """

    latency_s: float
    seconds_per_byte: float
    busiest: int
    bytes_by_kind: Mapping[str, float]

    def closed_form_s(self, size_bytes: float) -> float:
        """Return the longest latency and the time of the busiest link, one after the other."""
        return self.latency_s + self.seconds_per_byte * size_bytes


def paths_of(network: Network, members: Integers, phase: Phase, *, symmetric: bool = True) -> Paths:
    """Return the paths of all transfers of one step.

    Where all endpoints of a symmetric network send to all others, the paths from endpoint 0 stand for all.

    Parameters
    ----------
    network
        Finds the routes.
    members
        The endpoint at which each member of the group sits.
    phase
        Its moves are made at once.
    symmetric
        False: every path for itself, symmetries or not.

    Raises
    ------
    InputError
        If the paths cross links more than :data:`MOST_CROSSINGS` times.
    """
    if symmetric and _is_total(network, members, phase):
        sources, targets = np.zeros(len(members) - 1, dtype=np.int64), np.arange(1, len(members))
        images = len(members)
        return Paths.joined([_paths_of_move(network, move, sources, targets, images=images) for move in phase.moves])
    several = []
    for move in phase.moves:
        if isinstance(move.pattern, Everyone):
            _refuse_too_many(network, len(members) * (move.pattern.span - 1))
        sources, targets = (seated(members, ends) for ends in move.pairs(len(members)))
        some = np.linspace(0, len(sources) - 1, min(len(sources), 1000)).astype(np.int64)
        crossings = len(network.routes(sources[some], targets[some]).link)
        _refuse_too_many(network, crossings * len(sources) // max(1, len(some)))
        several.append(_paths_of_move(network, move, sources, targets, weights=move.weights(len(members))))
    return Paths.joined(several) if phase.keeps_step else _along_rings(Paths.joined(several), phase)


def _along_rings(paths: Paths, phase: Phase) -> Paths:
    """Give each step its part of the latency of the longest way along one of the rings, which do not wait for each other."""
    way_ps = paths.start_ps.sum() / len(phase.moves) - paths.start_ps.min()
    return replace(paths, start_ps=np.full_like(paths.start_ps, round(way_ps / phase.steps)))


def loads_of(network: Network, paths: Paths) -> Loads:
    """Sum up what the paths of a step put on links."""
    carried = paths.share[paths.crossings.path] * paths.crossings.weight * paths.images
    loads = np.bincount(paths.crossings.link, carried, network.links).astype(np.float64)
    by_kind = np.bincount(network.kind, loads, len(network.kinds))
    if paths.images > 1 and network.orbit is not None:
        members = np.maximum(1, np.bincount(network.orbit))
        loads = (np.bincount(network.orbit, loads) / members)[network.orbit]
    times = loads / network.bytes_per_s
    busiest = int(times.argmax()) if len(times) else -1
    kinds = {kind: float(size) for kind, size in zip(network.kinds, by_kind, strict=True) if size}
    latency_s = float(paths.start_ps.max(initial=0)) / 1e12
    return Loads(latency_s, float(times.max(initial=0.0)), busiest, kinds)


def folded(network: Network, paths: Paths, owner: Integers | None = None, most_rounds: int | None = None) -> Step:
    """Fold the paths of a step.

    Parameters
    ----------
    network
        Has the bandwidths.
    paths
        All that are under way at once.
    owner
        Per path, a number; paths of different owners stay apart.
    most_rounds
        How often classes may be split; None: until none is.

    Raises
    ------
    UnsettledError
        If classes are still being split after `most_rounds`.
    """
    colours = _labels(paths.share, paths.start_ps)
    if owner is not None:
        colours = _labels(colours, owner)
    if paths.images > 1 and network.orbit is not None:
        return _step(network, paths, fold_by_orbits(colours, paths.crossings, network.orbit, paths.images))
    crossings = _that_may_fill_up(paths.crossings, network.bytes_per_s)
    return _step(network, paths, fold(colours, crossings, network.bytes_per_s, most_rounds))


def last_of_many_ps(network: Network, paths: Paths, size_bytes: float) -> int:
    """Return the end of the last flow of a step, of so many flows that they are not folded.

    Raises
    ------
    InputError
        If rates change too often.
    """
    colours = _labels(paths.share, paths.start_ps)
    _, chosen, group = np.unique(colours, return_index=True, return_inverse=True)
    rows = zip(paths.start_ps[chosen].tolist(), paths.share[chosen].tolist(), strict=True)
    unit = min(RATE_UNIT, 2**62 // int(network.bytes_per_s.max()))
    flows = [(start, _size(share, size_bytes, unit)) for start, share in rows]
    crossings = _that_may_fill_up(paths.crossings, network.bytes_per_s)
    try:
        return last_end_ps(crossings, network.bytes_per_s * unit, group, flows)
    except ValueError as error:
        raise InputError([Problem("", f"{error}; use closed_form")], file=network.name) from error


def _size(share: float, size_bytes: float, unit: int = RATE_UNIT) -> int:
    return round(share * size_bytes * unit) * 10**12


def _step(network: Network, paths: Paths, classes: FlowClasses) -> Step:
    chosen = classes.path
    return Step(classes, paths.share[chosen], paths.start_ps[chosen], network.bytes_per_s[classes.link])


def _refuse_too_many(network: Network, crossings: int) -> None:
    """Refuse a step by an estimate of its crossings, before memory is spent on them."""
    if crossings > MOST_CROSSINGS:
        message = (
            f"the paths of one step cross at least {crossings:,} links, and {MOST_CROSSINGS:,} fit; take fewer ranks, an "
            "algorithm of smaller steps, or a network without exceptions, of which one chip stands for all"
        )
        raise InputError([Problem("", message)], file=network.name)


def seated(members: Integers, ranks: Integers) -> Integers:
    """Return the endpoints at which ranks sit; the switch that reduces stays what it is."""
    return np.where(ranks == SWITCH, SWITCH, members[ranks])


def _is_total(network: Network, members: Integers, phase: Phase) -> bool:
    """Whether all endpoints of a symmetric network send as much to all others."""
    count = len(members)
    if network.orbit is None or count < network.endpoints or len(np.unique(members)) < network.endpoints:
        return False
    everyone = all(isinstance(move.pattern, Everyone) and move.pattern.span == count for move in phase.moves)
    return everyone and all(move.weights(count) is None for move in phase.moves)


def _paths_of_move(
    network: Network,
    move: Move,
    sources: Integers,
    targets: Integers,
    *,
    weights: NDArray[np.float64] | None = None,
    images: int = 1,
) -> Paths:
    routes = network.routes(sources, targets, Touches(*move.touches))
    share = float(move.fraction) / routes.parts
    if weights is not None:
        share = share * weights[routes.transfer]
    kept = routes.lengths > 0
    first = np.concatenate([[0], np.cumsum(routes.lengths[kept])])
    latencies = np.rint(network.latency_s * 1e12).astype(np.int64)[routes.link]
    start_ps = np.add.reduceat(latencies, first[:-1]) if kept.any() else np.zeros(0, dtype=np.int64)
    return Paths(Crossings(first, routes.link, routes.weight), share[kept], start_ps, images)


def _labels(one: NDArray[np.generic], other: NDArray[np.generic]) -> Integers:
    """Return a number for each pair of values."""
    first, second = _numbered(one), _numbered(other)
    count = int(second.max(initial=0)) + 1
    return np.asarray(first * count + second, dtype=np.int64)


def _numbered(values: NDArray[np.generic]) -> Integers:
    if not len(values) or (values == values[0]).all():
        return np.zeros(len(values), dtype=np.int64)
    numbers: Integers = np.unique(values, return_inverse=True)[1].astype(np.int64)
    return numbers


def _that_may_fill_up(crossings: Crossings, capacity: Integers) -> Crossings:
    """Leave out the links that can carry all their paths even if each has the whole of its narrowest link.

    Such a link never holds a path back, and would only spread differences between paths that do not meet elsewhere.
    """
    first, link, weight = crossings.first, crossings.link, crossings.weight
    lengths = np.diff(first)
    each = capacity[link] / weight
    demand = np.bincount(link, np.repeat(np.minimum.reduceat(each, first[:-1]), lengths) * weight, len(capacity))
    kept = (demand >= capacity * (1 - 1e-9))[link]
    if kept.all():
        return crossings
    left = np.concatenate([[0], np.cumsum(np.add.reduceat(kept, first[:-1], dtype=np.int64))])
    return Crossings(left, link[kept], weight[kept])
