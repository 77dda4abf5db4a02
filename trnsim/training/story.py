"""The story of one rank: what it does in a training step, in order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from trnsim.engine import Activity, Wait

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trnsim.engine import Call, Cohort, Collective, Story, Transfer
    from trnsim.schedules import Pass
    from trnsim.training.passes import Bucket, StagePasses

RECEIVE_ACTIVATION = Wait("receive activation", "bubble", "exposed_pp")
RECEIVE_GRADIENT = Wait("receive gradient", "bubble", "exposed_pp")
SEND_ACTIVATION = Wait("send activation", "exposed_pp", "exposed_pp")
SEND_GRADIENT = Wait("send gradient", "exposed_pp", "exposed_pp")
TIED_EMBEDDING = Wait("tied embedding gradients", "straggler_wait", "exposed_pp")
WEIGHTS = Wait("weights", "straggler_wait", "exposed_dp")


@dataclass(frozen=True, slots=True)
class RankPlan:
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
    reduce
        What it is to reduce each bucket over data-parallel ranks; empty without data parallelism.
    overlap
        Whether buckets are launched during the backward pass, or one by one after it.
    tied
        What it is to reduce the gradients of a tied embedding between first and last stage, or None.
    optimizer
        The update.
    gather
        What it is to all-gather the updated weights, or None.
    """

    turns: tuple[Pass, ...]
    passes: Mapping[int, StagePasses]
    end: int
    send_activation: Transfer | None
    send_gradient: Transfer | None
    blocking_sends: bool
    reduce: tuple[Transfer, ...]
    overlap: bool
    tied: Transfer | None
    optimizer: Activity
    gather: Transfer | None


class Neighbourhood(NamedTuple):
    """With whom a rank deals: stages before and after it, and its groups; None where there is none.

    With several virtual stages on each stage, the last stage is before the first.
    """

    previous: Cohort | None
    following: Cohort | None
    tensor: Collective | None
    data: Collective | None
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
    last_backward = {turn.virtual_stage: number for number, turn in enumerate(plan.turns) if turn.kind == "B"}
    for step in range(steps):
        trainer = _Step(rank, plan, near, step)
        for number, turn in enumerate(plan.turns):
            if turn.kind == "F":
                yield from trainer.forward(turn)
            else:
                yield from trainer.backward(turn, is_last=number == last_backward[turn.virtual_stage])
        yield from trainer.update()
        rank.end_step()


class _Content(NamedTuple):
    """What a message holds, and for which pass."""

    what: str
    microbatch: int
    virtual_stage: int

    def __str__(self) -> str:
        return f"{self.what} of microbatch {self.microbatch} for virtual stage {self.virtual_stage}"


class _Launched(NamedTuple):
    """A bucket on its way."""

    call: Call
    wait: Wait


@dataclass(frozen=True, slots=True)
class _Step:
    """One step of one rank."""

    rank: Cohort
    plan: RankPlan
    near: Neighbourhood
    step: int
    launched: list[_Launched] = field(default_factory=list)

    def forward(self, turn: Pass) -> Story:
        """Receive an activation, work, send the result on."""
        rank, plan, near = self.rank, self.plan, self.near
        _, microbatch, place = turn
        if near.previous is not None and place > 0:
            yield from rank.receive(near.previous, RECEIVE_ACTIVATION, _Content("activation", microbatch, place))
        yield from rank.perform(plan.passes[place].forward, near.tensor, turn)
        if near.following is not None and plan.send_activation is not None and place < plan.end:
            content = _Content("activation", microbatch, place + 1)
            yield from self._send(near.following, SEND_ACTIVATION, content, plan.send_activation)

    def backward(self, turn: Pass, *, is_last: bool) -> Story:
        """Receive a gradient, work, send the result back; in the last pass, launch each bucket that is complete."""
        rank, plan, near = self.rank, self.plan, self.near
        _, microbatch, place = turn
        work = plan.passes[place]
        if near.following is not None and place < plan.end:
            yield from rank.receive(near.following, RECEIVE_GRADIENT, _Content("gradient", microbatch, place))
        if is_last and near.data is not None and plan.overlap:
            for bucket, segment in zip(work.buckets, work.segments, strict=True):
                yield from rank.perform(segment, near.tensor, (turn, bucket.number))
                self.launched.append(self._launch(near.data, bucket))
        else:
            yield from rank.perform(work.backward, near.tensor, turn)
        if near.previous is not None and plan.send_gradient is not None and place > 0:
            content = _Content("gradient", microbatch, place - 1)
            yield from self._send(near.previous, SEND_GRADIENT, content, plan.send_gradient)

    def _send(self, receiver: Cohort, wait: Wait, content: _Content, transfer: Transfer) -> Story:
        send = self.rank.send if self.plan.blocking_sends else self.rank.post
        yield from send(receiver, wait, content, transfer)

    def update(self) -> Story:
        """Finish messages and reductions, update the weights, gather them."""
        rank, plan, near = self.rank, self.plan, self.near
        for wait in (SEND_ACTIVATION, SEND_GRADIENT):
            yield from rank.settle(wait)
        for found in self.launched:
            yield from rank.wait(found.call, found.wait)
        if near.data is not None and not plan.overlap:
            for bucket in sorted(bucket for work in plan.passes.values() for bucket in work.buckets):
                found = self._launch(near.data, bucket)
                yield from rank.wait(found.call, found.wait)
        if near.tied is not None and plan.tied is not None:
            call = rank.launch(near.tied, TIED_EMBEDDING, self.step, plan.tied)
            yield from rank.wait(call, TIED_EMBEDDING)
        yield from rank.perform(plan.optimizer)
        if near.data is not None and plan.gather is not None:
            call = rank.launch(near.data, WEIGHTS, (self.step, "weights"), plan.gather)
            yield from rank.wait(call, WEIGHTS)

    def _launch(self, group: Collective, bucket: Bucket) -> _Launched:
        wait = Wait(bucket.name, "straggler_wait", "exposed_dp")
        call = self.rank.launch(group, wait, (self.step, bucket.number), self.plan.reduce[bucket.number])
        return _Launched(call, wait)
