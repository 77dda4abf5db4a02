"""What a replayed team did: two times for each pass are kept, and rows of a log made of them when they are read."""

from __future__ import annotations

from array import array
from functools import lru_cache
from hashlib import sha256
from itertools import chain
from operator import add, itemgetter
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from trnsim.engine import Log
from trnsim.training.story import LAST, RECEIVE_ACTIVATION, RECEIVE_GRADIENT, SEND_ACTIVATION, SEND_GRADIENT

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

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
    >>> times.later(100)
    [101, 102, 104, 112, 114, 122, 124, 129]
    """

    __slots__ = ("cuts", "kept")

    def __init__(self) -> None:
        self.kept = array("q")
        self.cuts: tuple[Cut, ...] = ()

    def __len__(self) -> int:
        return len(self.kept) + self._again

    @property
    def _again(self) -> int:
        """How many of them are not kept."""
        return sum(cut.times * (cut.end - cut.first) for cut in self.cuts)

    def until(self, count: int, later_ps: int) -> Times:
        """Return so many of them, each so much later; they reach behind all that come again."""
        found = Times()
        found.kept.extend([time_ps + later_ps for time_ps in self.kept[: count - self._again]])
        found.cuts = self.cuts
        return found

    def after_cuts(self, later_ps: int) -> tuple[int, list[int]]:
        """Return those behind all that come again, each so much later than it is kept, and how many there are before them."""
        first = self.cuts[-1].end if self.cuts else 0
        return first + self._again, [time_ps + later_ps for time_ps in self.kept[first:]]

    def later(self, later_ps: int) -> list[int]:
        """Return all of them, each so much later."""
        found: list[int] = []
        cursor = 0
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
    def rows(self) -> int:
        """How many rows its log has."""
        messages = (self.previous is not None) + (self.following is not None)
        works, activities = self.plan.works, self.plan.activities
        return len(works) * (1 + messages) + (len(activities) - LAST - 1 if works[-1] == LAST else 0)

    @property
    def log(self) -> Log:
        """What the team did."""
        return self.passes(0)[0]

    def passes_key(self) -> Hashable:
        """Return what is the same for others of the run only if their passes are: all that these are made of."""
        near = (self, self.previous, self.following)
        return sha256(b"".join([b"-" if track is None else _kept(track) for track in near])).digest()

    def passes(self, later_ps: int) -> tuple[Log, str]:
        """Return what the team did, so much later, and the names of that."""
        plan, others = self.plan, (self.previous, self.following)
        before, after = (None if other is None else other.plan.works for other in others)
        layout = _layout(plan.works, before, after, tuple([activity.name for activity in plan.activities]))
        all_sent, all_come = [later_ps], [later_ps]
        for other in others:
            if other is not None:
                all_sent += _later(other.worked_ps, later_ps)
                all_come += _later(other.left_ps, later_ps)
        worked, left = _later(self.worked_ps, later_ps), _later(self.left_ps, later_ps)
        starts = [later_ps, *left[:-1]]
        sent, begun = _latest(starts, layout.incoming(all_sent)), _latest(starts, layout.incoming(all_come))
        launches = [time_ps + later_ps for time_ps in self.launches_ps]
        segments = [begun[-1], *launches[:-1]]
        ready = self._ready(later_ps, begun, segments)
        times = [*sent, *begun, *ready, *worked, *left, *launches]
        log = Log()
        log.operations += layout.operations((*_WAITS, *plan.activities))
        log.times_ps = _rows(later_ps, layout.packed(*layout.ready(times)), layout.packed(*layout.ends(times)))
        return log, layout.names

    def _ready(self, later_ps: int, begun: list[int], segments: list[int]) -> list[int]:
        """Return when the group was ready for each pass but one in parts, then for these."""
        opened_ps = self.opened_ps + later_ps
        if self.met_ps is not None:
            return [opened_ps, *_later(self.met_ps, later_ps)]
        works, is_cut = self.plan.works, self.plan.works[-1] == LAST
        heads = [activity.head_ps for activity in self.plan.activities]
        passes = [heads[work] for work in works[1 : len(works) - is_cut]]
        return [opened_ps, *map(add, begun[1:], passes), *(map(add, segments, heads[LAST:]) if is_cut else ())]


def _rows(start_ps: int, ready_ps: bytes, ends_ps: bytes) -> array[int]:
    """Return the three times of each row: each begins when the one before it ends."""
    rows, ends = array("q", bytes(3 * len(ends_ps))), array("q", ends_ps)
    rows[0] = start_ps
    rows[1::3], rows[2::3] = array("q", ready_ps), ends
    rows[3::3] = ends[:-1]
    return rows


@lru_cache(maxsize=64)
def _kept(track: Track) -> bytes:
    """Return a hash of what is kept of a team, which its neighbours are read from as well."""
    numbers = [id(track.plan), track.opened_ps, track.passed_ps, *track.launches_ps]
    found = sha256()
    for times in (track.worked_ps, track.left_ps, track.met_ps):
        if times is not None:
            found.update(times.kept)
            numbers += [len(times.kept), *chain.from_iterable(times.cuts)]
    found.update(array("q", numbers))
    return found.digest()


@lru_cache(maxsize=32)
def _later(times: Times, later_ps: int) -> list[int]:
    """Return times for a team or its neighbours, which are read one after the other."""
    return times.later(later_ps)


def _latest(times_ps: Sequence[int], others_ps: Sequence[int]) -> list[int]:
    """Return the later of each two times; `map(max, ...)` takes three times as long."""
    pairs = zip(times_ps, others_ps, strict=True)
    return [time_ps if time_ps > other_ps else other_ps for time_ps, other_ps in pairs]  # noqa: FURB136  # as said


class _Layout(NamedTuple):
    """How rows are made of times.

    Attributes
    ----------
    incoming
        From a zero and all times of the neighbours to those of the message before each pass; the zero where there is none.
    operations
        From all operations to that of each row.
    ready, ends
        From all times to those of each row.
    packed
        From these to their bytes, in half of the time that an array takes.
    names
        The names of the operations, each on a line of its own.
    """

    incoming: _Chosen
    operations: Callable[[Sequence[Operation]], tuple[Operation, ...]]
    ready: _Chosen
    ends: _Chosen
    packed: Callable[..., bytes]
    names: str


@lru_cache(maxsize=1024)
def _layout(
    works: tuple[int, ...], before: tuple[int, ...] | None, after: tuple[int, ...] | None, activities: tuple[str, ...]
) -> _Layout:
    """Return the layout of a team's rows: what it works at, and what those before and after it do, if there are any.

    Its activities are given by their names.
    """
    forward = (number for number, work in enumerate(before or (), start=1) if work == FORWARD)
    backward = (number for number, work in enumerate(after or (), start=1 + len(before or ())) if work != FORWARD)
    sources = forward if before else None, backward if after else None
    is_sent = after is not None, before is not None
    turns, parts = len(works), len(activities) - LAST if works[-1] == LAST else 0
    sent, begun, ready = (number * turns for number in range(3))
    worked = ready + turns - bool(parts) + parts
    left, launches = worked + turns, worked + 2 * turns
    incoming: list[int] = []
    operations: list[int] = []
    times: list[tuple[int, int]] = []
    for turn, work in enumerate(works):
        kind = min(work, BACKWARD)
        source = sources[kind]
        incoming.append(0 if source is None else next(source))
        if source is not None:
            operations.append(kind)
            times.append((sent + turn, begun + turn))
        if work == LAST:
            for part in range(parts):
                operations.append(len(_WAITS) + LAST + part)
                times.append((ready + turn + part, launches + part))
        else:
            operations.append(len(_WAITS) + work)
            times.append((ready + turn, worked + turn))
        if is_sent[kind]:
            operations.append(2 + kind)
            times.append((worked + turn, left + turn))
    of_rows = itemgetter(*operations)
    ready_of, end_of = (itemgetter(*numbers) for numbers in zip(*times, strict=True))
    names = of_rows((*(wait.name for wait in _WAITS), *activities))
    packed = Struct(f"{len(times)}q").pack
    return _Layout(itemgetter(*incoming), of_rows, ready_of, end_of, packed, "\n".join(names))
