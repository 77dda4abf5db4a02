"""Tensor groups as one: ranks that leave every pass together are simulated as a team, and part only for the update.

From its first collective on a pass goes at the pace of the slowest rank of a tensor group, so a group acts as one between
the first pass of a step and the last, whatever chips it has. Its gradients are reduced by data-parallel groups, which hold
one rank of each replica and act as one from then on: a *tail* stands for those that pay the same and have the same slowest
chip. So a slow chip costs a team of each stage of its replica, and not one process for each of its neighbours.

A team holds the ranks of a group whose messages cost the same; a group may have several, which meet in its collectives.

This is exact where every replica has ended its passes when the reductions of its stage end, which is looked at after a run
(`Teams.holds`). Where what travels in passes shares links with what tails send, it matters which replicas are *late*: still
at it when the reductions of a stage begin. In those, all tensor ranks are told apart (`Contraction.with_late`).
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from msgspec.structs import replace

from trnsim.engine import Meeting, refine
from trnsim.record import Record
from trnsim.training.blemishes import blemishes
from trnsim.training.cohorts import Planner
from trnsim.training.crossings import crossings
from trnsim.training.folding import Node
from trnsim.training.replicas import Replicas
from trnsim.training.sorts import Sizes, Sort, Speeds, kinds_of, late_sorts, sorts_of
from trnsim.training.stages import Stage, pipeline_stages
from trnsim.training.teams import Teams

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence

    from trnsim.fabric import Price
    from trnsim.training.bodies import Bodies
    from trnsim.training.communication import Communication, Coordinates, RankPrices
    from trnsim.training.replicas import Blocks, MeetingTier, ReplicaClass
    from trnsim.training.spec import StepSpec
    from trnsim.training.views import Kind

__all__ = ["Contraction", "contract"]


class Contraction(Record):
    """The ranks of a step as teams and tails.

    Parameters
    ----------
    stages
        The pipeline.
    places
        Ranks that pay the same, by the place of the first.
    sorts
        The teams, and what ranks each has.
    lanes, rows
        By stage and tensor rank, the number of the tail, and of the team, in its stage.
    slowest
        By stage and tail, the speed of its slowest rank.
    payers
        By stage and tail, a node of it.
    tied
        Tails of the first stage and of the last that meet for the gradients of a tied embedding.
    payer
        From tensor rank, stage, and the replica that a sort is `like`, to the first rank that pays the same.
    sort_of
        From a replica to the number of its teams' class.
    spec
        The step.
    links_are_shared
        Whether transfers slow each other down.
    """

    stages: tuple[Stage, ...]
    places: Mapping[Coordinates, Node]
    sorts: tuple[Sort, ...]
    lanes: Mapping[tuple[int, int], int]
    rows: Mapping[tuple[int, int], int]
    slowest: Mapping[tuple[int, int], float]
    payers: Mapping[tuple[int, int], Node]
    tied: tuple[tuple[int, int], ...]
    payer: Callable[[int, int, int], Coordinates]
    sort_of: Callable[[int], int]
    spec: StepSpec
    links_are_shared: bool

    def key_of(self, rank: int) -> tuple[int, int, int, int, float, int]:
        """Return what tells a rank's kind from all others: replicas, stage, team, tail, speed, tensor rank of late replicas."""
        place = self.spec.mesh.coordinates(rank)
        at, sort = (place["pp"], place["tp"]), self.sort_of(place["dp"])
        tensor = place["tp"] if self.sorts[sort].is_late else -1
        return sort, place["pp"], self.rows[at], self.lanes[at], self.spec.slow.get(rank, 1.0), tensor

    def meets(self, sort: Sort, stage: int) -> bool:
        """Say whether what the ranks of a stage send in passes is on kinds of links that reductions are on."""
        if not self.links_are_shared:
            return False
        prices = [self.places[self.payer(t, stage, sort.like)].prices for t in range(self.spec.mesh.size("tp"))]
        return any(_kinds_of(_in_passes(each)) & _kinds_of(each.reduce) for each in prices)

    def with_late(self, late: Collection[int]) -> Contraction:
        """Return the same with all ranks told apart in sorts of replicas of these numbers."""
        parts = {place: (row, self.lanes[place]) for place, row in self.rows.items()}
        speeds = _speeds(self.spec)
        sorts = list(self.sorts)
        numbers: dict[tuple[int, Speeds], int] = {}
        for number in late:
            found = late_sorts(self.spec, self.sorts[number], parts, lambda replica: speeds.get(replica, ()))
            places = [number, *range(len(sorts), len(sorts) + len(found) - 1)]
            for place, (told, sort) in zip(places, found.items(), strict=True):
                numbers[number, told] = place
                sorts[place : place + 1] = [sort]

        def sort_of(replica: int) -> int:
            number = self.sort_of(replica)
            return numbers.get((number, speeds.get(replica, ())), number)

        return replace(self, sorts=tuple(sorts), sort_of=sort_of)

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
            for stage, kinds in enumerate(sort.kinds)
            for kind in kinds
        )
        return tuple(sorted(found, key=lambda node: node.first_rank))

    def node(self, sort: Sort, stage: int, kind: Kind, pace: float) -> Node:
        """Return the ranks of a kind in a stage of a sort of replicas."""
        tensor = self.spec.mesh.coordinates(kind.first_rank)["tp"]
        payer = self.places[self.payer(tensor, stage, sort.like)]
        return Node(payer.stage, kind.first_rank, kind.ranks, payer.prices, kind.speed, pace)

    def play(self, bodies: Bodies) -> Teams:
        """Simulate the steps; `bodies` may know of other runs what replicas do in their passes."""
        planner = Planner(self.spec, {}, is_paced=True)
        while True:
            teams = Teams(self, planner, bodies)
            if not teams.late:
                return teams
            self = self.with_late(teams.late)  # noqa: PLW0642


