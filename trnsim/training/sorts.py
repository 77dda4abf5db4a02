"""Replicas whose tensor groups do the same: those whose slow chips are in the same stages, whose links cost the same."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from operator import mul
from typing import TYPE_CHECKING, NamedTuple

from trnsim.training.communication import Coordinates
from trnsim.training.views import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from trnsim.training.blemishes import Blemish
    from trnsim.training.replicas import ReplicaClass, Replicas
    from trnsim.training.spec import StepSpec

__all__ = ["Sizes", "Sort", "Speeds", "kinds_of", "late_sorts", "sorts_of"]

Speeds = tuple[tuple[tuple[int, int], float], ...]
"""For each slow rank of a replica its stage, its tensor rank, and the share of the healthy speed at which it works."""


class Sizes(NamedTuple):
    """Sizes of the axes inside a replica."""

    tp: int
    pp: int


class Sort(NamedTuple):
    """Replicas whose teams are alike.

    Attributes
    ----------
    first, replicas
        The first of them, and how many they are.
    like
        One that pays the same.
    kinds
        The kinds of their ranks, by stage.
    looked_at
        Those that were looked at, each with how many it stands for.
    is_late
        Whether each tensor rank is a kind of its own.
    """

    first: int
    replicas: int
    like: int
    kinds: tuple[tuple[Kind, ...], ...]
    looked_at: Mapping[int, int]
    is_late: bool = False


def kinds_of(blemish: Blemish, parts: Mapping[tuple[int, int], tuple[int, int]], sizes: Sizes) -> Blemish:
    """Say of the slow stages of a replica only which kinds of ranks they have.

    In the first step all begin together, so there is no need to know to which tail a slow rank belongs.
    """
    by_stage: defaultdict[int, dict[int, float]] = defaultdict(dict)
    for stage, tensor, speed in blemish.speeds:
        by_stage[stage][tensor] = speed
    kinds = (
        (stage, part, speed)
        for stage, slow in by_stage.items()
        for part, speed in {(parts[stage, tensor], slow.get(tensor, 1.0)) for tensor in range(sizes.tp)}
    )
    return blemish._replace(speeds=tuple(sorted(kinds)))  # type: ignore[arg-type]  # said of kinds, not of ranks


def sorts_of(
    spec: StepSpec,
    teams: Replicas,
    wrong: Mapping[int, Blemish],
    parts: Mapping[tuple[int, int], tuple[int, int]],
    *,
    told: Callable[[ReplicaClass], Hashable],
    sizes: Sizes,
) -> tuple[tuple[Sort, ...], list[int]]:
    """Return the replicas whose teams are alike, and for each class of replicas the number of its sort.

    Healthy replicas are counted, others are looked at one by one.
    """
    members: defaultdict[int, dict[int, int]] = defaultdict(dict)
    slow: defaultdict[tuple[int, int], dict[int, float]] = defaultdict(dict)
    for replica, blemish in wrong.items():
        members[teams.class_of(replica)][replica] = 1
        for stage, tensor, speed in blemish.speeds:
            slow[replica, stage][tensor] = speed
    alike = [_alike(parts, stage, sizes.tp) for stage in range(sizes.pp)]
    numbers: dict[Hashable, int] = {}
    found: list[Sort] = []
    of_class = []
    for number, each in enumerate(teams.classes):
        replicas = members.get(number, {each.first: each.replicas})
        kinds = tuple(
            _kinds_of_stage(spec, parts, slow, stage=stage, replicas=replicas, alike=alike[stage])
            for stage in range(sizes.pp)
        )
        sort = Sort(each.first, each.replicas, each.like, kinds, replicas)
        of_class.append(numbers.setdefault(told(each), len(numbers)))
        if of_class[-1] < len(found):
            found[of_class[-1]] = _together(found[of_class[-1]], sort)
        else:
            found.append(sort)
    return tuple(found), of_class


def late_sorts(
    spec: StepSpec, sort: Sort, parts: Mapping[tuple[int, int], tuple[int, int]], speeds_of: Callable[[int], Speeds]
) -> dict[Speeds, Sort]:
    """Tell the ranks of a sort apart, and replicas of which others are slow: by what is slow in them."""
    replicas: defaultdict[Speeds, dict[int, int]] = defaultdict(dict)
    for replica, count in sort.looked_at.items():
        replicas[speeds_of(replica)][replica] = count
    return {speeds: _late_sort(spec, sort, parts, dict(speeds), found) for speeds, found in replicas.items()}


def _late_sort(
    spec: StepSpec,
    sort: Sort,
    parts: Mapping[tuple[int, int], tuple[int, int]],
    speeds: Mapping[tuple[int, int], float],
    looked_at: Mapping[int, int],
) -> Sort:
    mesh, first, replicas = spec.mesh, min(looked_at), sum(looked_at.values())
    kinds = tuple(
        tuple(
            Kind(
                *parts[stage, tensor],
                speeds.get((stage, tensor), 1.0),
                replicas,
                mesh.rank(Coordinates(tensor, stage, first)._asdict()),
            )
            for tensor in range(mesh.size("tp"))
        )
        for stage in range(mesh.size("pp"))
    )
    return Sort(first, replicas, sort.like, kinds, looked_at, is_late=True)


def _together(one: Sort, other: Sort) -> Sort:
    """Return two sorts of replicas as one."""
    earlier, later = sorted((one, other), key=lambda sort: sort.first)
    kinds = []
    for stage in zip(one.kinds, other.kinds, strict=True):
        counts: Counter[tuple[int, int, float]] = Counter()
        firsts: dict[tuple[int, int, float], int] = {}
        for row, lane, speed, ranks, first in (kind for found in stage for kind in found):
            counts[row, lane, speed] += ranks
            firsts[row, lane, speed] = min(first, firsts.get((row, lane, speed), first))
        kinds.append(tuple(Kind(*kind, counts[kind], firsts[kind]) for kind in sorted(counts)))
    looked_at = {**earlier.looked_at, **later.looked_at}
    return Sort(earlier.first, earlier.replicas + later.replicas, earlier.like, tuple(kinds), looked_at)


def _alike(parts: Mapping[tuple[int, int], tuple[int, int]], stage: int, tensors: int) -> list[list[int]]:
    """Return the tensor ranks of each part of a stage."""
    found: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for tensor in range(tensors):
        found[parts[stage, tensor]].append(tensor)
    return list(found.values())


def _kinds_of_stage(
    spec: StepSpec,
    parts: Mapping[tuple[int, int], tuple[int, int]],
    slow: Mapping[tuple[int, int], Mapping[int, float]],
    *,
    stage: int,
    replicas: Mapping[int, int],
    alike: Sequence[Sequence[int]],
) -> tuple[Kind, ...]:
    """Count the kinds of ranks that a class of replicas has in a stage, each with its first rank.

    Replicas without slow ranks there are counted, others are looked at one by one. Tensor ranks of one part are `alike`.
    """
    counts: Counter[tuple[int, int, float]] = Counter()
    firsts: dict[tuple[int, int, float], int] = {}
    strides = [spec.mesh.stride(axis) for axis in Coordinates._fields]

    def add(tensors: Sequence[int], replica: int, speed: float, replicas: int) -> None:
        rank = sum(map(mul, (tensors[0], stage, replica), strides))
        kind = (*parts[stage, tensors[0]], speed)
        counts[kind] += replicas * len(tensors)
        firsts[kind] = min(rank, firsts.get(kind, rank))

    healthy = [replica for replica in replicas if (replica, stage) not in slow]
    if healthy:
        for tensors in alike:
            add(tensors, min(healthy), 1.0, sum(replicas[replica] for replica in healthy))
    for replica in replicas.keys() - healthy:
        for tensor in itertools.chain(*alike):
            add([tensor], replica, slow[replica, stage].get(tensor, 1.0), replicas[replica])
    return tuple(Kind(*kind, counts[kind], firsts[kind]) for kind in sorted(counts))
