"""Tensor groups as one: ranks that leave every pass together are simulated as a team, and part only for the update.

From its first collective on a pass goes at the pace of the slowest rank of a tensor group, so a group acts as one between
the first pass of a step and the last, whatever chips it has. Its gradients are reduced by data-parallel groups, which hold
one rank of each replica and act as one from then on: a *tail* stands for those that pay the same and have the same slowest
chip. So a slow chip costs a team of each stage of its replica, and not one process for each of its neighbours.

A team holds the ranks of a group whose messages come and leave at the same times; a group may have several, which meet in
its collectives.

This is exact where every replica has ended its passes when the reductions of its stage end, which is looked at after a run
(`Teams.holds`). Where what travels in passes shares links with what tails send, it matters which replicas are *late*: still
at it when the reductions of a stage begin. In those, tensor ranks are told apart (`Contraction.with_late`).
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from msgspec.structs import replace

from trnsim.record import Record
from trnsim.training.blemishes import blemishes
from trnsim.training.cohorts import Planner
from trnsim.training.crossings import NOTHING_LEAVES, crossings
from trnsim.training.folding import Node
from trnsim.training.replicas import Replicas
from trnsim.training.sorts import (
    Columns,
    Part,
    Rows,
    Sizes,
    Slow,
    Sort,
    kinds_of,
    late_sorts,
    parts_of,
    sorts_of,
    told_kinds,
)
from trnsim.training.stages import Stage, pipeline_stages
from trnsim.training.teams import Teams
from trnsim.training.tolls import Tails, columns_of, rows_of, tails_of, tolls_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence

    from trnsim.fabric import Price
    from trnsim.training.blemishes import Blemish
    from trnsim.training.bodies import Bodies
    from trnsim.training.communication import Communication, Coordinates, RankPrices
    from trnsim.training.rates import Rates
    from trnsim.training.replicas import Blocks, MeetingTier, ReplicaClass
    from trnsim.training.spec import StepSpec
    from trnsim.training.views import Kind

__all__ = ["Contraction", "contract"]


class Contraction(Record, dict=True):
    """The ranks of a step as teams and tails.

    Parameters
    ----------
    stages
        The pipeline.
    places
        Ranks that pay the same, by the place of the first.
    payer
        From tensor rank, stage, and the replica that a sort is `like`, to the first rank that pays the same.
    sorts
        Replicas whose teams are alike.
    rows
        For each replica that is priced, the teams of its ranks.
    tails
        The tails of all ranks.
    sort_of
        From a replica to the number of its sort.
    spec
        The step.
    slow
        The slow ranks of each replica.
    links_are_shared
        Whether transfers slow each other down.
    columns
        For each tensor rank, the first that nothing tells apart from it in any stage of any replica.
    apart
        Stages in which every column has a tail of its own.
    """

    stages: tuple[Stage, ...]
    places: Mapping[Coordinates, Node]
    payer: Callable[[int, int, int], Coordinates]
    sorts: tuple[Sort, ...]
    rows: Mapping[int, Rows]
    tails: Tails
    sort_of: Callable[[int], int]
    spec: StepSpec
    slow: Slow
    links_are_shared: bool
    columns: Columns
    apart: frozenset[int] = frozenset()

    def key_of(self, rank: int) -> tuple[int, int, int, int, float, int]:
        """Return what tells a rank's kind from all others: replicas, stage, team, tail, speed, column in late replicas."""
        place = self.spec.mesh.coordinates(rank)
        at, sort = (place["pp"], place["tp"]), self.sort_of(place["dp"])
        found = self.sorts[sort]
        column = self.columns[place["tp"]] if found.is_late and place["pp"] in self.by_column else -1
        return sort, place["pp"], self.rows[found.like][at], self.tails.lanes[at], self.spec.slow.get(rank, 1.0), column

    @property
    def by_column(self) -> frozenset[int]:
        """Stages in which the ranks of late replicas are told apart: they send the last gradient at different paces, or get it."""
        return self.apart | {stage - 1 for stage in self.apart if stage}

    def meets(self, sort: Sort, stage: int) -> bool:
        """Say whether what the ranks of a stage send in passes is on kinds of links that reductions are on."""
        if not self.links_are_shared:
            return False
        prices = [self.places[self.payer(t, stage, sort.like)].prices for t in range(self.spec.mesh.size("tp"))]
        return any(_kinds_of(_at_the_end(each)) & _kinds_of(each.reduce) for each in prices)

    def meets_next(self, sort: Sort, stage: int) -> bool:
        """Say whether what a stage gets from the one before is on kinds of links that its update is on."""
        if not self.links_are_shared:
            return False
        for tensor in range(self.spec.mesh.size("tp")):
            sender, prices = (self.places[self.payer(tensor, at, sort.like)].prices for at in (stage - 1, stage))
            if _kinds_of([sender.send_activation]) & _kinds_of([*prices.reduce, *prices.gather, prices.tied]):
                return True
        return False

    def with_late(self, late: Collection[int]) -> Contraction:
        """Return the same with sorts of replicas of these numbers being late, and tails told apart in the stages where they meet."""
        stages = range(self.spec.mesh.size("pp"))
        apart = self.apart | {stage for number in late for stage in stages if self.meets(self.sorts[number], stage)}
        sorts = list(self.sorts)
        numbers: dict[tuple[int, Hashable], int] = {}
        for number in late:
            for told, sort in late_sorts(self.sorts[number], self.slow).items():
                place = numbers[number, told] = number if sorts[number] is self.sorts[number] else len(sorts)
                sorts[place : place + 1] = [sort]

        def sort_of(replica: int) -> int:
            number = self.sort_of(replica)
            return numbers.get((number, self.slow.get(replica)), number)

        tails = tails_of(self.spec, self.places, self.rows, self.columns, apart)
        return replace(self, sorts=tuple(sorts), tails=tails, apart=apart, sort_of=sort_of)

    def kinds(self, sort: Sort) -> tuple[tuple[Kind, ...], ...]:
        """Return the kinds of ranks that a sort of replicas has, by stage."""
        rows, by_column = self.rows[sort.like], self.by_column if sort.is_late else frozenset[int]()
        key = id(rows), by_column
        if key not in self._parts:
            self._parts[key] = parts_of(rows, self.tails.lanes, len(self.stages), self.columns, by_column)
        return kinds_of(self.spec, sort, self._parts[key], self.slow)

    @cached_property
    def _parts(self) -> dict[tuple[int, frozenset[int]], tuple[tuple[Part, ...], ...]]:
        return {}

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Ranks that pay the same, for what is counted over all of them."""
        return tuple(self.places.values())

    @property
    def alike(self) -> tuple[Node, ...]:
        """The ranks of each kind, by ascending first rank."""
        found = (
            self.node(sort, stage, kind, min(other.speed for other in kinds))
            for sort in self.sorts
            for stage, kinds in enumerate(self.kinds(sort))
            for kind in kinds
        )
        return tuple(sorted(found, key=lambda node: node.first_rank))

    def node(self, sort: Sort, stage: int, kind: Kind, pace: float) -> Node:
        """Return the ranks of a kind in a stage of a sort of replicas."""
        tensor = self.spec.mesh.coordinates(kind.first_rank)["tp"]
        payer = self.places[self.payer(tensor, stage, sort.like)]
        return Node(payer.stage, kind.first_rank, kind.ranks, payer.prices, kind.speed, pace)

    def at(self, rates: Rates) -> Contraction | None:
        """Return the same with other rates of healthy ranks, on which it does not depend; None if these cannot be played by teams."""
        return None if rates.interference_fraction > 0 else replace(self, spec=replace(self.spec, rates=rates))

    def play(self, bodies: Bodies) -> Teams:
        """Simulate the steps; `bodies` may know of other runs what replicas do in their passes."""
        planner, found, events = Planner(self.spec, {}, is_paced=True), self, 0
        while True:
            teams = Teams(found, planner, bodies)
            teams.events += events
            if not (teams.late and teams.holds):
                return teams
            found, events = found.with_late(teams.late), teams.events
            del teams  # all that was played, before it is played again


def contract(
    spec: StepSpec,
    communication: Communication,
    meeting_tier: MeetingTier,
    blocks: Blocks,
    *,
    links_are_shared: bool,
    like_the_first: bool = False,
) -> Contraction | None:
    """Sort the ranks of a step into teams and tails; None where that is not tried.

    Parameters
    ----------
    spec
        The step.
    communication
        Prices its transfers.
    meeting_tier, blocks
        As for `fold`.
    links_are_shared
        Whether transfers slow each other down.
    like_the_first
        Whether all replicas are taken to sit where the first does.
    """
    sizes = Sizes(spec.mesh.size("tp"), spec.mesh.size("pp"))
    alone = min(sizes.tp, spec.mesh.size("dp")) == 1 or not spec.blocking_sends or spec.pipeline.virtual_stages > 1
    beyond = spec.sharding.zero > 1 or spec.sharding.copies > 1 or spec.sharding.gathers_in_passes
    if alone or beyond or spec.rates.interference_fraction > 0 or not spec.folding:
        return None
    stages = pipeline_stages(spec)
    leaving = NOTHING_LEAVES if like_the_first else crossings(spec)
    wrong = blemishes(spec, leaving, blocks)
    links = {replica: blemish._replace(speeds=()) for replica, blemish in wrong.items() if blemish[1:] != ((), ())}
    payers = Replicas(spec, leaving, meeting_tier, blocks, links)
    nodes = _nodes(spec, communication, stages, payers)
    rows = rows_of(nodes, payers, sizes)
    columns = columns_of(spec, nodes)
    tails = tails_of(spec, nodes, rows, columns)
    told_apart = tails.lanes if spec.steps > 1 else dict.fromkeys(tails.lanes, 0)
    kinds = {
        replica: told_kinds(blemish, rows[payers.classes[payers.class_of(replica)].like], told_apart, sizes)
        for replica, blemish in wrong.items()
    }
    teams = Replicas(spec, leaving, meeting_tier, blocks, kinds) if wrong else payers
    tolls = tolls_of(nodes, payers, sizes)

    def told(each: ReplicaClass) -> Hashable:
        return tolls[each.like], kinds[each.first].speeds if each.first in kinds else ()

    sorts, of_class = sorts_of(teams, wrong, told)

    def sort_of(replica: int) -> int:
        return of_class[teams.class_of(replica)]

    return Contraction(
        stages, nodes, payers.payer, sorts, rows, tails, sort_of, spec, _slow(wrong), links_are_shared, columns
    )


def _nodes(
    spec: StepSpec, communication: Communication, stages: Sequence[Stage], payers: Replicas
) -> dict[Coordinates, Node]:
    """Return the ranks that pay the same, by the place of the first, in the order of ranks."""
    found = {}
    for place, ranks in sorted(payers.payers().items(), key=lambda item: spec.mesh.rank(item[0]._asdict())):
        stage = stages[place.pp]
        prices = communication.prices(place, stage.exchanges, stage.buckets)
        found[place] = Node(stage, spec.mesh.rank(place._asdict()), ranks, prices, 1.0, 1.0)
    return found


def _slow(wrong: Mapping[int, Blemish]) -> Slow:
    return {
        replica: tuple(((stage, tensor), speed) for stage, tensor, speed in blemish.speeds)
        for replica, blemish in wrong.items()
        if blemish.speeds
    }


def _at_the_end(prices: RankPrices) -> list[Price | None]:
    """Return what a rank sends in its last backward pass and after it."""
    return [*prices.tensor.values(), prices.send_gradient]


def _kinds_of(prices: Iterable[Price | None]) -> set[str]:
    return {kind for price in prices if price for kind, busy_s in price.busy_s.items() if busy_s}
