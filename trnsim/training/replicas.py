"""Replicas that sit alike: the classes of data-parallel coordinates that nothing can tell apart.

Servers are alike but for what is impaired in them, so what a replica's ranks pay each other depends on where the replica
starts in a server, and, if it touches several servers, on the tiers of the fabric at which its chips meet. The tiers of
consecutive chips settle those of all pairs: switch groups are intervals of chips, so two chips meet at the highest tier
between them. Two replicas that agree in both, and in what is wrong in them, are of one class; a class is simulated by its
first replica. Where nothing tells replicas apart but their place in a server they are counted, not listed.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

    from trnsim.parallel import Mesh, Placement
    from trnsim.training.blemishes import Blemish

    MeetingTier = Callable[[int, int], int]
    Blocks = Sequence[int]


class ReplicaClass(NamedTuple):
    """Replicas that sit alike.

    Parameters
    ----------
    first
        The first of them.
    replicas
        How many there are.
    like
        The first replica of all that pay the same prices.
    """

    first: int
    replicas: int
    like: int


class Replicas:
    """The replicas of a mesh, sorted into classes.

    Parameters
    ----------
    mesh
        The ranks.
    placement
        Where they sit.
    meeting_tier
        Tier of the fabric at which two chips of the cluster meet.
    blemishes
        What is wrong in some of the replicas.

    Attributes
    ----------
    classes
        In no particular order.
    """

    def __init__(
        self, mesh: Mesh, placement: Placement, meeting_tier: MeetingTier, blemishes: Mapping[int, Blemish]
    ) -> None:
        self._stride, self._placement, self._meeting_tier = mesh.stride("dp"), placement, meeting_tier
        self._blemishes = blemishes
        replicas = mesh.size("dp")
        self._period = placement.ranks_per_server // math.gcd(self._stride, placement.ranks_per_server)
        places = range(min(self._period, replicas))
        self._neighbours = [_neighbouring_chips(mesh, placement, place * self._stride) for place in places]
        firsts: dict[Hashable, int] = {}
        counts: dict[Hashable, int] = {}
        likes: dict[Hashable, int] = {}
        keys = [(replica, self._key(replica), count) for replica, count in self._counted(replicas)]
        for replica, key, count in keys:
            counts[key] = counts.get(key, 0) + count
            firsts[key] = min(replica, firsts.get(key, replica))
            likes[key[:2]] = min(replica, likes.get(key[:2], replica))
        self.classes = [ReplicaClass(firsts[key], counts[key], likes[key[:2]]) for key in firsts]  # type: ignore[index]
        self._numbers = {key: number for number, key in enumerate(firsts)}
        self._classes = {replica: self._numbers[key] for replica, key, _ in keys}

    def class_of(self, replica: int) -> int:
        """Return the number of a replica's class."""
        if replica not in self._classes:
            self._classes[replica] = self._numbers[self._key(replica)]
        return self._classes[replica]

    def _counted(self, replicas: int) -> Iterator[tuple[int, int]]:
        """Yield replicas, each with how many it stands for."""
        if any(self._neighbours):
            yield from ((replica, 1) for replica in range(replicas))
            return
        for place in range(len(self._neighbours)):
            of_place = range(place, replicas, self._period)
            struck = [replica for replica in self._blemishes if replica in of_place]
            yield from ((replica, 1) for replica in struck)
            if len(struck) < len(of_place):
                yield (
                    next(replica for replica in of_place if replica not in self._blemishes),
                    len(of_place) - len(struck),
                )

    def _key(self, replica: int) -> tuple[Hashable, ...]:
        """Return what a replica's ranks pay, in two parts, and how fast they are."""
        place = replica % self._period
        first_chip = replica * self._stride // self._placement.ranks_per_server * self._placement.chips
        tiers = tuple(self._meeting_tier(first_chip + a, first_chip + b) for a, b in self._neighbours[place])
        wrong = self._blemishes.get(replica)
        return (place, *tiers), wrong.links if wrong else (), wrong.speeds if wrong else ()


def _neighbouring_chips(mesh: Mesh, placement: Placement, start: int) -> list[tuple[int, int]]:
    """Return consecutive chips of a replica, counted from its first server; none if it touches one server only."""
    first_chip = start // placement.ranks_per_server * placement.chips
    chips = {
        placement.endpoint(start + stage * mesh.stride("pp") + tensor * mesh.stride("tp")) - first_chip
        for stage in range(mesh.size("pp"))
        for tensor in range(mesh.size("tp"))
    }
    ordered = sorted(chips)
    return list(pairwise(ordered)) if ordered[-1] >= placement.chips else []
