"""The story of one rank: what it does in a training step, in order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from trnsim.engine import Activity, Wait

if TYPE_CHECKING:
    from trnsim.engine import Call, Cohort, Collective, Story, Transfer
    from trnsim.schedules import Pass
    from trnsim.training.passes import StagePasses

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
        Activities of a pass.
    send_activation, send_gradient
        What it is to send to the next and to the previous stage; None at the ends of the pipeline.
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
    passes: StagePasses
    send_activation: Transfer | None
    send_gradient: Transfer | None
    reduce: tuple[Transfer, ...]
    overlap: bool
    tied: Transfer | None
    optimizer: Activity
    gather: Transfer | None


class Neighbourhood(NamedTuple):
    """With whom a rank deals: stages before and after it, and its groups; None where there is none."""

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
    last_backward = max(number for number, turn in enumerate(plan.turns) if turn.kind == "B")
    for step in range(steps):
        trainer = _Step(rank, plan, near, step)
        for number, turn in enumerate(plan.turns):
            if turn.kind == "F":
                yield from trainer.forward(turn.microbatch)
            else:
                yield from trainer.backward(turn.microbatch, is_last=number == last_backward)
        yield from trainer.update()
        rank.end_step()


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

    def forward(self, microbatch: int) -> Story:
        """Receive an activation, work, send the result on."""
        rank, plan, near = self.rank, self.plan, self.near
        if near.previous is not None:
            yield from rank.receive(near.previous, RECEIVE_ACTIVATION, "activation", microbatch)
        yield from rank.perform(plan.passes.forward, near.tensor, microbatch)
        if near.following is not None and plan.send_activation is not None:
            yield from rank.send(near.following, SEND_ACTIVATION, "activation", microbatch, plan.send_activation)

    def backward(self, microbatch: int, *, is_last: bool) -> Story:
        """Receive a gradient, work, send the result back; in the last pass, launch each bucket that is complete."""
        rank, plan, near = self.rank, self.plan, self.near
        if near.following is not None:
            yield from rank.receive(near.following, RECEIVE_GRADIENT, "gradient", microbatch)
        if is_last and near.data is not None and plan.overlap:
            for number, segment in enumerate(plan.passes.segments):
                yield from rank.perform(segment, near.tensor, (microbatch, number))
                self.launched.append(self._launch(near.data, number))
        else:
            yield from rank.perform(plan.passes.backward, near.tensor, microbatch)
        if near.previous is not None and plan.send_gradient is not None:
            yield from rank.send(near.previous, SEND_GRADIENT, "gradient", microbatch, plan.send_gradient)

    def update(self) -> Story:
        """Finish the reductions, update the weights, gather them."""
        rank, plan, near = self.rank, self.plan, self.near
        for found in self.launched:
            yield from rank.wait(found.call, found.wait)
        if near.data is not None and not plan.overlap:
            for number in range(len(plan.reduce)):
                found = self._launch(near.data, number)
                yield from rank.wait(found.call, found.wait)
        if near.tied is not None and plan.tied is not None:
            call = rank.launch(near.tied, TIED_EMBEDDING, self.step, plan.tied)
            yield from rank.wait(call, TIED_EMBEDDING)
        yield from rank.perform(plan.optimizer)
        if near.data is not None and plan.gather is not None:
            call = rank.launch(near.data, WEIGHTS, (self.step, "weights"), plan.gather)
            yield from rank.wait(call, WEIGHTS)

    def _launch(self, group: Collective, number: int) -> _Launched:
        wait = Wait(self.plan.passes.buckets[number].name, "straggler_wait", "exposed_dp")
        return _Launched(self.rank.launch(group, wait, (self.step, number), self.plan.reduce[number]), wait)
