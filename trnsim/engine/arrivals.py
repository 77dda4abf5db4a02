"""What is on its way: messages and collectives, each one event from its start to its end, and the links they take."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any

import simpy
from simpy.events import NORMAL

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator

    from trnsim.engine.courses import Course

FULL = 10**9
"""The rate of a transfer that has its links to itself; also what a link can give."""


class Link:
    """One direction of the links of a kind at a rank, and the transfers that are or will be on it."""

    __slots__ = ("kind", "users")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.users: tuple[Arrival, ...] = ()

    def situation(self, now_ps: int) -> Hashable:
        """Return who is on it and how far, times counted from now."""
        return tuple([arrival.way_left(now_ps) for arrival in self.users])


class Route:
    """The links that a transfer takes at once.

    Parameters
    ----------
    of_kind
        From a kind to the links of that kind.
    receiver
        To whom it leads, where it leads to one.

    Attributes
    ----------
    receiver
        As given.
    kinds, links
        The kinds that were asked for last, and their links.
    """

    __slots__ = ("_of_kind", "kinds", "links", "receiver")

    def __init__(self, of_kind: Callable[[str], Iterable[Link]], receiver: object = None) -> None:
        self._of_kind = of_kind
        self.receiver = receiver
        self.kinds: tuple[str, ...] = ()
        self.links: tuple[Link, ...] = ()

    def of_kinds(self, kinds: tuple[str, ...]) -> tuple[Link, ...]:
        """Return the links of some kinds, and keep them: what takes a route mostly takes those of the same."""
        self.kinds = kinds
        self.links = tuple([link for kind in kinds for link in self._of_kind(kind)])
        return self.links


class Arrival(simpy.Event):
    """An event whose moment is settled when its cause is known: a message sent, a collective complete.

    It cannot fail, and what SimPy calls its value is None.

    Attributes
    ----------
    ready_ps, end_ps
        When its cause was known, and when it happened or will for certain; below 0 as long as that is open.
    course, links, since_ps
        What it is to the links, all that it is or will be on, and since when. Only where links are shared.
    has_met
        Whether another has been on one of these links beside it, or is to be. If not, it is scheduled for its end itself,
        and none of what follows matters.
    done, rate, since_ps
        What of it was done when its rate last changed, in picoseconds times the full rate; how fast it goes since then.
    index
        The stint it is in.
    whole
        Whether it goes at the full rate to its end, as far as is known.
    is_clear
        Whether it is known to go so, and so are all that it may meet: no two of them will be on a link together.
    at_ps, alarm
        When it is to be looked at, at its end if it is whole, else at that of its stint; what tells then, None for itself.
    watch
        When it will meet another if nothing changes.
    waiting
        Its callbacks, which SimPy takes away when it comes to a moment at which a transfer was to end.
    """

    _ok = True
    _value: Any = None

    ready_ps = -1
    end_ps = -1
    course: Course
    links: tuple[Link, ...]
    since_ps: int
    has_met = False
    done = 0
    rate = FULL
    index = 0
    whole = True
    is_clear = True
    at_ps = -1
    alarm: Alarm | None = None
    watch: Alarm | None = None
    waiting: list[Callable[[Any], None]]

    def happen_in(self, delay_ps: int) -> None:
        """Let it happen after a delay."""
        self.end_ps = self.env.now + delay_ps  # type: ignore[assignment]  # an int, since every delay is one
        self.env.schedule(self, NORMAL, delay_ps)

    def happen(self) -> None:
        """Let it happen at once, as a part of the event that is going on."""
        self.end_ps = self.env.now  # type: ignore[assignment]
        callbacks, self.callbacks = self.callbacks, None  # type: ignore[assignment]  # as SimPy does with what is over
        for callback in callbacks:
            callback(self)

    def left_ps(self, now_ps: int) -> int | None:
        """Return how long it takes to happen, below 0 if it has happened; None if that is not settled."""
        return self.end_ps - now_ps if self.end_ps >= 0 else None

    @property
    def here(self) -> list[Link]:
        """The links of the stint it is in."""
        kind = self.course.stints[self.index].kind
        return [link for link in self.links if link.kind == kind] if kind else []

    @property
    def left(self) -> int:
        """What is left of the stint, in picoseconds times the full rate."""
        return self.course.ends_ps[self.index] * FULL - self.done

    @property
    def is_through(self) -> bool:
        """Whether nothing is left."""
        return self.left <= 0 and self.index == len(self.course.stints) - 1

    def way_left(self, now_ps: int) -> Hashable:
        """Return which way it goes, how far and how fast, and when it is to be looked at, counted from now."""
        at_ps = self.at_ps if self.has_met else self.since_ps + self.course.duration_ps
        alarms = at_ps - now_ps, self.watch and self.watch.at_ps - now_ps
        done = self.done + self.rate * (now_ps - self.since_ps)
        return id(self.course), tuple(map(id, self.links)), done, self.rate, self.whole, alarms

    def meet(self) -> None:
        """Go on in the company of others."""
        if not self.has_met:
            self.has_met = True
            self.at_ps = self.since_ps + self.course.duration_ps
            self.waiting = self.callbacks

    def go_on(self) -> None:
        """Undo what SimPy does when it comes to a moment at which the transfer was to end, and which is void.

        SimPy has taken the callbacks away and is about to go through all of them.
        """
        self.callbacks = self.waiting[1:]
        self.waiting.clear()

    def advance(self, now_ps: int) -> None:
        """Do what was due since the last look; only with the links to itself can that be several stints."""
        if now_ps > self.since_ps:
            self.done += self.rate * (now_ps - self.since_ps)
            self.since_ps = now_ps
            ends_ps = self.course.ends_ps
            self.index = min(bisect_right(ends_ps, self.done // FULL, lo=self.index), len(ends_ps) - 1)

    def remaining_ps(self) -> int:
        """Return how long all that is left takes without company."""
        return self.course.duration_ps - self.done // FULL

    def busy_on(self, kind: str, horizon_ps: int) -> Iterator[tuple[int, int]]:
        """Yield from when to when it will be on links of a kind, counted from now, if it has them to itself."""
        ends_ps, stints = self.course.ends_ps, self.course.stints
        passed_ps = self.done // FULL
        start_ps = 0
        for index in range(self.index, len(stints)):
            if start_ps >= horizon_ps:
                return
            end_ps = ends_ps[index] - passed_ps
            if stints[index].kind == kind:
                yield start_ps, end_ps
            start_ps = end_ps


class Alarm(simpy.Event):
    """A moment at which a transfer is to be looked at; void if the transfer has another one by then."""

    _ok = True
    _value: Any = None

    def __init__(self, at_ps: int, arrival: Arrival, look: Callable[[Alarm], None]) -> None:
        self.callbacks = [look]  # called with this alarm
        self.at_ps = at_ps
        self.arrival = arrival
