"""Replicas whose tensor groups do the same: those whose slow chips are in the same stages, whose links cost the same."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from operator import mul
from typing import TYPE_CHECKING, NamedTuple

from trnsim.training.communication import Coordinates
from trnsim.training.views import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from trnsim.training.blemishes import Blemish
    from trnsim.training.replicas import ReplicaClass, Replicas
    from trnsim.training.spec import StepSpec

__all__ = ["Lanes", "Rows", "Sizes", "Slow", "Sort", "kinds_of", "late_sorts", "sorts_of", "told_kinds"]

Place = tuple[int, int]
Rows = Mapping[Place, int]
"""By stage and tensor rank, the number of the team in its stage."""
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
        Whether each tensor rank is a kind of its own.
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


def kinds_of(spec: StepSpec, sort: Sort, rows: Rows, lanes: Lanes, slow: Slow) -> tuple[tuple[Kind, ...], ...]:
    """Count the kinds of ranks that a sort of replicas has, by stage, each with its first rank.

    Replicas without slow ranks in a stage are counted, others are looked at one by one.
    """
    speeds: defaultdict[int, defaultdict[int, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for replica in sort.counts:
        for (stage, tensor), speed in slow.get(replica, ()):
            speeds[stage][replica][tensor] = speed
    parts = {(s, t): (t if sort.is_late else -1, row, lanes[s, t]) for (s, t), row in rows.items()}
    stages = range(spec.mesh.size("pp"))
    return tuple(_kinds_of_stage(spec, parts, sort.counts, speeds[stage], stage) for stage in stages)


def _kinds_of_stage(
    spec: StepSpec,
    parts: Mapping[Place, tuple[int, int, int]],
    replicas: Mapping[int, int],
    speeds: Mapping[int, Mapping[int, float]],
    stage: int,
) -> tuple[Kind, ...]:
    counts: Counter[tuple[int, int, int, float]] = Counter()
    firsts: dict[tuple[int, int, int, float], int] = {}
    strides = [spec.mesh.stride(axis) for axis in Coordinates._fields]
    healthy = [replica for replica in replicas if replica not in speeds]
    looked_at = {replica: replicas[replica] for replica in speeds}
    if healthy:
        looked_at[min(healthy)] = sum(replicas[replica] for replica in healthy)
    for replica, count in looked_at.items():
        slow = speeds.get(replica, {})
        for tensor in range(spec.mesh.size("tp")):
            rank = sum(map(mul, (tensor, stage, replica), strides))
            kind = (*parts[stage, tensor], slow.get(tensor, 1.0))
            counts[kind] += count
            firsts[kind] = min(rank, firsts.get(kind, rank))
    return tuple(Kind(*kind[1:], counts[kind], firsts[kind]) for kind in sorted(counts))
