"""Who shares with whom among data-parallel replicas: groups of neighbours, and across them the replicas that hold the same.

With one group all replicas meet, and replicas that sit alike are counted. With several (hybrid sharding) two replicas
are alike only if their groups are: classes are split until all replicas of one meet equally many of each other class.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from trnsim.training.blemishes import blemishes
from trnsim.training.communication import Coordinates
from trnsim.training.crossings import crossings
from trnsim.training.replicas import ReplicaClass, Replicas

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from trnsim.training.replicas import Blocks, MeetingTier
    from trnsim.training.spec import StepSpec

Members = tuple[tuple[int, int], ...]
"""A group as classes see it: number of the class, and how many of the group are of it."""


class SharingGroups(NamedTuple):
    """The replicas of a step, and how they meet.

    Attributes
    ----------
    classes
        Replicas that behave alike.
    class_of
        From a replica to the number of its class.
    payer
        From tensor rank, stage, and the replica that a class is `like`, to the first rank that pays the same.
    sharing
        The groups that share, one of each composition.
    copies
        The groups that hold the same, one of each composition; none if all replicas share.
    """

    classes: Sequence[ReplicaClass]
    class_of: Callable[[int], int]
    payer: Callable[[int, int, int], Coordinates]
    sharing: Sequence[Members]
    copies: Sequence[Members]


def sharing_groups(spec: StepSpec, meeting_tier: MeetingTier, blocks: Blocks) -> SharingGroups:
    """Sort the replicas of a step into classes, and its data-parallel groups by composition.

    Parameters
    ----------
    spec
        The step; without `spec.folding` every replica is a class.
    meeting_tier
        Tier of the fabric at which two chips of the cluster meet.
    blocks
        Chips below one switch group of each tier.

    Notes
    -----
    Impaired links tell several groups apart in ways that the places of replicas do not show; then each replica is a class.
    """
    apart = not spec.folding or (spec.sharding.copies > 1 and spec.impairments.of_links)
    if not apart:
        leaving = crossings(spec)
        alike = Replicas(spec, leaving, meeting_tier, blocks, blemishes(spec, leaving, blocks))
        if spec.sharding.copies == 1:
            whole = tuple((number, each.replicas) for number, each in enumerate(alike.classes))
            return SharingGroups(alike.classes, alike.class_of, alike.payer, [whole], [])
    replicas = range(spec.sharding.ranks)
    numbers = list(replicas) if apart else _equitable(spec, list(map(alike.class_of, replicas)), meeting_tier)
    counted, firsts = Counter(numbers), dict(reversed([(number, replica) for replica, number in enumerate(numbers)]))
    classes = [ReplicaClass(firsts[number], counted[number], firsts[number]) for number in range(len(counted))]
    sharing, copies = (_compositions(numbers, groups) for groups in _groups(spec, replicas))
    return SharingGroups(classes, numbers.__getitem__, Coordinates, sharing, copies if spec.sharding.copies > 1 else [])


def like_the_first(spec: StepSpec) -> SharingGroups:
    """Sort the replicas of a step as if they all sat where the first does."""
    group, copies, ranks = spec.sharding.group, spec.sharding.copies, spec.sharding.ranks
    met = [((0, copies),)] if copies > 1 else []
    return SharingGroups([ReplicaClass(0, ranks, 0)], lambda _: 0, Coordinates, [((0, group),)], met)


def _groups(spec: StepSpec, replicas: Sequence[int]) -> tuple[list[Sequence[int]], list[Sequence[int]]]:
    group, copies = spec.sharding.group, spec.sharding.copies
    sharing = [replicas[number * group : (number + 1) * group] for number in range(copies)]
    return sharing, [replicas[position::group] for position in range(group)]


def _equitable(spec: StepSpec, places: Sequence[Hashable], meeting_tier: MeetingTier) -> list[int]:
    """Return a number for every replica: those of one number sit alike and meet alike."""
    sharing, copies = _groups(spec, range(spec.sharding.ranks))
    tiers = [[_tiers(spec, group, meeting_tier) for group in groups] for groups in (sharing, copies)]
    group = spec.sharding.group
    numbers = _numbered(places)
    while True:
        met = [
            [(tier, _composition(numbers, members)) for tier, members in zip(found, groups, strict=True)]
            for found, groups in zip(tiers, (sharing, copies), strict=True)
        ]
        signatures = [_numbered(labels) for labels in met]
        refined = _numbered(
            [(number, signatures[0][at // group], signatures[1][at % group]) for at, number in enumerate(numbers)]
        )
        if max(refined) == max(numbers):
            return numbers
        numbers = refined


def _tiers(spec: StepSpec, group: Sequence[int], meeting_tier: MeetingTier) -> tuple[int, ...]:
    """Return the tiers at which the chips of neighbours in a group meet."""
    mesh, endpoint = spec.mesh, spec.placement.endpoint
    ranks = [
        stage * mesh.stride("pp") + tensor * mesh.stride("tp")
        for stage in range(mesh.size("pp"))
        for tensor in range(mesh.size("tp"))
    ]
    one_a_chip = {endpoint(rank): rank for rank in ranks}.values()
    stride = mesh.stride("dp")
    return tuple(
        meeting_tier(endpoint(one * stride + rank), endpoint(other * stride + rank))
        for one, other in pairwise(group)
        for rank in one_a_chip
    )


def _numbered(keys: Sequence[Hashable]) -> list[int]:
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(key, len(numbers)) for key in keys]


def _composition(numbers: Sequence[int], members: Sequence[int]) -> Members:
    return tuple(sorted(Counter(numbers[member] for member in members).items()))


def _compositions(numbers: Sequence[int], groups: Sequence[Sequence[int]]) -> list[Members]:
    return list(dict.fromkeys(_composition(numbers, members) for members in groups))
