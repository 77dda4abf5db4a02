"""One cohort of each colour, with its story, its neighbours and its groups."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from msgspec import field

from trnsim.engine import Activity, Cohort, Collective, Engine, Part, Transfer, Wait
from trnsim.record import Record
from trnsim.training.communication import collective_skew_s
from trnsim.training.data_parallel import COPIES, GRADIENTS, WEIGHTS, Exchanges, Launch
from trnsim.training.passes import PricedBlocks, StagePasses, priced_blocks, stage_passes
from trnsim.training.story import Neighbourhood, RankPlan, train

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from trnsim.fabric import Price
    from trnsim.training.communication import RankPrices
    from trnsim.training.folding import Folding, Node
    from trnsim.training.spec import StepSpec
    from trnsim.training.stages import VirtualStage
    from trnsim.training.steady import Steady
    from trnsim.workload import Exchange


class Member(Record):
    """A cohort, the node it was made from, and what it does."""

    cohort: Cohort
    node: Node
    plan: RankPlan


def populate(engine: Engine, spec: StepSpec, folding: Folding, steady: Steady | None = None) -> tuple[Member, ...]:
    """Make the cohorts of a folded step and start their stories.

    Parameters
    ----------
    engine
        A new engine.
    spec
        The step.
    folding
        Its ranks, folded.
    steady
        Looks for steady states.

    Returns
    -------
    tuple of Member
        By ascending first rank.
    """
    colours = folding.colouring.colours
    examples: dict[int, int] = {}
    for number, colour in enumerate(colours):
        examples.setdefault(colour, number)
    names = [f"stage {stage.number}" for stage in folding.stages]
    cohorts = [
        engine.cohort(names[node.stage.number], ranks=node.ranks, first=spec.mesh.label(node.first_rank))
        for node in folding.alike
    ]
    groups = _groups(folding, cohorts)
    planner = Planner(spec, {}, engine.holds_groups_together)
    members: list[Member] = []
    first_of: dict[int, Cohort] = {}
    for example, cohort in zip(examples.values(), cohorts, strict=True):
        node = folding.nodes[example]
        plan = planner.plan(node)
        members.append(Member(cohort, node, plan))
        cohort.write_like(first_of.setdefault(id(plan), cohort))
        before, after = (cohorts[colours[other]] if other >= 0 else None for other in folding.neighbours[example])
        tensor, sharing, copies, tied = (groups.get((axis, cohort)) for axis in ("tp", "dp", "dp copies", "tied"))
        near = Neighbourhood(before, after, tensor, sharing, copies, tied)
        engine.start(cohort, train(cohort, plan, near, spec.steps, steady))
    return tuple(members)


def _groups(folding: Folding, cohorts: list[Cohort]) -> dict[tuple[str, Cohort], Collective]:
    """Make one group of each kind that the colours know; find it by axis and cohort."""
    found: dict[tuple[str, Cohort], Collective] = {}
    for meeting in folding.meetings:
        members: Counter[Cohort] = Counter()
        for node, count in meeting.members:
            members[cohorts[folding.colouring.colours[node]]] += count
        if (meeting.axis, next(iter(members))) not in found:
            group = Collective(meeting.axis, members)
            found.update({(meeting.axis, cohort): group for cohort in members})
    return found


class Planner(Record):
    """Turns prices into plans; ranks that pay the same share one, and those with the same tensor prices their passes.

    Where groups are held together, a pass has the pace of the slowest rank of its group in it.
    """

    spec: StepSpec
    passes: dict[tuple[object, ...], StagePasses]
    is_paced: bool
    plans: dict[tuple[object, ...], RankPlan] = field(default_factory=dict)
    blocks: dict[tuple[object, ...], PricedBlocks] = field(default_factory=dict)

    def plan(self, node: Node) -> RankPlan:
        """Return the plan of a node's ranks."""
        key = (node.stage.number, node.speed, node.pace, node.prices)
        if key not in self.plans:
            self.plans[key] = self._plan(node)
        return self.plans[key]

    def _plan(self, node: Node) -> RankPlan:
        spec, stage, prices, skewed = self.spec, node.stage, node.prices, self._skewed
        update_s = spec.update_s(stage.parameters, spec.rates.at_speed(node.speed))
        return RankPlan(
            turns=stage.turns,
            passes={place: self._passes(held, node) for place, held in stage.virtual_stages.items()},
            end=spec.pipeline.last,
            send_activation=_alone(prices.send_activation),
            send_gradient=_alone(prices.send_gradient),
            blocking_sends=spec.blocking_sends,
            exchanges=self._exchanges(prices),
            tied=skewed("all-reduce", 2, prices.tied) if prices.tied else None,
            optimizer=Activity("optimizer", (Part("optimizer", "optimizer", update_s),)),
        )

    def _exchanges(self, prices: RankPrices) -> Exchanges:
        sharding = self.spec.sharding

        def launches(name: str, op: str, ranks: int, found: tuple[Price, ...]) -> tuple[Launch, ...]:
            waits = (Wait(f"{name} {number}", "straggler_wait", "exposed_dp") for number in range(len(found)))
            return tuple(Launch(wait, self._skewed(op, ranks, price)) for wait, price in zip(waits, found, strict=True))

        return Exchanges(
            sharding,
            reduce=launches(GRADIENTS, sharding.reduce_op, sharding.group, prices.reduce),
            merge=launches(COPIES, "all-reduce", sharding.copies, prices.merge),
            gather=launches(WEIGHTS, "all-gather", sharding.group, prices.gather),
            interference_fraction=self.spec.rates.interference_fraction,
        )

    def _passes(self, held: VirtualStage, node: Node) -> StagePasses:
        tensor = node.prices.tensor
        pace = node.pace if self.is_paced else node.speed
        paid = frozenset((use, price.task, price.spent) for use, price in tensor.items())
        key = (id(held), node.speed, pace, paid)
        if key not in self.passes:
            own, paced = (self._blocks(held, speed, paid, tensor) for speed in (node.speed, pace))
            self.passes[key] = stage_passes(own, paced, held.buckets)
        return self.passes[key]

    def _blocks(
        self, held: VirtualStage, speed: float, paid: Hashable, tensor: Mapping[tuple[str, int], Price]
    ) -> PricedBlocks:
        spec, key = self.spec, (id(held), speed, paid)
        if key not in self.blocks:

            def transfer(exchange: Exchange) -> Transfer:
                return self._skewed(exchange.op, spec.mesh.size("tp"), tensor[exchange.op, exchange.bytes])

            self.blocks[key] = priced_blocks(
                held.blocks,
                spec.rates.at_speed(speed),
                transfer,
                recompute=spec.shard.recompute,
                ring_ranks=spec.mesh.size("tp") if spec.ring else 1,
            )
        return self.blocks[key]

    def _skewed(self, op: str, ranks: int, price: Price) -> Transfer:
        """Return a collective inside a training step: what it costs, and the skew of its ranks."""
        skew_s = collective_skew_s(op, ranks, self.spec.rates.collective_skew_s)
        return Transfer(price.time_s + skew_s, price.busy_s, price.task, skew_s)


def _alone(price: Price | None) -> Transfer | None:
    return None if price is None else Transfer(price.time_s, price.busy_s, price.task)
