"""Transfers of simulated ranks that share links: each takes stints of time of its own and time on one kind of link.

A transfer is one event, its end, however many stints it has, as long as it meets nobody: when it will, if nothing
changes, is looked up in its stints. While transfers are on a link at the same time they share it max-min fairly, and
they and all that they may meet are followed from stint to stint.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

import simpy

from trnsim.engine.sharing import fair_rates

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

    from trnsim.engine.agenda import Agenda
    from trnsim.engine.courses import Course

_FULL = 10**9
"""The rate of a transfer that has its links to itself; also what a link can give."""

_NEVER_PS = 2**63


class Link:
    """One direction of the links of a kind at a rank, and the transfers that are or will be on it."""

    __slots__ = ("users",)

    def __init__(self) -> None:
        self.users: dict[_Stream, None] = {}

    def situation(self, now_ps: int) -> Hashable:
        """Return who is on it and how far, times counted from now."""
        return tuple(stream.situation(now_ps) for stream in self.users)


class Route:
    """The links that a transfer takes at once.

    Parameters
    ----------
    of_kind
        From a kind to the links of that kind.
    """

    __slots__ = ("_found", "_of_kind", "_together")

    def __init__(self, of_kind: Callable[[str], Iterable[Link]]) -> None:
        self._of_kind = of_kind
        self._found: dict[str, tuple[Link, ...]] = {}
        self._together: dict[tuple[str, ...], tuple[Link, ...]] = {}

    def links(self, kind: str) -> tuple[Link, ...]:
        """Return the links of one kind."""
        found = self._found.get(kind)
        if found is None:
            found = self._found[kind] = tuple(self._of_kind(kind))
        return found

    def all_links(self, kinds: tuple[str, ...]) -> tuple[Link, ...]:
        """Return the links of several kinds."""
        found = self._together.get(kinds)
        if found is None:
            found = self._together[kinds] = tuple(link for kind in kinds for link in self.links(kind))
        return found


class _Stream:
    """A transfer under way.

    Attributes
    ----------
    everywhere
        All links that it is or will be on.
    index, left
        The stint it is in, and what is left of it in picoseconds times the full rate.
    rate, since_ps
        How fast that goes, and since when.
    whole
        Whether it goes at the full rate to its end, as far as is known; the alarm is for that end, else for its stint's.
    alarm, watch
        When that is, and when it will meet another if nothing changes.
    """

    index = 0
    rate = _FULL
    whole = True
    alarm: _Alarm | None = None
    watch: _Alarm | None = None

    def __init__(self, course: Course, route: Route, over: Callable[[], None], now_ps: int) -> None:
        self.course = course
        self.route = route
        self.everywhere = route.all_links(course.kinds)
        self.over = over
        self.left = course.stints[0].work_ps * _FULL
        self.since_ps = now_ps

    @property
    def here(self) -> tuple[Link, ...]:
        """The links of the stint it is in."""
        kind = self.course.stints[self.index].kind
        return self.route.links(kind) if kind else ()

    @property
    def is_over(self) -> bool:
        """Whether nothing is left."""
        return self.left <= 0 and self.index == len(self.course.stints) - 1

    def situation(self, now_ps: int) -> Hashable:
        """Return which way it goes, how far and how fast, and when it is to be looked at, counted from now."""
        alarms = tuple(alarm and alarm.at_ps - now_ps for alarm in (self.alarm, self.watch))
        return id(self.course), id(self.route), self._done(now_ps), self.rate, self.whole, alarms

    def _done(self, now_ps: int) -> int:
        return self.course.ends_ps[self.index] * _FULL - self.left + self.rate * (now_ps - self.since_ps)

    def advance(self, now_ps: int) -> None:
        """Do what was due since the last look; only with the links to itself can that be several stints."""
        if now_ps == self.since_ps:
            return
        ends_ps, done = self.course.ends_ps, self._done(now_ps)
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


class _Alarm(simpy.Event):
    """A moment at which a transfer is to be looked at; void if the transfer has another one by then."""

    def __init__(
        self,
        environment: simpy.Environment | Agenda,
        delay_ps: int,
        at_ps: int,
        stream: _Stream,
        look: Callable[[_Alarm], None],
    ) -> None:
        self.env = environment  # type: ignore[assignment]  # it only schedules
        self.callbacks = [look]  # called with this alarm
        self._ok = True
        self._value = None
        self.at_ps = at_ps
        self.stream = stream
        environment.schedule(self, delay=delay_ps)


class SharedLinks:
    """Transfers on the links of all ranks.

    Parameters
    ----------
    environment
        Where time passes, in integer picoseconds.

    Examples
    --------
    Two transfers of 6 ps share a link from 2 ps on: each is half as fast until the first ends.

    >>> from trnsim.engine.courses import Course, stints_of
    >>> environment, ends, link = simpy.Environment(), [], Link()
    >>> links, route = SharedLinks(environment), Route(lambda kind: [link])
    >>> def start(own_ps):
    ...     course = Course(stints_of(own_ps + 6, {"efa": 6}))
    ...     links.carry(course, route, lambda: ends.append(environment.now))
    >>> start(0), start(2)
    (None, None)
    >>> environment.run()
    >>> ends
    [10, 12]
    """

    def __init__(self, environment: simpy.Environment | Agenda) -> None:
        self._environment = environment

    def carry(self, course: Course, route: Route, over: Callable[[], None]) -> None:
        """Begin a transfer now.

        Parameters
        ----------
        course
            At least one stint.
        route
            The links that the transfer takes at once.
        over
            Called when it ends.
        """
        now_ps: int = self._environment.now  # type: ignore[assignment]  # an int, since every delay is one
        stream = _Stream(course, route, over, now_ps)
        is_alone = True
        for link in stream.everywhere:
            if link.users:
                is_alone = False
            link.users[stream] = None
        if is_alone:
            self._ring(stream, now_ps, course.duration_ps)
        else:
            self._look_at([stream])

    def _look_at(self, streams: Iterable[_Stream]) -> None:
        """Settle anew what comes next for these transfers and all that they meet."""
        seen: dict[_Stream, None] = {}
        for stream in streams:
            if stream not in seen:
                company = _company(stream)
                seen |= company
                self._share(list(company))

    def _share(self, streams: list[_Stream]) -> None:
        """Give transfers that may meet their rates, and settle when to look again."""
        now_ps: int = self._environment.now  # type: ignore[assignment]  # an int, since every delay is one
        for stream in streams:
            stream.advance(now_ps)
            stream.rate = _FULL
        meet = len(streams) > 1 and _meet_now(streams)
        for stream in streams:
            stream.whole = not meet
            self._ring(stream, now_ps, max(0, -(-stream.left // stream.rate)) if meet else stream.remaining_ps())
        if len(streams) > 1 and not meet and (meeting_ps := _next_meeting_ps(streams)) is not None:
            self._watch(streams[0], now_ps, meeting_ps)

    def _ring(self, stream: _Stream, now_ps: int, delay_ps: int) -> None:
        """Set the alarm of a transfer; what was set before is void, unless it is for the same moment."""
        at_ps = now_ps + delay_ps
        if stream.alarm is None or stream.alarm.at_ps != at_ps:
            stream.alarm = _Alarm(self._environment, delay_ps, at_ps, stream, self._at_end)

    def _watch(self, stream: _Stream, now_ps: int, delay_ps: int) -> None:
        at_ps = now_ps + delay_ps
        if stream.watch is None or stream.watch.at_ps != at_ps:
            stream.watch = _Alarm(self._environment, delay_ps, at_ps, stream, self._at_meeting)

    def _at_meeting(self, alarm: _Alarm) -> None:
        if alarm.stream.watch is alarm:
            self._look_at([alarm.stream])

    def _at_end(self, alarm: _Alarm) -> None:
        """End a transfer, or look at it again if only a stint is over."""
        stream = alarm.stream
        if stream.alarm is not alarm:
            return
        stream.alarm = None
        if not stream.whole:
            stream.advance(self._environment.now)  # type: ignore[arg-type]
            if not stream.is_over:
                self._look_at([stream])
                return
        stream.watch = None
        met: dict[_Stream, None] = {}
        for link in stream.everywhere:
            del link.users[stream]
            if link.users:
                met |= link.users
        if met and not _have_been_alone(met):
            self._look_at(met)
        stream.over()


def _have_been_alone(streams: Iterable[_Stream]) -> bool:
    """Say whether nothing changes for these transfers when another is over: none shares a link, nor will."""
    return all(stream.whole and all(len(link.users) == 1 for link in stream.everywhere) for stream in streams)


def _company(stream: _Stream) -> dict[_Stream, None]:
    """Return a transfer with all that it may meet, and all that these may meet."""
    found, new = {stream: None}, [stream]
    while new:
        for link in new.pop().everywhere:
            for other in link.users:
                if other not in found:
                    found[other] = None
                    new.append(other)
    return found


def _meet_now(streams: Sequence[_Stream]) -> bool:
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


def _next_meeting_ps(streams: Sequence[_Stream]) -> int | None:
    """Return how long it takes until two are on one link, if that is before one of them ends."""
    horizon_ps = first_ps = min(stream.remaining_ps() for stream in streams)
    looked: set[_Stream] = set()
    for one in streams:
        looked.add(one)
        for kind in one.course.kinds:
            others = {other: None for link in one.route.links(kind) for other in link.users if other not in looked}
            for other in others:
                overlap_ps = _first_overlap_ps(one.busy_on(kind, first_ps), other.busy_on(kind, first_ps))
                first_ps = min(first_ps, overlap_ps)
    return first_ps if first_ps < horizon_ps else None


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
