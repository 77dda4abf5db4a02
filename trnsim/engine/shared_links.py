"""Transfers of simulated ranks that share links: each takes stints of time of its own and time on one kind of link.

A transfer is one event, its end, however many stints it has, as long as it meets nobody: when it will, if nothing
changes, is looked up in its stints. While transfers are on a link at the same time they share it max-min fairly, and
they and all that they may meet are followed from stint to stint.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from functools import partial
from itertools import accumulate, groupby
from typing import TYPE_CHECKING, NamedTuple

import simpy

from trnsim.engine.sharing import fair_rates

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

__all__ = ["Course", "SharedLinks", "Stint", "stints_of"]

_FULL = 10**9
"""The rate of a transfer that has its links to itself; also what a link can give."""


_NEVER_PS = 2**63


class Stint(NamedTuple):
    """A stretch of a transfer: on links of one kind, or on none.

    Parameters
    ----------
    kind
        Kind of the links, or empty for latency, computation and everything else that nobody shares.
    work_ps
        How long it takes with the links to itself. > 0.
    """

    kind: str
    work_ps: int


class Course:
    """The stints of a transfer, or of several that follow one another.

    Parameters
    ----------
    stints
        In order.

    Attributes
    ----------
    stints
        The same, without empty ones, neighbours of one kind made one.
    ends_ps
        When each is over, counted from the start, with the links to itself.
    kinds
        Kinds of links on the way.

    Examples
    --------
    >>> course = Course([Stint("", 3), Stint("efa", 7), Stint("efa", 1)])
    >>> course.ends_ps, course.kinds, course.duration_ps
    ([3, 11], ('efa',), 11)
    """

    __slots__ = ("ends_ps", "kinds", "stints")

    def __init__(self, stints: Iterable[Stint]) -> None:
        runs = groupby((stint for stint in stints if stint.work_ps), key=lambda stint: stint.kind)
        self.stints = [Stint(kind, sum(stint.work_ps for stint in run)) for kind, run in runs]
        self.ends_ps = list(accumulate(stint.work_ps for stint in self.stints))
        self.kinds = tuple({stint.kind: None for stint in self.stints if stint.kind})

    @property
    def duration_ps(self) -> int:
        """How long it takes with the links to itself."""
        return self.ends_ps[-1] if self.ends_ps else 0


def stints_of(duration_ps: int, busy_ps: Mapping[str, int]) -> list[Stint]:
    """Divide a duration into time of its own, which comes first, and time on each kind of link.

    Examples
    --------
    >>> stints_of(10, {"efa": 7})
    [Stint(kind='', work_ps=3), Stint(kind='efa', work_ps=7)]
    """
    stints: list[Stint] = []
    left = duration_ps
    for kind, work_ps in busy_ps.items():
        stints.append(Stint(kind, min(work_ps, left)))  # each is rounded up, and so may be their sum
        left -= stints[-1].work_ps
    return [Stint("", left), *stints]


class _Stream:
    """A transfer under way.

    Attributes
    ----------
    index, left
        The stint it is in, and what is left of it in picoseconds times the full rate.
    rate, since_ps
        How fast that goes, and since when.
    alone
        Whether nobody else may use its links.
    alarm, watch
        When it is due to end (or, while links are shared, its stint), and when it will meet another if nothing changes.
    """

    __slots__ = (
        "alarm",
        "alone",
        "course",
        "everywhere",
        "index",
        "left",
        "links",
        "over",
        "rate",
        "since_ps",
        "watch",
    )

    def __init__(
        self, course: Course, links: Mapping[str, Sequence[Hashable]], over: Callable[[], None], now_ps: int
    ) -> None:
        self.course = course
        self.links = links
        self.everywhere = [link for taken in links.values() for link in taken]
        self.over = over
        self.index = 0
        self.left = course.stints[0].work_ps * _FULL
        self.rate = _FULL
        self.since_ps = now_ps
        self.alone = True
        self.alarm = _Alarm()
        self.watch = _Alarm()

    @property
    def here(self) -> Sequence[Hashable]:
        """The links of the stint it is in."""
        kind = self.course.stints[self.index].kind
        return self.links[kind] if kind else ()

    @property
    def is_over(self) -> bool:
        """Whether nothing is left."""
        return self.left <= 0 and self.index == len(self.course.stints) - 1

    def advance(self, now_ps: int) -> None:
        """Do what was due since the last look; only with the links to itself can that be several stints."""
        ends_ps = self.course.ends_ps
        done = ends_ps[self.index] * _FULL - self.left + self.rate * (now_ps - self.since_ps)
        self.since_ps = now_ps
        self.index = min(bisect_right(ends_ps, done // _FULL, lo=self.index), len(ends_ps) - 1)
        self.left = ends_ps[self.index] * _FULL - done

    def remaining_ps(self) -> int:
        """Return how long all that is left takes without company."""
        return -(-self.left // _FULL) + self.course.duration_ps - self.course.ends_ps[self.index]

    def busy_on(self, kind: str, horizon_ps: int) -> Iterator[tuple[int, int]]:
        """Yield from when to when it will be on links of a kind, counted from now, if it has them to itself."""
        ends_ps, stints = self.course.ends_ps, self.course.stints
        passed_ps = ends_ps[self.index] - -(-self.left // _FULL)
        start_ps = 0
        for index in range(self.index, len(stints)):
            if start_ps >= horizon_ps:
                return
            end_ps = ends_ps[index] - passed_ps
            if stints[index].kind == kind:
                yield start_ps, end_ps
            start_ps = end_ps


class _Alarm:
    """A moment at which something is to be done, until it is set anew."""

    __slots__ = ("at_ps",)

    def __init__(self) -> None:
        self.at_ps = -1


class SharedLinks:
    """The links of all ranks, and the transfers on them.

    Parameters
    ----------
    environment
        Where time passes, in integer picoseconds.

    Examples
    --------
    Two transfers of 6 ps share a link from 2 ps on: each is half as fast until the first ends.

    >>> environment, ends = simpy.Environment(), []
    >>> links = SharedLinks(environment)
    >>> def start(own_ps):
    ...     course = Course(stints_of(own_ps + 6, {"efa": 6}))
    ...     links.carry(course, lambda kind: [f"{kind} 0"], lambda: ends.append(environment.now))
    >>> start(0), start(2)
    (None, None)
    >>> environment.run()
    >>> ends
    [10, 12]
    """

    def __init__(self, environment: simpy.Environment) -> None:
        self._environment = environment
        self._users: defaultdict[Hashable, dict[_Stream, None]] = defaultdict(dict)

    def carry(self, course: Course, links: Callable[[str], Sequence[Hashable]], over: Callable[[], None]) -> None:
        """Begin a transfer now.

        Parameters
        ----------
        course
            At least one stint.
        links
            From a kind to the links that the transfer takes at once.
        over
            Called when it ends.
        """
        stream = _Stream(course, {kind: links(kind) for kind in course.kinds}, over, self._now_ps)
        for link in stream.everywhere:
            users = self._users[link]
            stream.alone = stream.alone and not users
            users[stream] = None
        if stream.alone:
            self._ring(stream.alarm, course.duration_ps, partial(self._at_end, stream))
        else:
            self._look_at([stream])

    @property
    def _now_ps(self) -> int:
        return int(self._environment.now)

    def _look_at(self, streams: Sequence[_Stream]) -> None:
        """Settle anew what comes next for these transfers and all that they meet."""
        seen: dict[_Stream, None] = {}
        for stream in streams:
            if stream not in seen:
                company = self._company(stream)
                seen |= company
                self._share(list(company))

    def _company(self, stream: _Stream) -> dict[_Stream, None]:
        """Return a transfer with all that it may meet, and all that these may meet."""
        found, new = {stream: None}, [stream]
        while new:
            for link in new.pop().everywhere:
                for other in self._users[link]:
                    if other not in found:
                        found[other] = None
                        new.append(other)
        return found

    def _share(self, streams: list[_Stream]) -> None:
        """Give transfers that may meet their rates, and settle when to look again."""
        now_ps = self._now_ps
        for stream in streams:
            stream.advance(now_ps)
            stream.rate = _FULL
            stream.alone = len(streams) == 1
        if len(streams) > 1 and self._meet_now(streams):
            for stream in streams:
                self._ring(stream.alarm, max(0, -(-stream.left // stream.rate)), partial(self._at_end, stream))
            return
        for stream in streams:
            self._ring(stream.alarm, stream.remaining_ps(), partial(self._at_end, stream))
        if len(streams) > 1 and (meeting_ps := self._next_meeting_ps(streams)) is not None:
            self._ring(streams[0].watch, meeting_ps, partial(self._look_at, [streams[0]]))

    def _meet_now(self, streams: list[_Stream]) -> bool:
        """Share the links on which transfers are now; say whether there is one with several."""
        active = [stream for stream in streams if stream.here]
        used = [link for stream in active for link in stream.here]
        number = {link: index for index, link in enumerate(dict.fromkeys(used))}
        if len(number) == len(used):
            return False
        rates = fair_rates([_FULL] * len(number), [{number[link]: 1 for link in each.here} for each in active])
        for stream, rate in zip(active, rates, strict=True):
            stream.rate = rate
        return True

    def _next_meeting_ps(self, streams: list[_Stream]) -> int | None:
        """Return how long it takes until two are on one link, if that is before one of them ends."""
        horizon_ps = min(stream.remaining_ps() for stream in streams)
        first_ps = horizon_ps
        pairs = {
            (one, other, kind): None
            for one in streams
            for kind, links in one.links.items()
            for link in links
            for other in self._users[link]
            if other is not one
        }
        for one, other, kind in pairs:
            first_ps = min(first_ps, _first_overlap_ps(one.busy_on(kind, first_ps), other.busy_on(kind, first_ps)))
        return first_ps if first_ps < horizon_ps else None

    def _ring(self, alarm: _Alarm, delay_ps: int, then: Callable[[], None]) -> None:
        """Set an alarm; what was set before is void, unless it is for the same moment."""
        at_ps = self._now_ps + delay_ps
        if alarm.at_ps != at_ps:
            alarm.at_ps = at_ps
            event = simpy.Timeout(self._environment, delay_ps)
            event.callbacks.append(lambda _: self._rung(alarm, at_ps, then))

    @staticmethod
    def _rung(alarm: _Alarm, at_ps: int, then: Callable[[], None]) -> None:
        if alarm.at_ps == at_ps:
            alarm.at_ps = -1
            then()

    def _at_end(self, stream: _Stream) -> None:
        """End a transfer, or look at it again if only a stint is over."""
        if not stream.alone:
            stream.advance(self._now_ps)
            if not stream.is_over:
                self._look_at([stream])
                return
        met: dict[_Stream, None] = {}
        for link in stream.everywhere:
            users = self._users[link]
            del users[stream]
            if users:
                met |= users
        stream.watch.at_ps = -1
        if met:
            self._look_at(list(met))
        stream.over()


def _first_overlap_ps(one: Iterator[tuple[int, int]], other: Iterator[tuple[int, int]]) -> int:
    """Return when two rows of intervals first overlap; a very late time if they do not.

    Examples
    --------
    >>> _first_overlap_ps(iter([(0, 2), (5, 9)]), iter([(2, 5), (8, 12)]))
    8
    """
    mine, theirs = next(one, None), next(other, None)
    while mine and theirs:
        start_ps = max(mine[0], theirs[0])
        if start_ps < min(mine[1], theirs[1]):
            return start_ps
        if mine[1] <= theirs[1]:
            mine = next(one, None)
        else:
            theirs = next(other, None)
    return _NEVER_PS
