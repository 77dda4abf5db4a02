"""The story of one rank: what it does in a training step, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from trnsim.engine import Activity, Part, Transfer, Wait, seconds
from trnsim.record import Record
from trnsim.schedules import borders
from trnsim.training.data_parallel import DataParallel

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from trnsim.engine import Cohort, Collective, Story
    from trnsim.schedules import Pass
    from trnsim.training.data_parallel import Exchanges
    from trnsim.training.passes import StagePasses
    from trnsim.training.steady import Steady

RECEIVE_ACTIVATION = Wait("receive activation", "bubble", "exposed_pp")
RECEIVE_GRADIENT = Wait("receive gradient", "bubble", "exposed_pp")
SEND_ACTIVATION = Wait("send activation", "exposed_pp", "exposed_pp")
SEND_GRADIENT = Wait("send gradient", "exposed_pp", "exposed_pp")
TIED_EMBEDDING = Wait("tied embedding gradients", "straggler_wait", "exposed_pp")


class RankPlan(Record):
    """What a rank does and what its own transfers are.

    Parameters
    ----------
    turns
        Forward and backward passes in the order of the schedule.
    passes
        Activities of a pass, by virtual stage.
    end
        The last virtual stage of the pipeline; nothing follows it.
    send_activation, send_gradient
        What it is to send to the next and to the previous stage; None where no virtual stage of the rank does.
    blocking_sends
        Whether the rank waits until what it sends has arrived.
    exchanges
        What it exchanges with data-parallel ranks.
    tied
        What it is to reduce the gradients of a tied embedding between first and last stage, or None.
    optimizer
        The update.
    """

    turns: tuple[Pass, ...]
    passes: Mapping[int, StagePasses]
    end: int
    send_activation: Transfer | None
    send_gradient: Transfer | None
    blocking_sends: bool
    exchanges: Exchanges
    tied: Transfer | None
    optimizer: Activity

    @property
    def update_ps(self) -> int:
        """How long the gradients of a tied embedding and the update take alone."""
        return self.optimizer.duration_ps + (self.tied.course.duration_ps if self.tied else 0)

    def updated_in(self, duration_ps: int) -> RankPlan:
        """Return the plan with an update of another length, and a tied embedding whose gradients take no time."""
        update = Activity(self.optimizer.name, (Part(self.optimizer.name, self.optimizer.name, seconds(duration_ps)),))
        return replace(self, optimizer=update, tied=self.tied and Transfer(0.0))


class Neighbourhood(NamedTuple):
    """With whom a rank deals: stages before and after it, and its groups; None where there is none.

    With several virtual stages on each stage, the last stage is before the first.
    """

    previous: Cohort | None
    following: Cohort | None
    tensor: Collective | None
    sharing: Collective | None
    copies: Collective | None
    tied: Collective | None


def train(rank: Cohort, plan: RankPlan, near: Neighbourhood, steps: int, steady: Steady | None = None) -> Story:
    """Live through training steps.

    Parameters
    ----------
    rank
        The cohort that acts.
    plan
        What it does.
    near
        With whom.
    steps
        How many steps. >= 1.
    steady
        Looks for steady states in the passes; None where they are not to be looked for.
    """
    for step in range(steps):
        trainer = Step.of(rank, plan, near, step, steady)
        yield from trainer.passes()
        yield from trainer.update()
        rank.end_step()


class _Content(NamedTuple):
    """What a message holds, and for which pass."""

    what: str
    microbatch: int
    virtual_stage: int

    def counted_from(self, microbatch: int) -> tuple[str, int, int]:
        """Return what it is, in microbatches after another."""
        return self.what, self.microbatch - microbatch, self.virtual_stage

    def __str__(self) -> str:
        return f"{self.what} of microbatch {self.microbatch} for virtual stage {self.virtual_stage}"


class Step(Struct, eq=False):
    """One step of one rank.

    Parameters
    ----------
    turn
        Number of the pass that is going on.
    skipped
        Microbatches that are not simulated; by these a microbatch is called less than its number from then on, as those
        are that are on their way.
    row
        Row of the rank's log with which the turn began.
    """

    rank: Cohort
    plan: RankPlan
    near: Neighbourhood
    data: DataParallel
    step: int
    steady: Steady | None
    turn: int = 0
    skipped: int = 0
    row: int = 0

    @classmethod
    def of(cls, rank: Cohort, plan: RankPlan, near: Neighbourhood, step: int, steady: Steady | None = None) -> Step:
        """Return a step of a rank that has not begun."""
        data = DataParallel(rank, plan.exchanges, near.tensor, near.sharing, near.copies, step)
        return cls(rank, plan, near, data, step, steady)

    @property
    def is_over(self) -> bool:
        """Whether there is no pass left."""
        return self.turn >= len(self.plan.turns)

    def passes(self) -> Story:
        """Go forward and backward in the order of the schedule."""
        self.data.begin()
        turns = self.plan.turns
        special = borders(turns)
        while self.turn < len(turns):
            if self.steady is not None:
                self.row = len(self.rank.log)
                self.steady.begin(self)
            turn, is_border = turns[self.turn], self.turn in special
            if self.skipped:
                turn = turn._replace(microbatch=turn.microbatch - self.skipped)
            if turn.kind == "F":
                yield from self.forward(turn, is_first=is_border)
            else:
                yield from self.backward(turn, is_last=is_border)
            self.turn += 1

    def leave_out(self, turns: int, times: int) -> int:
        """Go on so many times so many turns later when the one that is going on is over; return how many that is."""
        later = self.turn + turns * times
        self.skipped += self.plan.turns[later].microbatch - self.plan.turns[self.turn].microbatch
        self.turn = later
        return turns * times

    def outline(self, turn: int, now_ps: int) -> Hashable:
        """Return how far the rank is in the passes: turns after another one, operations after that, since when.

        Parameters
        ----------
        turn
            From which turns are counted, since the same turn is not done twice.
        now_ps
            From when times are counted.
        """
        return self.turn - turn, len(self.rank.log) - self.row, self.rank.at_work_ps(now_ps)

    def situation(self, now_ps: int) -> Hashable:
        """Return what waits for the rank and is on its way.

        Where that and the outline are the same for all ranks as they were before, they do the same from then on.
        """
        microbatch = self.plan.turns[self.turn].microbatch - self.skipped
        messages = tuple(
            (sender, content.counted_from(microbatch), has_come)
            for sender, content, has_come in self.rank.messages
            if isinstance(content, _Content)
        )
        return messages, self.rank.situation(now_ps), self.data.situation(now_ps)

    def forward(self, turn: Pass, *, is_first: bool) -> Story:
        """Receive an activation, work, send the result on."""
        rank, plan, near = self.rank, self.plan, self.near
        _, microbatch, place = turn
        if near.previous is not None and place > 0:
            yield from rank.receive(near.previous, RECEIVE_ACTIVATION, _Content("activation", microbatch, place))
        yield from self.data.forward(turn, plan.passes[place], is_first=is_first)
        if near.following is not None and plan.send_activation is not None and place < plan.end:
            content = _Content("activation", microbatch, place + 1)
            yield from self._send(near.following, SEND_ACTIVATION, content, plan.send_activation)

    def backward(self, turn: Pass, *, is_last: bool) -> Story:
        """Receive a gradient, work, send the result back."""
        rank, plan, near = self.rank, self.plan, self.near
        _, microbatch, place = turn
        if near.following is not None and place < plan.end:
            yield from rank.receive(near.following, RECEIVE_GRADIENT, _Content("gradient", microbatch, place))
        yield from self.data.backward(turn, plan.passes[place], is_last=is_last)
        if near.previous is not None and plan.send_gradient is not None and place > 0:
            content = _Content("gradient", microbatch, place - 1)
            yield from self._send(near.previous, SEND_GRADIENT, content, plan.send_gradient)

    def _send(self, receiver: Cohort, wait: Wait, content: _Content, transfer: Transfer) -> Story:
        send = self.rank.send if self.plan.blocking_sends else self.rank.post
        return send(receiver, wait, content, transfer)

    def update(self) -> Story:
        """Finish messages and reductions, update the weights, gather them."""
        rank, plan, near = self.rank, self.plan, self.near
        for wait in (SEND_ACTIVATION, SEND_GRADIENT):
            yield from rank.settle(wait)
        yield from self.data.finish()
        if near.tied is not None and plan.tied is not None:
            call = rank.launch(near.tied, TIED_EMBEDDING, self.step, plan.tied)
            yield from rank.wait(call, TIED_EMBEDDING)
        yield from rank.perform(plan.optimizer)
        yield from self.data.gather()
