"""Which ranks behave alike: nodes that sit alike are priced, and their colours refined.

The fold does not depend on how fast ranks work, because all ranks of a stage work alike; what tells
them apart is what their transfers cost and whom they meet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from trnsim.engine import Colouring, Meeting, refine
from trnsim.training.communication import Coordinates
from trnsim.training.replicas import ReplicaClass, replica_classes
from trnsim.training.stages import Stage, pipeline_stages

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from trnsim.schedules import Pipeline
    from trnsim.training.communication import Communication, RankPrices
    from trnsim.training.replicas import MeetingTier
    from trnsim.training.spec import StepSpec


@dataclass(frozen=True, slots=True)
class Node:
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
    """

    stage: Stage
    first_rank: int
    ranks: int
    prices: RankPrices


@dataclass(frozen=True, slots=True)
class Folding:
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
    """

    stages: tuple[Stage, ...]
    nodes: tuple[Node, ...]
    meetings: tuple[Meeting, ...]
    neighbours: tuple[tuple[int, int], ...]
    colouring: Colouring


class _Seat(NamedTuple):
    """Tensor rank, stage, and number of the replica class."""

    tp: int
    pp: int
    replica_class: int

    def coordinates(self, classes: Sequence[ReplicaClass]) -> Coordinates:
        return Coordinates(self.tp, self.pp, classes[self.replica_class].first)


def fold(spec: StepSpec, communication: Communication, meeting_tier: MeetingTier) -> Folding:
    """Sort the ranks of a step by how they behave.

    Parameters
    ----------
    spec
        The step; without `spec.folding` every rank is a node and has a colour of its own.
    communication
        Prices its transfers.
    meeting_tier
        Tier of the fabric at which two chips of different servers meet.
    """
    stages = pipeline_stages(spec)
    classes = _classes(spec, meeting_tier)
    seats = _seats(spec, classes)
    nodes = tuple(_node(seat, spec, communication, stages, classes) for seat in seats)
    number = {seat: index for index, seat in enumerate(seats)}
    meetings = tuple(_meetings(spec, classes, number))
    neighbours = tuple(_neighbours(seat, spec.pipeline, number) for seat in seats)
    if spec.folding:
        colouring = refine([(node.stage.number, node.prices.key) for node in nodes], meetings, neighbours)
    else:
        colouring = Colouring(tuple(range(len(nodes))), len(nodes))
    return Folding(stages, nodes, meetings, neighbours, colouring)


def _classes(spec: StepSpec, meeting_tier: MeetingTier) -> list[ReplicaClass]:
    if not spec.folding:
        return [ReplicaClass(replica, 1) for replica in range(spec.mesh.size("dp"))]
    return replica_classes(spec.mesh, spec.placement, meeting_tier)


def _seats(spec: StepSpec, classes: Sequence[ReplicaClass]) -> list[_Seat]:
    mesh = spec.mesh
    found = [
        _Seat(tensor, stage, replica_class)
        for replica_class in range(len(classes))
        for stage in range(mesh.size("pp"))
        for tensor in range(mesh.size("tp"))
    ]
    return sorted(found, key=lambda seat: mesh.rank(seat.coordinates(classes)._asdict()))


def _node(
    seat: _Seat,
    spec: StepSpec,
    communication: Communication,
    stages: Sequence[Stage],
    classes: Sequence[ReplicaClass],
) -> Node:
    where, stage = seat.coordinates(classes), stages[seat.pp]
    prices = communication.prices(where, stage.exchanges, stage.buckets)
    return Node(stage, spec.mesh.rank(where._asdict()), classes[seat.replica_class].replicas, prices)


def _meetings(spec: StepSpec, classes: Sequence[ReplicaClass], number: Mapping[_Seat, int]) -> Iterator[Meeting]:
    tensors, stages, replicas = range(spec.mesh.size("tp")), range(spec.mesh.size("pp")), range(len(classes))
    if len(tensors) > 1:
        for q in replicas:
            for s in stages:
                yield Meeting("tp", tuple((number[_Seat(t, s, q)], 1) for t in tensors))
    if spec.mesh.size("dp") > 1:
        for s in stages:
            for t in tensors:
                yield Meeting("dp", tuple((number[_Seat(t, s, q)], classes[q].replicas) for q in replicas))
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
