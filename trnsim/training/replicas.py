"""Replicas that sit alike: the classes of data-parallel coordinates that nothing can tell apart.

Servers are alike but for what is impaired in them, so what a replica's ranks pay each other depends on where the replica
starts in a server, and, for what leaves a server, on the tiers of the fabric at which chips meet. Two replicas that agree
in both, and in what is wrong in them, are of one class; a class is simulated by its first replica. Where nothing tells
replicas apart but their place in a server they are counted, not listed.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from trnsim.training.communication import Coordinates

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

    from trnsim.training.blemishes import Blemish
    from trnsim.training.crossings import Crossing
    from trnsim.training.spec import StepSpec

    MeetingTier = Callable[[int, int], int]
    Blocks = Sequence[int]
    Key = tuple[int, tuple[int, ...], Hashable, Hashable, Hashable]


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
    spec
        The step.
    crossings
        What leaves servers.
    meeting_tier
        Tier of the fabric at which two chips of the cluster meet.
    blocks
        Chips below one switch group of each tier.
    blemishes
        What is wrong in some of the replicas.

    Attributes
    ----------
    classes
        In no particular order.
    """

    def __init__(
        self,
        spec: StepSpec,
        crossings: Sequence[Crossing],
        meeting_tier: MeetingTier,
        blocks: Blocks,
        blemishes: Mapping[int, Blemish],
    ) -> None:
        self._spec, self._meeting_tier, self._blocks, self._blemishes = spec, meeting_tier, blocks, blemishes
        self._crossings = crossings
        self._tiers: dict[Hashable, tuple[int, ...]] = {}
        firsts: dict[Key, int] = {}
        counts: dict[Key, int] = {}
        likes: dict[Hashable, int] = {}
        inside: dict[Hashable, int] = {}
        keys = [(replica, self._key(replica), count) for replica, count in self._counted(spec.mesh.size("dp"))]
        for replica, key, count in keys:
            place, _, links, _, _ = key
            counts[key] = counts.get(key, 0) + count
            firsts[key] = min(replica, firsts.get(key, replica))
            likes[key[:4]] = min(replica, likes.get(key[:4], replica))
            inside[place, links] = min(replica, inside.get((place, links), replica))
        self.classes = [ReplicaClass(firsts[key], counts[key], likes[key[:4]]) for key in firsts]
        self._usual = {likes[key[:4]]: inside[key[0], key[2]] for key in firsts}
        self._numbers = {key: number for number, key in enumerate(firsts)}
        self._classes = {replica: self._numbers[key] for replica, key, _ in keys}

    def class_of(self, replica: int) -> int:
        """Return the number of a replica's class."""
        if replica not in self._classes:
            self._classes[replica] = self._numbers[self._key(replica)]
        return self._classes[replica]

    @property
    def likes(self) -> list[int]:
        """The first replicas of all that pay the same prices."""
        return list(self._usual)

    def payer(self, tensor: int, stage: int, like: int) -> Coordinates:
        """Return the first rank that pays what one of a replica pays: one like `like`, or for what stays inside a server of more."""
        leaves = (tensor, stage) in self._crossings[like % len(self._crossings)].seats
        return Coordinates(tensor, stage, like if leaves else self._usual[like])

    def payers(self) -> Counter[Coordinates]:
        """Return the first ranks that pay each price, and how many there are of each."""
        alike: Counter[int] = Counter()
        for each in self.classes:
            alike[each.like] += each.replicas
        found: Counter[Coordinates] = Counter()
        mesh = self._spec.mesh
        for like, replicas in alike.items():
            for stage in range(mesh.size("pp")):
                for tensor in range(mesh.size("tp")):
                    found[self.payer(tensor, stage, like)] += replicas
        return found

    def _counted(self, replicas: int) -> Iterator[tuple[int, int]]:
        """Yield replicas, each with how many it stands for."""
        if any(crossing.pairs for crossing in self._crossings):
            yield from ((replica, 1) for replica in range(replicas))
            return
        for place in range(len(self._crossings)):
            of_place = range(place, replicas, len(self._crossings))
            struck = [replica for replica in self._blemishes if replica in of_place]
            yield from ((replica, 1) for replica in struck)
            if len(struck) < len(of_place):
                yield (
                    next(replica for replica in of_place if replica not in self._blemishes),
                    len(of_place) - len(struck),
                )

    def _key(self, replica: int) -> Key:
        """Return what a replica's ranks pay, in four parts, and how fast they are."""
        place = replica % len(self._crossings)
        tiers = self._tiers_of(replica, self._crossings[place]) if self._crossings[place].pairs else ()
        wrong = self._blemishes.get(replica)
        links, ways = wrong.links if wrong else (), wrong.ways if wrong else ()
        return place, tiers, links, ways, wrong.speeds if wrong else ()

    def _tiers_of(self, replica: int, crossing: Crossing) -> tuple[int, ...]:
        """Return the tiers at which pairs meet; they are the same where switch groups end at the same chips."""
        placement = self._spec.placement
        first_chip = replica * self._spec.mesh.stride("dp") // placement.ranks_per_server * placement.chips
        lowest, highest = min(map(min, crossing.pairs)), max(map(max, crossing.pairs))
        ends = tuple(
            range(((first_chip + lowest) // block + 1) * block - first_chip, highest + 1, block)
            for block in self._blocks
        )
        key = replica % len(self._crossings), ends
        if key not in self._tiers:
            self._tiers[key] = tuple(self._meeting_tier(first_chip + a, first_chip + b) for a, b in crossing.pairs)
        return self._tiers[key]
