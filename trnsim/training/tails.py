"""Tails: data-parallel groups that are alike, from their reductions to the end of the step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsim.engine import Cohort, Collective, Transfer, seconds
from trnsim.training.data_parallel import Launched
from trnsim.training.story import Neighbourhood, RankPlan, Step

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnsim.engine import Call, Engine, Story, Wait

__all__ = ["Tail"]


class Tail(Cohort):
    """Data-parallel groups that pay the same and have the same slowest chip.

    Attributes
    ----------
    plan
        Of its slowest ranks.
    update_ps
        How long the last of its ranks takes from there on, where the gradients of a tied embedding can be summed, to the
        end of its update.
    calls
        For each step, its collectives in the order in which they are waited for.
    """

    def __init__(self, engine: Engine, name: str, ranks: int, first: str, plan: RankPlan) -> None:
        super().__init__(engine, name, ranks, first)
        self.plan = plan
        self.update_ps = 0
        self.calls: list[list[tuple[Wait, Call]]] = []
        self._together = Collective("dp", {self: ranks})

    def enter(self, engine: Engine) -> None:
        """Begin a step in an engine."""
        self.engine = engine
        engine.cohorts.append(self)

    @property
    def buckets(self) -> int:
        """How many reductions there are."""
        return len(self.plan.exchanges.reduce)

    def alone_ps(self, own: RankPlan) -> int:
        """Return what a rank does after the end of the tail: nothing if a gather follows its update."""
        return 0 if self.plan.exchanges.gather else own.update_ps

    def reduced_ps(self, step: int) -> int:
        """Return when the last reduction of a step ended."""
        return self.calls[step][self.buckets - 1][1].end_ps

    def met_ps(self, step: int) -> int:
        """Return when the first reduction of a step began."""
        return self.calls[step][0][1].start_ps

    def live(
        self, launches_ps: Sequence[int], passed_ps: int, tied: Collective | None, met_ps: Sequence[int] | None
    ) -> Story:
        """Wait for the reductions of a step, update, gather.

        Parameters
        ----------
        launches_ps
            When the last rank has the gradients of each bucket.
        passed_ps
            When the last rank has ended its passes.
        tied
            With whom it waits to sum the gradients of a tied embedding, or None.
        met_ps
            How long reductions take that late replicas meet; None where there are none.
        """
        plan = self.plan.updated_in(self.update_ps if self.plan.exchanges.gather else 0)
        step = len(self.calls)
        trainer = Step.of(self, plan, Neighbourhood(None, None, None, self._together, None, tied), step)
        self.calls.append([])
        if plan.exchanges.reduces(is_last=True):
            for number, (launch, at_ps) in enumerate(zip(plan.exchanges.reduce, launches_ps, strict=True)):
                yield from self._until(at_ps)
                transfer = launch.transfer if met_ps is None else Transfer(seconds(met_ps[number]))
                call = self.launch(self._together, launch.wait, (step, number), transfer)
                trainer.data.pending.append(Launched(call, launch.wait, transfer))
        else:
            yield from self._until(passed_ps)
        yield from trainer.update()
        self.end_step()

    def wait(self, call: Call, wait: Wait) -> Story:
        """Block until a collective is over, and remember it."""
        self.calls[-1].append((wait, call))
        yield from super().wait(call, wait)

    def _until(self, time_ps: int) -> Story:
        if time_ps > self.engine.now_ps:
            yield self.engine.environment.timeout(time_ps - self.engine.now_ps)
