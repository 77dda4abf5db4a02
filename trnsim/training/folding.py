"""Which ranks behave alike: nodes that sit alike are priced, and their colours refined.

All ranks of a stage work alike, but for those on slow chips and in groups with one; what tells them apart otherwise is
what their transfers cost and whom they meet. The fold does not depend on how fast a healthy rank works.
"""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from trnsim.engine import Colouring, Meeting, refine
from trnsim.record import Record
from trnsim.training.communication import Coordinates
from trnsim.training.stages import Stage, pipeline_stages

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

    from trnsim.schedules import Pipeline
    from trnsim.training.communication import Communication, RankPrices
    from trnsim.training.replicas import ReplicaClass
    from trnsim.training.sharing_groups import SharingGroups
    from trnsim.training.spec import StepSpec


class Node(Record):
    """Ranks that sit alike: one tensor rank of one stage, in all replicas of a class.

    Parameters
    ----------
    stage
        Their stage.
    first_rank
        The lowest of them.
    ranks
        How many they are.
    prices
        What each of them pays.
    speed, pace
        Share of the healthy speed at which each of them works, and the slowest of its tensor group does.
    """

    stage: Stage
    first_rank: int
    ranks: int
    prices: RankPrices
    speed: float
    pace: float

    @property
    def colour(self) -> Hashable:
        """What tells it apart before it has met anybody."""
        return self.stage.number, self.prices.key, self.speed, self.pace


class Folding(Record):
    """The ranks of a step, sorted into nodes and the nodes into colours.

    Parameters
    ----------
    stages
        The pipeline.
    nodes
        All ranks, by ascending first rank.
    meetings
        The groups, as nodes.
    neighbours
        For each node, the nodes of the stages before and after it; -1 for none. With several virtual stages the last
        stage is before the first.
    colouring
        Which nodes behave alike.
    node_of
        From a rank to the number of its node.
    """

    stages: tuple[Stage, ...]
    nodes: tuple[Node, ...]
    meetings: tuple[Meeting, ...]
    neighbours: tuple[tuple[int, int], ...]
    colouring: Colouring
    node_of: Callable[[int], int]

    @property
    def alike(self) -> tuple[Node, ...]:
        """The first node of each colour, with the ranks of all."""
        ranks: Counter[int] = Counter()
        firsts: dict[int, Node] = {}
        for node, colour in zip(self.nodes, self.colouring.colours, strict=True):
            ranks[colour] += node.ranks
            firsts.setdefault(colour, node)
        return tuple(replace(node, ranks=ranks[colour]) for colour, node in firsts.items())


class _Seat(NamedTuple):
    """Tensor rank, stage, and number of the replica class."""

    tp: int
    pp: int
    replica_class: int

    def in_replica(self, replica: int) -> Coordinates:
        """Return its coordinates in one of the replicas."""
        return Coordinates(self.tp, self.pp, replica)


def fold(spec: StepSpec, communication: Communication, groups: SharingGroups) -> Folding:
    """Sort the ranks of a step by how they behave.

    Parameters
    ----------
    spec
        The step; without `spec.folding` every rank is a node and has a colour of its own.
    communication
        Prices its transfers.
    groups
        Its replicas, sorted into classes.
    """
    stages = pipeline_stages(spec)
    classes = groups.classes
    seats = _seats(spec, classes)
    nodes = tuple(_nodes(seats, spec, communication, stages, classes))
    number = {seat: index for index, seat in enumerate(seats)}

    def node_of(rank: int) -> int:
        place = spec.mesh.coordinates(rank)
        return number[_Seat(place["tp"], place["pp"], groups.class_of(place["dp"]))]

    meetings = tuple(_meetings(spec, groups, number))
    neighbours = tuple(_neighbours(seat, spec.pipeline, number) for seat in seats)
    if spec.folding:
        colouring = refine([node.colour for node in nodes], meetings, neighbours)
    else:
        colouring = Colouring(tuple(range(len(nodes))), len(nodes))
    return Folding(stages, nodes, meetings, neighbours, colouring, node_of)


def _seats(spec: StepSpec, classes: Sequence[ReplicaClass]) -> list[_Seat]:
    mesh = spec.mesh
    found = [
        _Seat(tensor, stage, replica_class)
        for replica_class in range(len(classes))
        for stage in range(mesh.size("pp"))
        for tensor in range(mesh.size("tp"))
    ]
    return sorted(found, key=lambda seat: mesh.rank(seat.in_replica(classes[seat.replica_class].first)._asdict()))


def _nodes(
    seats: Sequence[_Seat],
    spec: StepSpec,
    communication: Communication,
    stages: Sequence[Stage],
    classes: Sequence[ReplicaClass],
) -> Iterator[Node]:
    """Yield a node for each seat; replicas that pay the same are priced once."""
    priced: dict[Coordinates, RankPrices] = {}
    for seat in seats:
        stage, replicas = stages[seat.pp], classes[seat.replica_class]
        payer = seat.in_replica(replicas.like)
        if payer not in priced:
            priced[payer] = communication.prices(payer, stage.exchanges, stage.buckets)
        rank = spec.mesh.rank(seat.in_replica(replicas.first)._asdict())
        speed, pace = _speeds(spec, rank)
        yield Node(stage, rank, replicas.replicas, priced[payer], speed, pace)


def _speeds(spec: StepSpec, rank: int) -> tuple[float, float]:
    """Return the speed of a rank, and that of the slowest of its tensor group."""
    if not spec.slow:
        return 1.0, 1.0
    group = spec.mesh.group("tp", rank).members()
    return spec.slow.get(rank, 1.0), min(spec.slow.get(mate, 1.0) for mate in group)


def _meetings(spec: StepSpec, groups: SharingGroups, number: Mapping[_Seat, int]) -> Iterator[Meeting]:
    tensors, stages, replicas = range(spec.mesh.size("tp")), range(spec.mesh.size("pp")), range(len(groups.classes))
    if len(tensors) > 1:
        for q in replicas:
            for s in stages:
                yield Meeting("tp", tuple((number[_Seat(t, s, q)], 1) for t in tensors))
    if spec.mesh.size("dp") > 1:
        compositions = [("dp", members) for members in groups.sharing]
        compositions += [("dp copies", members) for members in groups.copies]
        for s, t, (axis, members) in product(stages, tensors, compositions):
            yield Meeting(axis, tuple((number[_Seat(t, s, q)], count) for q, count in members))
    if spec.model.tied_embeddings and len(stages) > 1:
        for q in replicas:
            for t in tensors:
                yield Meeting("tied", tuple((number[_Seat(t, s, q)], 1) for s in (stages[0], stages[-1])))


def _neighbours(seat: _Seat, pipeline: Pipeline, number: Mapping[_Seat, int]) -> tuple[int, int]:
    places = (seat.pp - 1, seat.pp + 1)
    if pipeline.virtual_stages > 1:
        places = ((seat.pp - 1) % pipeline.stages, (seat.pp + 1) % pipeline.stages)
    before, after = (number.get(seat._replace(pp=place), -1) for place in places)
    return before, after
