"""Messages that pass over links one after the other, and members that go on as soon as their own are through.

Each message keeps every link of its path busy for a while. A link serves messages in the order in which they reach it
(first come, first served), and the members of a group are not held together: each begins its next step when what it
sends has left and what it must receive has arrived. Whole picoseconds only.

A step costs one event for each member, and one for every link of a message's path after the first.

References
----------
Kermani and Kleinrock, Virtual cut-through, Computer Networks 3(4), 1979, doi:10.1016/0376-5075(79)90032-1
"""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass, field
from itertools import chain, count
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = ["Arrivals", "Exchange", "Send", "exchange"]

Path = tuple[tuple[int, int], ...]


class Send(NamedTuple):
    """One message.

    Attributes
    ----------
    target
        The member that receives it.
    path
        For each link in the order of travel: its number, and for how many picoseconds the message keeps it busy. Empty
        if the message crosses no link: it is there at once.
    """

    target: int
    path: Path


@dataclass(frozen=True, slots=True, eq=False)
class Exchange:
    """What members send each other in a number of steps that are alike.

    Parameters
    ----------
    sends
        The messages of each member in one step, in the order in which it sends them.
    steps
        How often. >= 1.
    """

    sends: Sequence[Sequence[Send]]
    steps: int = 1
    receives: Counter[int] = field(init=False)

    def __post_init__(self) -> None:
        targets = (send.target for send in chain.from_iterable(self.sends))
        object.__setattr__(self, "receives", Counter(targets))


class Arrivals(NamedTuple):
    """When members were through.

    Attributes
    ----------
    ends_ps
        For each group, the end of each member's last step.
    events
        How many events that took.
    """

    ends_ps: list[list[int]]
    events: int


def exchange(
    groups: Sequence[Sequence[Exchange]], latencies_ps: Sequence[int], *, cut_through: bool, pause_ps: int = 0
) -> Arrivals:
    r"""Run the exchanges of groups that begin together and share links.

    A message that reaches a link at time :math:`t` has it from :math:`s = \max(t, free)` on, for :math:`d` picoseconds
    or until its last byte has come in, whichever is later. The last byte reaches the next link, or the target, a
    latency after that. With cut-through the next link is asked for a latency after :math:`s` already, without when the
    message is complete. Alone on a path it takes :math:`\sum \alpha + \max d` with, :math:`\sum (\alpha + d)` without.

    Parameters
    ----------
    groups
        For each group its exchanges, one after the other, all with as many members.
    latencies_ps
        Of each link. >= 0.
    cut_through
        Whether a link passes on a message whose end it has not seen.
    pause_ps
        Time that a member takes before it sends in a step in which it sends or receives. >= 0.

    Examples
    --------
    Two members swap messages, twice; each of their links is busy for 5 ps and has a latency of 1 ps.

    >>> swap = Exchange([[Send(1, ((0, 5),))], [Send(0, ((1, 5),))]], steps=2)
    >>> exchange([[swap]], [1, 1], cut_through=True).ends_ps
    [[12, 12]]
    """
    links = _Links(latencies_ps, cut_through)
    members = [[_Member(links, exchanges, number, pause_ps) for number in _members(exchanges)] for exchanges in groups]
    for group in members:
        for member in group:
            member.group = group
            member.begin_next_step(0)
    events = links.run()
    return Arrivals([[member.ready_ps for member in group] for group in members], events)


def _members(exchanges: Sequence[Exchange]) -> Iterable[int]:
    return range(len(exchanges[0].sends)) if exchanges else ()


