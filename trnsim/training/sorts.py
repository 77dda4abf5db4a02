"""Replicas whose tensor groups do the same: those whose slow chips are in the same stages, whose links cost the same."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from trnsim.training.communication import Coordinates
from trnsim.training.views import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterator, Sequence

    from trnsim.training.blemishes import Blemish
    from trnsim.training.replicas import ReplicaClass, Replicas
    from trnsim.training.spec import StepSpec

__all__ = [
    "Columns",
    "Lanes",
    "Rows",
    "Sizes",
    "Slow",
    "Sort",
    "kinds_of",
    "late_sorts",
    "parts_of",
    "sorts_of",
    "told_kinds",
]

Place = tuple[int, int]
Rows = Mapping[Place, int]
"""By stage and tensor rank, the number of the team in its stage."""
Columns = tuple[int, ...]
"""For each tensor rank, the first that nothing tells apart from it in any stage of any replica."""
Lanes = Mapping[Place, int]
"""By stage and tensor rank, the number of the tail in its stage."""
Slow = Mapping[int, tuple[tuple[Place, float], ...]]
"""For each replica with slow ranks, of each its stage and tensor rank and the share of the healthy speed at which it works."""


class Sizes(NamedTuple):
    """Sizes of the axes inside a replica."""

    tp: int
    pp: int


class Sort(NamedTuple):
    """Replicas whose teams are alike.

    Attributes
    ----------
    like
        One that pays the same.
    counts
        Those that were looked at, each with how many it stands for.
    is_late
        Whether they are still at work when gradients of their stage are being reduced, on links that both use.
    """

    like: int
    counts: Mapping[int, int]
    is_late: bool = False

    @property
    def first(self) -> int:
        """The first of them."""
        return min(self.counts)

    @property
    def replicas(self) -> int:
        """How many they are."""
        return sum(self.counts.values())


def told_kinds(blemish: Blemish, rows: Rows, lanes: Lanes, sizes: Sizes) -> Blemish:
    """Say of the slow stages of a replica only which kinds of ranks they have.

    In the first step all begin together, so there is no need to know to which tail a slow rank belongs.
    """
    by_stage: defaultdict[int, dict[int, float]] = defaultdict(dict)
    for stage, tensor, speed in blemish.speeds:
        by_stage[stage][tensor] = speed
    kinds = (
        (stage, *kind)
        for stage, slow in by_stage.items()
        for kind in {(rows[stage, t], lanes[stage, t], slow.get(t, 1.0)) for t in range(sizes.tp)}
    )
    return blemish._replace(speeds=tuple(sorted(kinds)))  # type: ignore[arg-type]  # said of kinds, not of ranks


def sorts_of(
    teams: Replicas, wrong: Mapping[int, Blemish], told: Callable[[ReplicaClass], Hashable]
) -> tuple[tuple[Sort, ...], list[int]]:
    """Return the replicas whose teams are alike, and for each class of replicas the number of its sort.

    Healthy replicas are counted, others are looked at one by one.
    """
    struck: defaultdict[int, dict[int, int]] = defaultdict(dict)
    for replica in wrong:
        struck[teams.class_of(replica)][replica] = 1
    numbers: dict[Hashable, int] = {}
    found: list[Sort] = []
    of_class = []
    for number, each in enumerate(teams.classes):
        counts = struck.get(number, {each.first: each.replicas})
        of_class.append(numbers.setdefault(told(each), len(numbers)))
        if of_class[-1] < len(found):
            sort = found[of_class[-1]]
            like = min(sort.like, each.like)
            found[of_class[-1]] = Sort(like, {**sort.counts, **counts})
        else:
            found.append(Sort(each.like, counts))
    return tuple(found), of_class


def late_sorts(sort: Sort, slow: Slow) -> dict[Hashable, Sort]:
    """Tell replicas of which others are slow apart: by what is slow in them."""
    found: defaultdict[Hashable, dict[int, int]] = defaultdict(dict)
    for replica, count in sort.counts.items():
        found[slow.get(replica)][replica] = count
    return {told: Sort(sort.like, counts, is_late=True) for told, counts in found.items()}


class Part(NamedTuple):
    """Ranks of a stage that are one kind where none is slow.

    Attributes
    ----------
    row, lane
        Their team and tail.
    tensors
        Their tensor ranks.
    """

    row: int
    lane: int
    tensors: tuple[int, ...]


def parts_of(
    rows: Rows, lanes: Lanes, stages: int, columns: Columns, by_column: Collection[int]
) -> tuple[tuple[Part, ...], ...]:
    """Divide the ranks of each stage by team and tail, of some stages by column."""
    found: list[defaultdict[tuple[int, ...], list[int]]] = [defaultdict(list) for _ in range(stages)]
    for (stage, tensor), row in rows.items():
        apart = (columns[tensor],) if stage in by_column else ()
        found[stage][*apart, row, lanes[stage, tensor]].append(tensor)
    return tuple(
        tuple(Part(key[-2], key[-1], tuple(tensors)) for key, tensors in sorted(each.items())) for each in found
    )


def kinds_of(spec: StepSpec, sort: Sort, parts: Sequence[Sequence[Part]], slow: Slow) -> tuple[tuple[Kind, ...], ...]:
    """Count the kinds of ranks that a sort of replicas has, by stage, each with its first rank.

    Replicas without slow ranks in a stage are counted, others are looked at one by one.
    """
    speeds: defaultdict[int, defaultdict[int, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for replica in sort.counts:
        for (stage, tensor), speed in slow.get(replica, ()):
            speeds[stage][replica][tensor] = speed
    return tuple(
        tuple(_kinds_of_stage(spec, each, sort.counts, speeds.get(stage, {}), stage))
        for stage, each in enumerate(parts)
    )


def _kinds_of_stage(
    spec: StepSpec,
    parts: Sequence[Part],
    replicas: Mapping[int, int],
    speeds: Mapping[int, Mapping[int, float]],
    stage: int,
) -> Iterator[Kind]:
    tp, pp, dp = (spec.mesh.stride(axis) for axis in Coordinates._fields)
    healthy = {replica: count for replica, count in replicas.items() if replica not in speeds}
    for row, lane, tensors in parts:
        counts: Counter[float] = Counter()
        firsts: dict[float, int] = {}
        if healthy:
            counts[1.0] = sum(healthy.values()) * len(tensors)
            firsts[1.0] = tensors[0] * tp + stage * pp + min(healthy) * dp
        for replica, slow in speeds.items():
            for tensor in tensors:
                speed, rank = slow.get(tensor, 1.0), tensor * tp + stage * pp + replica * dp
                counts[speed] += replicas[replica]
                firsts[speed] = min(rank, firsts.get(speed, rank))
        yield from (Kind(row, lane, speed, counts[speed], firsts[speed]) for speed in sorted(counts))
