"""The story of one rank: what it does in a training step, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from trnsim.engine import Activity, Wait
from trnsim.record import Record
from trnsim.training.data_parallel import DataParallel

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from trnsim.engine import Cohort, Collective, Story, Transfer
    from trnsim.schedules import Pass
    from trnsim.training.data_parallel import Exchanges
    from trnsim.training.passes import StagePasses

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

    def without_optimizer(self) -> RankPlan:
        """Return the plan with an update that takes no time."""
        return replace(self, optimizer=Activity(self.optimizer.name, ()))


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


def train(rank: Cohort, plan: RankPlan, near: Neighbourhood, steps: int) -> Story:
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
    """
    for step in range(steps):
        trainer = Step.of(rank, plan, near, step)
        yield from trainer.passes()
        yield from trainer.update()
        rank.end_step()


def _by_virtual_stage(turns: Iterable[tuple[int, Pass]]) -> dict[int, int]:
    """Return the number of the last of the turns through each virtual stage."""
    return {turn.virtual_stage: number for number, turn in turns}


class _Content(NamedTuple):
    """What a message holds, and for which pass."""

    what: str
    microbatch: int
    virtual_stage: int

    def __str__(self) -> str:
        return f"{self.what} of microbatch {self.microbatch} for virtual stage {self.virtual_stage}"


class Step(Record):
    """One step of one rank."""

    rank: Cohort
    plan: RankPlan
    near: Neighbourhood
    data: DataParallel
    step: int

    @classmethod
    def of(cls, rank: Cohort, plan: RankPlan, near: Neighbourhood, step: int) -> Step:
        """Return a step of a rank that has not begun."""
        data = DataParallel(rank, plan.exchanges, near.tensor, near.sharing, near.copies, step)
        return cls(rank, plan, near, data, step)

    def passes(self) -> Story:
        """Go forward and backward in the order of the schedule."""
        self.data.begin()
        turns = list(enumerate(self.plan.turns))
        first_forward = _by_virtual_stage((number, turn) for number, turn in reversed(turns) if turn.kind == "F")
        last_backward = _by_virtual_stage((number, turn) for number, turn in turns if turn.kind == "B")
        for number, turn in turns:
            if turn.kind == "F":
                yield from self.forward(turn, is_first=number == first_forward[turn.virtual_stage])
            else:
                yield from self.backward(turn, is_last=number == last_backward[turn.virtual_stage])

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
