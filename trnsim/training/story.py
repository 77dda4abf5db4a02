"""The story of one rank: what it does in a training step, in order."""

from __future__ import annotations

from functools import cached_property, lru_cache
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
LAST = 2
"""Number of the activity that the last pass begins with, if gradients leave during it."""
TIED_EMBEDDING = Wait("tied embedding gradients", "straggler_wait", "exposed_pp")


class Direction(NamedTuple):
    """Which way passes go through the pipeline, and what they hand on.

    Attributes
    ----------
    what
        Names what is handed on.
    first, last, step
        Virtual stages where that begins and ends, and from one to the next.
    receive, send
        How it is booked.
    transfer
        What it costs to send; None where no virtual stage of the rank does.
    """

    what: str
    first: int
    last: int
    step: int
    receive: Wait
    send: Wait
    transfer: Transfer | None


class Leg(NamedTuple):
    """The passes of one kind through one virtual stage.

    Attributes
    ----------
    way
        Which way they go.
    passes
        What ranks do in them.
    inner, border
        The same as one activity, and where it is the first forward or the last backward; None where it is not one.
    receives, sends
        Whether they wait for another stage, and hand something on.
    """

    way: Direction
    passes: StagePasses
    inner: Activity | None
    border: Activity | None
    receives: bool
    sends: bool


class RankPlan(Record, dict=True):
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

    @cached_property
    def microbatches(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """In which order microbatches go forward, and backward, on one virtual stage."""
        forward, backward = ([turn.microbatch for turn in self.turns if turn.kind == kind] for kind in "FB")
        return tuple(forward), tuple(backward)

    @cached_property
    def works(self) -> tuple[int, ...]:
        """What is worked at in each turn on one virtual stage: number of an activity, of the first of several segments."""
        found = tuple([int(turn.kind == "B") for turn in self.turns])
        return (*found[:-1], LAST) if found[-1] and self.exchanges.reduces(is_last=True) else found

    @property
    def activities(self) -> tuple[Activity, ...]:
        """What is worked at on one virtual stage, by number: forward, backward, the segments of the last pass."""
        (passes,) = self.passes.values()
        return passes.forward, passes.backward, *passes.segments

    @cached_property
    def legs(self) -> Mapping[tuple[str, int], Leg]:
        """The passes by kind and virtual stage."""
        found = {}
        for kind, way in (("F", self.forward), ("B", self.backward)):
            for place, passes in self.passes.items():
                inner, border = (self.exchanges.whole(kind, passes, is_border=border) for border in (False, True))
                sends = way.transfer is not None and place != way.last
                found[kind, place] = Leg(way, passes, inner, border, place != way.first, sends)
        return found

    @cached_property
    def forward(self) -> Direction:
        """The way of activations."""
        return Direction("activation", 0, self.end, 1, RECEIVE_ACTIVATION, SEND_ACTIVATION, self.send_activation)

    @cached_property
    def backward(self) -> Direction:
        """The way of gradients."""
        return Direction("gradient", self.end, 0, -1, RECEIVE_GRADIENT, SEND_GRADIENT, self.send_gradient)


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
    """Return the story of training steps.

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
    return Step.of(rank, plan, near, 0, steady).live(steps)


class _Content(Record, cache_hash=True):
    """What a message holds, and for which pass."""

    what: str
    microbatch: int
    virtual_stage: int

    def counted_from(self, microbatch: int) -> tuple[str, int, int]:
        """Return what it is, in microbatches after another."""
        return self.what, self.microbatch - microbatch, self.virtual_stage

    def __str__(self) -> str:
        return f"{self.what} of microbatch {self.microbatch} for virtual stage {self.virtual_stage}"


@lru_cache(maxsize=4096)
def _content(what: str, microbatch: int, virtual_stage: int) -> _Content:
    """Return the same object for all ranks, which is found faster."""
    return _Content(what, microbatch, virtual_stage)


class Step(Struct, eq=False):
    """A step of one rank, and after it the next.

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
        return cls(rank, plan, near, _data_parallel(rank, plan, near, step), step, steady)

    @property
    def is_over(self) -> bool:
        """Whether there is no pass left."""
        return self.turn >= len(self.plan.turns)

    def passes(self) -> Story:
        """Go through the passes of this step."""
        return self.live(0)

    def live(self, steps: int) -> Story:
        """Live through steps until so many are over; with 0, go through the passes of this one and no further.

        In a pass: receive, work, send the result on. All that is one story and not a story of stories, each of which takes a
        third of a kilobyte for every rank.
        """
        rank, plan, near, steady = self.rank, self.plan, self.near, self.steady
        turns, legs, special = plan.turns, plan.legs, borders(plan.turns)
        send = rank.send if plan.blocking_sends else rank.post
        while True:
            self.data.begin()
            while (number := self.turn) < len(turns):
                if steady is not None:
                    steady.begin_pass(self)
                turn = self._counted(turns[number]) if self.skipped else turns[number]
                kind, microbatch, place = turn
                leg = legs[kind, place]
                way = leg.way
                if kind == "F":
                    source, target = near.previous, near.following
                else:
                    source, target = near.following, near.previous
                if leg.receives and source is not None:
                    yield from rank.receive(source, way.receive, _content(way.what, microbatch, place))
                work = leg.border if number in special else leg.inner
                if work is not None:
                    yield from rank.perform(work, near.tensor, turn)
                else:
                    yield from self.data.in_parts(turn, leg.passes, is_border=number in special)
                if leg.sends and target is not None and way.transfer is not None:
                    yield from send(target, way.send, _content(way.what, microbatch, place + way.step), way.transfer)
                self.turn += 1
            if not steps:
                return
            yield from self._finish()
            if self.step == steps:
                return

    def _finish(self) -> Story:
        """End the step, and go on to the next."""
        yield from self.update()
        self.rank.end_step()
        self.step += 1
        self.turn = self.skipped = 0
        self.data = _data_parallel(self.rank, self.plan, self.near, self.step)

    def _counted(self, turn: Pass) -> Pass:
        """Return a pass with the number that its microbatch goes by."""
        return turn._replace(microbatch=turn.microbatch - self.skipped)

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
        return self.turn - turn, len(self.rank.journal) - self.row, self.rank.at_work_ps(now_ps)

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


def _data_parallel(rank: Cohort, plan: RankPlan, near: Neighbourhood, step: int) -> DataParallel:
    return DataParallel(rank, plan.exchanges, near.tensor, near.sharing, near.copies, step)
