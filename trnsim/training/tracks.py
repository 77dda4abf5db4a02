"""What a replayed team did: two times for each pass are kept, and rows of a log made of them when they are read."""

from __future__ import annotations

from array import array
from functools import lru_cache
from operator import add, itemgetter
from typing import TYPE_CHECKING, NamedTuple

from trnsim.engine import Log
from trnsim.training.story import LAST, RECEIVE_ACTIVATION, RECEIVE_GRADIENT, SEND_ACTIVATION, SEND_GRADIENT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trnsim.engine import Operation
    from trnsim.training.story import RankPlan

    _Chosen = Callable[[Sequence[int]], Sequence[int]]

__all__ = ["BACKWARD", "FORWARD", "Cut", "Times", "Track"]

FORWARD, BACKWARD = range(2)
"""Which way a message goes."""

_WAITS = (RECEIVE_ACTIVATION, RECEIVE_GRADIENT, SEND_ACTIVATION, SEND_GRADIENT)


class Cut(NamedTuple):
    """Times that come again: from number `first` to `end`, so many times, each time later by a period."""

    first: int
    end: int
    times: int
    period_ps: int


class Times:
    """Times in picoseconds, of which some come again and are kept once.

    Examples
    --------
    >>> times = Times()
    >>> times.kept.extend([1, 2, 4, 9])
    >>> times.cuts = (Cut(1, 3, times=2, period_ps=10),)
    >>> times.all()
    [1, 2, 4, 12, 14, 22, 24, 29]
    """

    __slots__ = ("cuts", "kept")

    def __init__(self) -> None:
        self.kept = array("q")
        self.cuts: tuple[Cut, ...] = ()

    def all(self) -> list[int]:
        """Return all of them."""
        if not self.cuts:
            return self.kept.tolist()
        found: list[int] = []
        cursor = later_ps = 0
        for first, end, times, period_ps in self.cuts:
            found += [time_ps + later_ps for time_ps in self.kept[cursor:end]]
            period = [time_ps + later_ps for time_ps in self.kept[first:end]]
            found += [time_ps + number * period_ps for number in range(1, times + 1) for time_ps in period]
            cursor = end
            later_ps += times * period_ps
        found += [time_ps + later_ps for time_ps in self.kept[cursor:]]
        return found


class Track:
    """A team in the passes of a step, as `Team` is.

    Attributes
    ----------
    plan
        Of its slowest ranks.
    previous, following
        The teams that it exchanges messages with.
    worked_ps, left_ps
        When each pass was over, and when what it made had come to where it was sent.
    met_ps
        When the tensor group was ready for each pass, from the second on, and segment of the last one; None if the team
        is the whole group.
    opened_ps
        When the tensor group was ready for the first pass.
    launches_ps
        When the gradients of each bucket were complete.
    passed_ps
        When the passes were over.
    """

    __slots__ = (
        "following", "launches_ps", "left_ps", "met_ps", "opened_ps", "passed_ps", "plan", "previous", "worked_ps"
    )  # fmt: skip

    def __init__(self, plan: RankPlan, met_ps: Times | None) -> None:
        self.plan = plan
        self.previous: Track | None = None
        self.following: Track | None = None
        self.worked_ps, self.left_ps, self.met_ps = Times(), Times(), met_ps
        self.opened_ps = self.passed_ps = 0
        self.launches_ps: list[int] = []

    @property
    def message_ps(self) -> tuple[int, int] | None:
        """When the message before the first pass was sent and came; None for the first stage."""
        before = self.previous
        return None if before is None else (before.worked_ps.kept[0], before.left_ps.kept[0])

    @property
    def log(self) -> Log:
        """What the team did; to be read only, as several kinds of its ranks read it one after the other."""
        return _log_of(self)

    def written(self) -> Log:
        """Return a log of what the team did."""
        plan, others = self.plan, (self.previous, self.following)
        before, after = (None if other is None else other.plan.works for other in others)
        layout = _layout(plan.works, before, after, len(plan.activities))
        all_sent, all_come = [0], [0]
        for other in others:
            if other is not None:
                all_sent += other.worked_ps.all()
                all_come += other.left_ps.all()
        sent, come = layout.incoming(all_sent), layout.incoming(all_come)
        worked, left = self.worked_ps.all(), self.left_ps.all()
        starts = [0, *left[:-1]]
        begun = list(map(max, starts, come))
        segments = [begun[-1], *self.launches_ps[:-1]]
        ready = self._ready(begun, segments)
        log = Log()
        log.operations = list(layout.operations((*_WAITS, *plan.activities)))
        times = *starts, *map(max, starts, sent), *begun, *ready, *worked, *left, *segments, *self.launches_ps
        log.times_ps = array("q", layout.times(times))
        return log

    def _ready(self, begun: list[int], segments: list[int]) -> list[int]:
        """Return when the group was ready for each pass but one in parts, then for these."""
        works, is_cut = self.plan.works, self.plan.works[-1] == LAST
        if self.met_ps is not None:
            return [self.opened_ps, *self.met_ps.all()]
        heads = [activity.head_ps for activity in self.plan.activities]
        passes = [heads[work] for work in works[1 : len(works) - is_cut]]
        return [self.opened_ps, *map(add, begun[1:], passes), *(map(add, segments, heads[LAST:]) if is_cut else ())]


@lru_cache(maxsize=16)
def _log_of(track: Track) -> Log:
    return track.written()


class _Layout(NamedTuple):
    """How rows are made of times.

    Attributes
    ----------
    incoming
        From a zero and all times of the neighbours to those of the message before each pass; the zero where there is none.
    operations
        From all operations to that of each row.
    times
        From all times to the three of each row.
    """

    incoming: _Chosen
    operations: Callable[[Sequence[Operation]], tuple[Operation, ...]]
    times: _Chosen


@lru_cache(maxsize=1024)
def _layout(
    works: tuple[int, ...], before: tuple[int, ...] | None, after: tuple[int, ...] | None, activities: int
) -> _Layout:
    """Return the layout of a team's rows: what it works at, and what those before and after it do, if there are any."""
    forward = (number for number, work in enumerate(before or (), start=1) if work == FORWARD)
    backward = (number for number, work in enumerate(after or (), start=1 + len(before or ())) if work != FORWARD)
    sources = forward if before else None, backward if after else None
    is_sent = after is not None, before is not None
    turns, parts = len(works), activities - LAST if works[-1] == LAST else 0
    starts, sent, begun, ready = (number * turns for number in range(4))
    worked = ready + turns - bool(parts) + parts
    left, segments = worked + turns, worked + 2 * turns
    incoming: list[int] = []
    operations: list[int] = []
    times: list[int] = []
    for turn, work in enumerate(works):
        kind = min(work, BACKWARD)
        source = sources[kind]
        incoming.append(0 if source is None else next(source))
        if source is not None:
            operations.append(kind)
            times += [starts + turn, sent + turn, begun + turn]
        if work == LAST:
            for part in range(parts):
                operations.append(len(_WAITS) + LAST + part)
                times += [segments + part, ready + turn + part, segments + parts + part]
        else:
            operations.append(len(_WAITS) + work)
            times += [begun + turn, ready + turn, worked + turn]
        if is_sent[kind]:
            operations.append(2 + kind)
            times += [worked + turn, worked + turn, left + turn]
    return _Layout(itemgetter(*incoming), itemgetter(*operations), itemgetter(*times))
