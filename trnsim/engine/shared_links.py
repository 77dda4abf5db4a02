"""Transfers of simulated ranks that share links: each takes stints of time of its own and time on one kind of link.

A transfer that meets nobody on its links is one event, however many stints it has. Where transfers may meet, each is
followed from stint to stint, and those that are on a link at the same time share it max-min fairly.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from itertools import accumulate, groupby
from typing import TYPE_CHECKING, NamedTuple

import simpy

from trnsim.engine.sharing import fair_rates

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

__all__ = ["Course", "SharedLinks", "Stint", "stints_of"]

_FULL = 10**9
"""The rate of a transfer that has its links to itself; also what a link can give."""


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
        Whether nobody else may use its links, so that its next event is its end.
    version
        Counts the times at which its next event was settled anew; earlier ones are void.
    """

    __slots__ = ("alone", "course", "everywhere", "index", "left", "links", "over", "rate", "since_ps", "version")

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
        self.alone = False
        self.version = 0

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
        alone = True
        for link in stream.everywhere:
            users = self._users[link]
            alone = alone and not users
            users[stream] = None
        if alone:
            stream.alone = True
            self._wake_in(stream, course.duration_ps)
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
        now_ps = self._now_ps
        for stream in streams:
            stream.advance(now_ps)
            stream.alone = len(streams) == 1
            stream.rate = _FULL
        if len(streams) == 1:
            self._wake_in(streams[0], streams[0].remaining_ps())
            return
        active = [stream for stream in streams if stream.here]
        number = {link: index for index, link in enumerate({link: None for each in active for link in each.here})}
        rates = fair_rates([_FULL] * len(number), [{number[link]: 1 for link in each.here} for each in active])
        for stream, rate in zip(active, rates, strict=True):
            stream.rate = rate
        for stream in streams:
            self._wake_in(stream, max(0, -(-stream.left // stream.rate)))

    def _wake_in(self, stream: _Stream, delay_ps: int) -> None:
        stream.version += 1
        version = stream.version
        alarm = simpy.Timeout(self._environment, delay_ps)
        alarm.callbacks.append(lambda _: self._awake(stream, version))

    def _awake(self, stream: _Stream, version: int) -> None:
        if version != stream.version:
            return
        if not stream.alone:
            stream.advance(self._now_ps)
            if not stream.is_over:
                self._look_at([stream])
                return
        met: dict[_Stream, None] = {}
        for link in stream.everywhere:
            users = self._users[link]
            del users[stream]
            if not stream.alone:
                met |= users
        self._look_at(list(met))
        stream.over()