class _Links:
    """Links that serve messages in the order of their arrival, and the events of messages and members on them."""

    def __init__(self, latencies_ps: Sequence[int], cut_through: bool) -> None:
        self.latencies_ps = latencies_ps
        self.cut_through = cut_through
        self.free_ps = [0] * len(latencies_ps)
        self._order = count()
        self._due: list[tuple[int, int, _Member, _Travel | None]] = []

    def at(self, time_ps: int, member: _Member, message: _Travel | None = None) -> None:
        """Let a message of a member go on at a time, or the member itself; of equal times, the first that was asked."""
        heapq.heappush(self._due, (time_ps, next(self._order), member, message))

    def run(self) -> int:
        """Let everything happen, and return how much did."""
        events = 0
        while self._due:
            now_ps, _, member, message = heapq.heappop(self._due)
            events += 1
            if message is None:
                member.send(now_ps)
            else:
                self.cross(now_ps, member, message)
        return events

    def cross(self, now_ps: int, member: _Member, message: _Travel) -> int:
        """Let a message take the next link of its path, and return when its last byte has left it."""
        link, busy_ps = message.path[message.crossed]
        start_ps = max(now_ps, self.free_ps[link])
        end_ps = self.free_ps[link] = max(start_ps + busy_ps, message.complete_ps)
        message.complete_ps = end_ps + self.latencies_ps[link]
        message.crossed += 1
        if message.crossed == len(message.path):
            member.group[message.target].receive(message.step, message.complete_ps)
        elif self.cut_through:
            self.at(start_ps + self.latencies_ps[link], member, message)
        else:
            self.at(message.complete_ps, member, message)
        return end_ps


@dataclass(slots=True)
class _Travel:
    """A message on its way.

    Parameters
    ----------
    target, path
        As in `Send`.
    step
        The step that it belongs to, counted over all exchanges.
    crossed
        Links behind it.
    complete_ps
        When its last byte reaches the end of the last of those.
    """

    target: int
    path: Path
    step: int
    crossed: int = 0
    complete_ps: int = 0


class _Member:
    """A member of a group, in one of its steps; the events that it waits for are counted, not scheduled."""

    __slots__ = (
        "_early",
        "_links",
        "_missing",
        "_number",
        "_pause_ps",
        "_rest",
        "_sends",
        "_step",
        "group",
        "ready_ps",
    )

    def __init__(self, links: _Links, exchanges: Sequence[Exchange], number: int, pause_ps: int) -> None:
        self.group: list[_Member] = []
        self.ready_ps = 0
        self._links = links
        self._number = number
        self._pause_ps = pause_ps
        self._rest = _steps(exchanges, number)
        self._sends: Sequence[Send] = ()
        self._step = -1
        self._missing = 0
        self._early: dict[int, tuple[int, int]] = {}

    def begin_next_step(self, now_ps: int) -> None:
        """Take up the next step in which there is something to do."""
        found = next(self._rest, None)
        if found is not None:
            self._step, self._sends, receives = found
            early, latest_ps = self._early.pop(self._step, (0, 0))
            self._missing = receives - early
            self.ready_ps = max(now_ps, latest_ps)
            self._missing += 1  # its own messages, until they have left
            self._links.at(now_ps + self._pause_ps, self)

    def send(self, now_ps: int) -> None:
        """Put the messages of the step on their first links."""
        left_ps = now_ps
        for target, path in self._sends:
            if path:
                left_ps = max(left_ps, self._links.cross(now_ps, self, _Travel(target, path, self._step)))
            else:
                self.group[target].receive(self._step, now_ps)
        self._settle(left_ps)

    def receive(self, step: int, time_ps: int) -> None:
        """Note when a message of a step will have arrived, which may be one that the member has not begun."""
        if step == self._step:
            self._settle(time_ps)
        else:
            number, latest_ps = self._early.get(step, (0, 0))
            self._early[step] = number + 1, max(latest_ps, time_ps)

    def _settle(self, time_ps: int) -> None:
        self.ready_ps = max(self.ready_ps, time_ps)
        self._missing -= 1
        if not self._missing:
            self.begin_next_step(self.ready_ps)


def _steps(exchanges: Sequence[Exchange], member: int) -> Iterator[tuple[int, Sequence[Send], int]]:
    """Yield the number of every step in which a member has something to do, its messages, and how many it receives."""
    first = 0
    for each in exchanges:
        sends, receives = each.sends[member], each.receives[member]
        if sends or receives:
            for step in range(first, first + each.steps):
                yield step, sends, receives
        first += each.steps
