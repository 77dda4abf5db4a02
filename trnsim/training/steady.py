"""Steady states: when all ranks are where they were some microbatches ago, what follows is not simulated but repeated.

A simulation whose state recurs goes on as it did after that state before, as long as ranks have the same to do. So the
state of all ranks is looked at whenever the first of them begins a pass: what each is at and for how long, what it has
posted or launched and is not over, how far transfers are on their links. (As long as the outlines of states are new, the
rest of them need not be looked at.) When a state is found again, as many periods are left
out as the schedules of all ranks repeat, and are written into their logs when the run is over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trnsim.engine import Journal
from trnsim.schedules import repeats

if TYPE_CHECKING:
    from collections.abc import Hashable

    from trnsim.engine import Cohort, Engine
    from trnsim.training.story import Step

__all__ = ["Steady"]


class _Place(NamedTuple):
    """Where a rank is: turn of its step, rows of its log and of its stream."""

    turn: int
    rows: int
    stream_rows: int


class _Mark(NamedTuple):
    """When ranks were where."""

    now_ps: int
    places: tuple[_Place, ...]


class _Repeat(NamedTuple):
    """What is not simulated: so many times what lies between two marks."""

    step: int
    first: _Mark
    second: _Mark
    times: int

    @property
    def later_ps(self) -> int:
        """By how much all that follows is later."""
        return self.times * (self.second.now_ps - self.first.now_ps)


class Steady:
    """Looks for steady states in the passes of all cohorts of an engine.

    Parameters
    ----------
    engine
        The engine; all its cohorts are ranks that go through passes.

    Attributes
    ----------
    turns
        Passes that were not simulated, of all cohorts.
    """

    def __init__(self, engine: Engine) -> None:
        self.turns = 0
        self._engine = engine
        self._steps: dict[Cohort, Step] = {}
        self._outlines: set[Hashable] = set()
        self._seen: dict[Hashable, _Mark] = {}
        self._repeats: list[_Repeat] = []

    @property
    def later_ps(self) -> int:
        """By how much the end of the run is later than simulated."""
        return sum(repeat.later_ps for repeat in self._repeats)

    def begin_pass(self, step: Step) -> None:
        """Note that a rank begins a pass; if it is the first of all, look at the state as soon as nothing more happens then."""
        self._steps[step.rank] = step
        step.row = len(step.rank.journal)
        if step.rank is self._engine.cohorts[0]:
            self._engine.call_when_settled(self._look)

    def settle(self) -> None:
        """Write into the logs what was not simulated; to be called when the run is over."""
        for number, cohort in enumerate(self._steps):
            if self._repeats:
                self._settle(number, cohort)

    def _look(self) -> None:
        """Compare the state of all ranks with those before; leave out what repeats."""
        steps = list(self._steps.values())
        leader = steps[0]
        if len(steps) < len(self._engine.cohorts) or any(other.step != leader.step or other.is_over for other in steps):
            return
        now_ps = self._engine.now_ps
        outline = leader.step, *(step.outline(leader.turn, now_ps) for step in steps)
        if outline not in self._outlines:
            self._outlines.add(outline)
            return
        state = outline, *(step.situation(now_ps) for step in steps)
        mark = _Mark(
            now_ps, tuple(_Place(step.turn, len(step.rank.journal), len(step.rank.stream_journal)) for step in steps)
        )
        first = self._seen.setdefault(state, mark)
        if first is not mark and (times := _repeats(steps, first, mark)):
            self._repeats.append(_Repeat(leader.step, first, mark, times))
            self._seen.clear()
            self._outlines.clear()
            for step, before, now in zip(steps, first.places, mark.places, strict=True):
                self.turns += step.leave_out(now.turn - before.turn, times)

    def _settle(self, number: int, cohort: Cohort) -> None:
        log_rows, stream_rows = [], []
        for repeat in self._repeats:
            first, second = repeat.first.places[number], repeat.second.places[number]
            period_ps = repeat.second.now_ps - repeat.first.now_ps
            log_rows.append((first.rows, second.rows, repeat.times, period_ps))
            stream_rows.append((first.stream_rows, second.stream_rows, repeat.times, period_ps))
            more = repeat.times * (second.rows - first.rows), repeat.times * (second.stream_rows - first.stream_rows)
            cohort.step_ends[repeat.step :] = [
                (rows + more[0], streamed + more[1], end_ps + repeat.later_ps)
                for rows, streamed, end_ps in cohort.step_ends[repeat.step :]
            ]
        cohort.journal = Journal.of(cohort.log.repeated(log_rows))
        cohort.stream_journal = Journal.of(cohort.stream.repeated(stream_rows))


def _repeats(steps: list[Step], first: _Mark, second: _Mark) -> int:
    """Return how often all ranks can do again what they did between two marks; 0 if they go on with different microbatches."""
    found = [
        repeats(step.plan.turns, before.turn, now.turn)
        for step, before, now in zip(steps, first.places, second.places, strict=True)
    ]
    return min(times for times, _ in found) if len({later for _, later in found}) == 1 else 0
