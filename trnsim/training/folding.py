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
    """Ranks that sit alike: tensor ranks of one stage that nothing tells apart, in all replicas of a class.

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
    """Number of the column of tensor ranks, stage, and number of the replica class."""

    column: int
    pp: int
    replica_class: int


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
    prices = _priced(spec, communication, stages, groups)
    columns = _columns(spec, prices, groups)
    seats = _seats(spec, columns, groups.classes)

    def node(seat: _Seat) -> Node:
        each, tensors = groups.classes[seat.replica_class], columns[seat.column]
        rank = _first_rank(seat, spec, columns, groups.classes)
        paid = prices[groups.payer(tensors[0], seat.pp, each.like)]
        return Node(stages[seat.pp], rank, each.replicas * len(tensors), paid, *_speeds(spec, rank))

    nodes = tuple(map(node, seats))
    number = {seat: index for index, seat in enumerate(seats)}
    column_of = {tensor: index for index, column in enumerate(columns) for tensor in column}

    def node_of(rank: int) -> int:
        place = spec.mesh.coordinates(rank)
        return number[_Seat(column_of[place["tp"]], place["pp"], groups.class_of(place["dp"]))]

    meetings = tuple(_meetings(spec, columns, groups, number))
    neighbours = tuple(_neighbours(seat, spec.pipeline, number) for seat in seats)
    if not spec.folding:
        alone = Colouring(range(len(nodes)), len(nodes))
        return Folding(stages, nodes, meetings, neighbours, alone, lambda rank: rank)
    colouring = refine([node.colour for node in nodes], meetings, neighbours)
    return Folding(stages, nodes, meetings, neighbours, colouring, node_of)


def _priced(
    spec: StepSpec, communication: Communication, stages: Sequence[Stage], groups: SharingGroups
) -> dict[Coordinates, RankPrices]:
    """Return the prices of the first of all ranks that pay the same; these choose algorithms in the order of ranks."""
    payers = {
        groups.payer(tensor, stage, like)
        for like in {each.like for each in groups.classes}
        for stage in range(spec.mesh.size("pp"))
        for tensor in range(spec.mesh.size("tp"))
    }
    ordered = sorted(payers, key=lambda place: spec.mesh.rank(place._asdict()))
    return {
        place: communication.prices(place, stages[place.pp].exchanges, stages[place.pp].buckets) for place in ordered
    }


def _columns(spec: StepSpec, prices: Mapping[Coordinates, RankPrices], groups: SharingGroups) -> list[tuple[int, ...]]:
    """Sort the tensor ranks that nothing tells apart in any stage of any replica."""
    if not spec.folding:
        return [(tensor,) for tensor in range(spec.mesh.size("tp"))]
    seen: list[list[Hashable]] = [[] for _ in range(spec.mesh.size("tp"))]
    for place, found in sorted(prices.items(), key=lambda item: item[0][1:]):
        seen[place.tp].append((place.pp, place.dp, id(found)))
    firsts = {each.first for each in groups.classes}
    for rank, speed in spec.slow.items():
        slow = spec.mesh.coordinates(rank)
        if slow["dp"] in firsts:
            seen[slow["tp"]].append((slow["pp"], slow["dp"], speed))
    alike: dict[Hashable, list[int]] = {}
    for tensor, told in enumerate(seen):
        alike.setdefault(tuple(told), []).append(tensor)
    return [tuple(tensors) for tensors in alike.values()]


def _seats(spec: StepSpec, columns: Sequence[Sequence[int]], classes: Sequence[ReplicaClass]) -> list[_Seat]:
    """Return the places of nodes, by the first rank of each."""
    found = [
        _Seat(column, stage, replica_class)
        for replica_class in range(len(classes))
        for stage in range(spec.mesh.size("pp"))
        for column in range(len(columns))
    ]
    return sorted(found, key=lambda seat: _first_rank(seat, spec, columns, classes))


def _first_rank(seat: _Seat, spec: StepSpec, columns: Sequence[Sequence[int]], classes: Sequence[ReplicaClass]) -> int:
    place = Coordinates(columns[seat.column][0], seat.pp, classes[seat.replica_class].first)
    return spec.mesh.rank(place._asdict())


def _speeds(spec: StepSpec, rank: int) -> tuple[float, float]:
    """Return the speed of a rank, and that of the slowest of its tensor group."""
    if not spec.slow:
        return 1.0, 1.0
    group = spec.mesh.group("tp", rank).members()
    return spec.slow.get(rank, 1.0), min(spec.slow.get(mate, 1.0) for mate in group)


def _meetings(
    spec: StepSpec, columns: Sequence[Sequence[int]], groups: SharingGroups, number: Mapping[_Seat, int]
) -> Iterator[Meeting]:
    """Yield one group of each kind; of those of a tensor group's ranks that nothing tells apart, that of the first."""
    stages, replicas = range(spec.mesh.size("pp")), range(len(groups.classes))
    numbered = range(len(columns))
    if spec.mesh.size("tp") > 1:
        for q in replicas:
            for s in stages:
                yield Meeting("tp", tuple((number[_Seat(c, s, q)], len(columns[c])) for c in numbered))
    if spec.mesh.size("dp") > 1:
        compositions = [("dp", members) for members in groups.sharing]
        compositions += [("dp copies", members) for members in groups.copies]
        for s, c, (axis, members) in product(stages, numbered, compositions):
            yield Meeting(axis, tuple((number[_Seat(c, s, q)], count) for q, count in members))
    if spec.model.tied_embeddings and len(stages) > 1:
        for q in replicas:
            for c in numbered:
                yield Meeting("tied", tuple((number[_Seat(c, s, q)], 1) for s in (stages[0], stages[-1])))


def _neighbours(seat: _Seat, pipeline: Pipeline, number: Mapping[_Seat, int]) -> tuple[int, int]:
    places = (seat.pp - 1, seat.pp + 1)
    if pipeline.virtual_stages > 1:
        places = ((seat.pp - 1) % pipeline.stages, (seat.pp + 1) % pipeline.stages)
    before, after = (number.get(seat._replace(pp=place), -1) for place in places)
    return before, after
