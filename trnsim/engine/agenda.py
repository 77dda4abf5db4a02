"""What is to be done when, for players that are plain data and not processes of SimPy."""

from __future__ import annotations

from functools import partial
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from trnsim.engine.arrivals import Arrival
from trnsim.engine.shared_links import SharedLinks

if TYPE_CHECKING:
    from collections.abc import Callable

    import simpy

    from trnsim.engine.arrivals import Route
    from trnsim.engine.courses import Course


class Agenda:
    """Does what is due, in the order of time; what is due at one time in the order in which it was added.

    Parameters
    ----------
    start_ps
        What the clock shows at first.

    Attributes
    ----------
    now
        What the clock shows, in picoseconds.
    events
        How many actions were done.

    Examples
    --------
    >>> agenda = Agenda()
    >>> agenda.add(5, lambda: agenda.add(7, lambda: print("done at", agenda.now)))
    >>> agenda.run()
    done at 7
    >>> agenda.events
    2
    """

    def __init__(self, start_ps: int = 0) -> None:
        self.now = start_ps
        self.events = 0
        self._times: list[int] = []
        self._due: dict[int, list[Callable[[], None]]] = {}
        self._when_settled: list[Callable[[], None]] = []
        self._links = SharedLinks(self)

    def add(self, at_ps: int, action: Callable[[], None]) -> None:
        """Let an action be done at a time, which is not over."""
        due = self._due.get(at_ps)
        if due is None:
            self._due[at_ps] = [action]
            heappush(self._times, at_ps)
        else:
            due.append(action)

    def schedule(self, event: simpy.Event, priority: int = 1, delay: int = 0) -> None:  # noqa: ARG002  # as SimPy has it
        """Let an event happen after a delay, as an environment of SimPy does."""
        self.add(self.now + delay, partial(_happen, event))

    def carry(self, course: Course, route: Route, over: Callable[[], None]) -> None:
        """Begin a transfer that may meet others on its links, and call something when it ends."""
        arrival = Arrival(self)  # type: ignore[arg-type]  # of an environment it needs the clock, and to be scheduled
        arrival.callbacks.append(lambda _: over())
        self._links.carry(course, route, arrival)

    def call_when_settled(self, look: Callable[[], None]) -> None:
        """Call something when nothing more is due at this time."""
        if look not in self._when_settled:
            self._when_settled.append(look)

    def run(self) -> None:
        """Do all that is due until nothing is left."""
        times, all_due = self._times, self._due
        while times:
            self.now = heappop(times)
            due = all_due[self.now]
            for action in due:  # grows by what is due at once
                action()
            self.events += len(due)
            del all_due[self.now]
            if self._when_settled:
                looks, self._when_settled = self._when_settled, []
                for look in looks:
                    look()


def _happen(event: simpy.Event) -> None:
    callbacks, event.callbacks = event.callbacks, None  # type: ignore[assignment]  # as SimPy does with what is over
    for callback in callbacks:
        callback(event)