def contract(
    spec: StepSpec, communication: Communication, meeting_tier: MeetingTier, blocks: Blocks, *, links_are_shared: bool
) -> Contraction | None:
    """Sort the ranks of a step into teams and tails; None where that would not be exact, or nothing is slow.

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
    """
    sizes = Sizes(spec.mesh.size("tp"), spec.mesh.size("pp"))
    alone = min(sizes.tp, spec.mesh.size("dp")) == 1 or not spec.blocking_sends or spec.pipeline.virtual_stages > 1
    beyond = spec.sharding.zero > 1 or spec.sharding.copies > 1 or spec.sharding.gathers_in_passes
    beyond = beyond or spec.rates.interference_fraction > 0
    if alone or beyond or not spec.folding:
        return None
    stages = pipeline_stages(spec)
    leaving = crossings(spec)
    wrong = blemishes(spec, leaving, blocks)
    links = {replica: blemish._replace(speeds=()) for replica, blemish in wrong.items() if blemish[1:] != ((), ())}
    payers = Replicas(spec, leaving, meeting_tier, blocks, links)
    if not spec.slow and len(payers.classes) == 1:
        return None
    nodes = _nodes(spec, communication, stages, payers)
    first = {(node.stage.number, place.tp): node for place, node in reversed(nodes.items())}
    rows = _rows(nodes, payers, sizes)
    lanes, slowest, tied = _lanes(spec, nodes, rows, sizes)
    parts = {place: (row, lanes[place]) for place, row in rows.items()}
    told_apart = parts if spec.steps > 1 else {place: (row, 0) for place, row in rows.items()}
    kinds = {replica: kinds_of(blemish, told_apart, sizes) for replica, blemish in wrong.items()}
    teams = Replicas(spec, leaving, meeting_tier, blocks, kinds)
    tolls = _tolls(nodes, payers, sizes)

    def told(each: ReplicaClass) -> Hashable:
        return tolls[each.like], kinds[each.first].speeds if each.first in kinds else ()

    sorts, of_class = sorts_of(spec, teams, wrong, parts, told=told, sizes=sizes)
    return Contraction(
        stages,
        nodes,
        sorts,
        lanes,
        rows,
        slowest,
        {(stage, lanes[stage, tensor]): node for (stage, tensor), node in first.items()},
        tied,
        payers.payer,
        lambda replica: of_class[teams.class_of(replica)],
        spec,
        links_are_shared,
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


def _tolls(nodes: Mapping[Coordinates, Node], payers: Replicas, sizes: Sizes) -> dict[int, int]:
    """Return for the replicas that are priced a number that is the same for those that pay the same."""
    numbers: dict[Hashable, int] = {}
    paid = _paid(nodes, payers, sizes, lambda node: node.prices.key)
    return {like: numbers.setdefault(found, len(numbers)) for like, found in paid.items()}


def _paid(
    nodes: Mapping[Coordinates, Node], payers: Replicas, sizes: Sizes, what: Callable[[Node], Hashable]
) -> dict[int, tuple[int, ...]]:
    """Return for the replicas that are priced what each of their ranks pays, numbered, by stage and tensor rank."""
    numbers: dict[Hashable, int] = {}
    paid = {place: numbers.setdefault(what(node), len(numbers)) for place, node in nodes.items()}
    return {
        like: tuple(paid[payers.payer(tensor, stage, like)] for stage in range(sizes.pp) for tensor in range(sizes.tp))
        for like in payers.likes
    }


def _speeds(spec: StepSpec) -> dict[int, Speeds]:
    """Return the slow ranks of each replica that has some."""
    found: defaultdict[int, list[tuple[tuple[int, int], float]]] = defaultdict(list)
    for rank, speed in sorted(spec.slow.items()):
        place = spec.mesh.coordinates(rank)
        found[place["dp"]].append(((place["pp"], place["tp"]), speed))
    return {replica: tuple(slow) for replica, slow in found.items()}


def _in_passes(prices: RankPrices) -> list[Price | None]:
    return [*prices.tensor.values(), prices.send_activation, prices.send_gradient]


def _kinds_of(prices: Iterable[Price | None]) -> set[str]:
    return {kind for price in prices if price for kind, busy_s in price.busy_s.items() if busy_s}


def _spent(price: Price | None) -> Hashable:
    return price and price.spent


def _lanes(
    spec: StepSpec, nodes: Mapping[Coordinates, Node], rows: Mapping[tuple[int, int], int], sizes: Sizes
) -> tuple[dict[tuple[int, int], int], dict[tuple[int, int], float], tuple[tuple[int, int], ...]]:
    """Sort the data-parallel groups of each stage: those of a team that pay the same and have the same slowest chip are one tail."""
    speeds: dict[tuple[int, int], float] = {}
    for rank, speed in spec.slow.items():
        place = spec.mesh.coordinates(rank)
        key = place["pp"], place["tp"]
        speeds[key] = min(speed, speeds.get(key, 1.0))
    paid: defaultdict[tuple[int, int], set[object]] = defaultdict(set)
    for at, node in nodes.items():
        prices = node.prices
        paid[at.pp, at.tp].add((*map(_spent, prices.reduce), *map(_spent, prices.gather), _spent(prices.tied)))
    gathers = any(node.prices.gather for node in nodes.values())
    groups = [(stage, tensor) for stage in range(sizes.pp) for tensor in range(sizes.tp)]
    colours = [
        (
            group[0],
            rows[group],
            frozenset(paid[group]),
            group[1] if len(paid[group]) > 1 else None,  # the tied embedding costs some replicas more than others
            speeds.get(group, 1.0) if gathers else 1.0,
        )
        for group in groups
    ]
    number = {group: index for index, group in enumerate(groups)}
    is_tied = spec.model.tied_embeddings and sizes.pp > 1
    pairs = [(number[0, tensor], number[sizes.pp - 1, tensor]) for tensor in range(sizes.tp)] if is_tied else []
    found = refine(colours, [Meeting("tied", ((a, 1), (b, 1))) for a, b in pairs], [()] * len(groups)).colours
    lanes: dict[tuple[int, int], int] = {}
    names: defaultdict[int, dict[int, int]] = defaultdict(dict)
    slowest: dict[tuple[int, int], float] = {}
    for group, colour in zip(groups, found, strict=True):
        lane = lanes[group] = names[group[0]].setdefault(colour, len(names[group[0]]))
        slowest[group[0], lane] = min(speeds.get(group, 1.0), slowest.get((group[0], lane), 1.0))
    tied = dict.fromkeys((lanes[groups[a]], lanes[groups[b]]) for a, b in pairs)
    return lanes, slowest, tuple(tied)


def _rows(nodes: Mapping[Coordinates, Node], payers: Replicas, sizes: Sizes) -> dict[tuple[int, int], int]:
    """Sort the ranks of a tensor group by what their messages cost, in whatever replica, and by whom they come from."""
    places = [(stage, tensor) for stage in range(sizes.pp) for tensor in range(sizes.tp)]

    def sent(node: Node) -> Hashable:
        return _spent(node.prices.send_activation), _spent(node.prices.send_gradient)

    everywhere = zip(*_paid(nodes, payers, sizes, sent).values(), strict=True)
    number = {place: index for index, place in enumerate(places)}
    neighbours = [tuple(number.get((stage + step, tensor), -1) for step in (-1, 1)) for stage, tensor in places]
    initial = [(stage, *paid) for (stage, _), paid in zip(places, everywhere, strict=True)]
    colours = refine(initial, [], neighbours).colours
    names: defaultdict[int, dict[int, int]] = defaultdict(dict)
    return {
        place: names[place[0]].setdefault(colour, len(names[place[0]]))
        for place, colour in zip(places, colours, strict=True)
    }
