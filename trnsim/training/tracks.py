"""What a replayed team did: two times for each pass are kept, and rows of a log made of them when they are read."""

from __future__ import annotations

from array import array
from functools import lru_cache
from itertools import chain, compress
from operator import add
from typing import TYPE_CHECKING, NamedTuple

from trnsim.engine import Log
from trnsim.training.story import RECEIVE_ACTIVATION, RECEIVE_GRADIENT, SEND_ACTIVATION, SEND_GRADIENT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from trnsim.engine import Activity, Operation
    from trnsim.schedules import Pass
    from trnsim.training.story import RankPlan

__all__ = ["BACKWARD", "FORWARD", "LAST", "Cut", "Times", "Track", "activities_of", "works"]

FORWARD, BACKWARD, LAST = range(3)
"""What is worked at: number of an activity of `StagePasses`. From the third on they are segments of the last pass."""

_RECEIVES, _SENDS = (RECEIVE_ACTIVATION, RECEIVE_GRADIENT), (SEND_ACTIVATION, SEND_GRADIENT)


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
    >>> times.cuts.append(Cut(1, 3, times=2, period_ps=10))
    >>> times.all()
    [1, 2, 4, 12, 14, 22, 24, 29]
    """

    __slots__ = ("cuts", "kept")

    def __init__(self) -> None:
        self.kept = array("q")
        self.cuts: list[Cut] = []

    def all(self) -> list[int]:
        """Return all of them."""
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
        return None if self.previous is None else next(self.previous.sent(FORWARD))

    def sent(self, kind: int) -> Iterator[tuple[int, int]]:
        """Yield of what it sends forward or backward, when it was sent and came."""
        chosen = [number == kind for number in _kinds(self.plan.turns)]
        return compress(zip(self.worked_ps.all(), self.left_ps.all(), strict=True), chosen)

    @property
    def log(self) -> Log:
        """What the team did."""
        numbers, activities, kinds = works(self.plan), activities_of(self.plan), _kinds(self.plan.turns)
        sources = self.previous, self.following
        rows = [_Rows(kind, sources[kind] is not None, sources[1 - kind] is not None) for kind in (FORWARD, BACKWARD)]
        came = [source and source.sent(kind) for kind, source in enumerate(sources)]
        ways = [came[kind] for kind in kinds]
        sent, come = zip(*[next(way) if way else (0, 0) for way in ways], strict=True)
        worked, left = self.worked_ps.all(), self.left_ps.all()
        starts = [0, *left[:-1]]
        begun = list(map(max, starts, come))
        ready = self._ready(begun, numbers, activities)
        columns = starts, map(max, starts, sent), begun, begun, ready, worked, worked, worked, left
        masks = [each.mask for each in rows]
        operations = [each.operations(activity) for each, activity in zip(rows, activities, strict=False)]
        log = Log()
        log.operations = list(chain.from_iterable([operations[kind] for kind in kinds]))
        held = chain.from_iterable([masks[kind] for kind in kinds])
        log.times_ps = array("q", compress(chain.from_iterable(zip(*columns, strict=True)), held))
        if numbers[-1] == LAST:
            self._cut_up(log, rows[BACKWARD], begun[-1])
        return log

    def _ready(self, begun: Sequence[int], numbers: Sequence[int], activities: Sequence[Activity]) -> Iterable[int]:
        """Return when the group was ready for each pass."""
        if self.met_ps is not None:
            return [self.opened_ps, *self.met_ps.all()][: len(numbers)]
        heads = [activity.head_ps for activity in activities]
        return [self.opened_ps, *map(add, begun[1:], [heads[number] for number in numbers[1:]])]

    def _cut_up(self, log: Log, rows: _Rows, begun_ps: int) -> None:
        """Put the segments of the last pass in its place."""
        segments = activities_of(self.plan)[LAST:]
        row = len(log) - 1 - rows.sends
        starts = [begun_ps, *self.launches_ps[:-1]]
        if self.met_ps is not None:
            ready = self.met_ps.all()[-len(segments) :]
        else:
            ready = [start + segment.head_ps for start, segment in zip(starts, segments, strict=True)]
        if row == 0 and rows.receives == 0:
            ready[0] = self.opened_ps
        log.operations[row : row + 1] = segments
        times = array("q", chain.from_iterable(zip(starts, ready, self.launches_ps, strict=True)))
        log.times_ps[3 * row : 3 * row + 3] = times


class _Rows(NamedTuple):
    """Which rows a pass has in a log."""

    kind: int
    receives: bool
    sends: bool

    @property
    def mask(self) -> tuple[bool, ...]:
        """Say of the times of a message, a pass and a message, three each, which there are."""
        return (*(self.receives,) * 3, *(True,) * 3, *(self.sends,) * 3)

    def operations(self, activity: Activity) -> list[Operation]:
        """Return the operations."""
        return list(compress((_RECEIVES[self.kind], activity, _SENDS[self.kind]), self.mask[::3]))


@lru_cache(maxsize=1024)
def _kinds(turns: tuple[Pass, ...]) -> tuple[int, ...]:
    """Say of each pass whether it goes backward."""
    return tuple(BACKWARD if turn.kind == "B" else FORWARD for turn in turns)


def activities_of(plan: RankPlan) -> tuple[Activity, ...]:
    """Return what a team of one virtual stage works at, by number."""
    (passes,) = plan.passes.values()
    return passes.forward, passes.backward, *passes.segments


def works(plan: RankPlan) -> tuple[int, ...]:
    """Return the number of the activity of each turn; that of its first segment for a pass in parts."""
    kinds = _kinds(plan.turns)
    return (*kinds[:-1], LAST) if kinds[-1] == BACKWARD and plan.exchanges.reduces(is_last=True) else kinds
