"""Messages that pass over links one after the other, and members that go on as soon as their own are through.

Each message keeps every link of its path busy for a while. A link serves messages in the order in which they reach it
(first come, first served), and the members of a group are not held together: each begins its next step when what it
sends has left and what it must receive has arrived. Whole picoseconds only.

A step costs one event for each member, and one for every link of a message's path after the first. They are kept in an
agenda of their own, whose time is that of a SimPy environment: what comes before anything else there is done in one go.

References
----------
Kermani and Kleinrock, Virtual cut-through, Computer Networks 3(4), 1979, doi:10.1016/0376-5075(79)90032-1
"""

from __future__ import annotations

import heapq
from collections import Counter
from functools import cached_property, partial
from itertools import chain, count
from typing import TYPE_CHECKING, NamedTuple

import simpy
from msgspec import Struct

from trnsim.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["Arrivals", "Exchange", "MessageLinks", "Round", "Send", "exchange"]

Path = tuple[tuple[int, int], ...]
_StepOfOne = tuple[int, "Sequence[Send]", int]

_NEVER_PS = 2**63


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


class Exchange(Record, eq=False, dict=True):
    """What members send each other in a number of steps that are alike.

    Parameters
    ----------
    sends
        The messages of each member in one step, in the order in which it sends them.
    steps
        How often. >= 1.
    channel
        Exchanges of one channel follow one another; a member works on all channels at once.
    """

    sends: Sequence[Sequence[Send]]
    steps: int = 1
    channel: int = 0

    @cached_property
    def receives(self) -> Counter[int]:
        """How many messages each member gets in one step."""
        return Counter(send.target for send in chain.from_iterable(self.sends))


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
    """Run the exchanges of groups that begin together and share links.

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
    environment = simpy.Environment()
    links = MessageLinks(environment, latencies_ps, cut_through=cut_through)
    rounds = [Round(links, exchanges, pause_ps=pause_ps) for exchanges in groups]
    ends_ps = [[0] * each.size for each in rounds]
    for each, ends in zip(rounds, ends_ps, strict=True):
        for member in range(each.size):
            each.begin(member, 0, partial(ends.__setitem__, member))
    environment.run()
    return Arrivals(ends_ps, links.events)


class MessageLinks:
    r"""Links that serve messages in the order of their arrival.

    A message that reaches a link at time :math:`t` has it from :math:`s = \max(t, free)` on, for :math:`d` picoseconds
    or until its last byte has come in, whichever is later. The last byte reaches the next link, or the target, a
    latency after that. With cut-through the next link is asked for a latency after :math:`s` already, without when the
    message is complete. Alone on a path it takes :math:`\sum \alpha + \max d` with, :math:`\sum (\alpha + d)` without.

    Parameters
    ----------
    environment
        Where time passes, in integer picoseconds.
    latencies_ps, cut_through
        As for `exchange`.

    Attributes
    ----------
    events
        How many events of messages and members there were.
    """

    def __init__(
        self, environment: simpy.Environment, latencies_ps: Sequence[int], *, cut_through: bool = True
    ) -> None:
        self.events = 0
        self._environment = environment
        self._latencies_ps = latencies_ps
        self._cut_through = cut_through
        self._free_ps = [0] * len(latencies_ps)
        self._order = count()
        self._agenda: list[tuple[int, int, _Member, _Travel | None]] = []
        self._alarm_ps = _NEVER_PS
        self._is_at_work = False

    def at(self, time_ps: int, member: _Member, message: _Travel | None = None) -> None:
        """Let a message of a member go on at a time, or the member itself; of equal times, the first that was asked."""
        heapq.heappush(self._agenda, (time_ps, next(self._order), member, message))
        if time_ps < self._alarm_ps and not self._is_at_work:
            self._set_alarm(time_ps)

    def cross(self, now_ps: int, member: _Member, message: _Travel) -> int:
        """Let a message take the next link of its path, and return when its last byte has left it."""
        link, busy_ps = message.path[message.crossed]
        start_ps = max(now_ps, self._free_ps[link])
        end_ps = self._free_ps[link] = max(start_ps + busy_ps, message.complete_ps)
        message.complete_ps = end_ps + self._latencies_ps[link]
        message.crossed += 1
        if message.crossed == len(message.path):
            member.group[message.target].receive(message.step, message.complete_ps)
        elif self._cut_through:
            self.at(start_ps + self._latencies_ps[link], member, message)
        else:
            self.at(message.complete_ps, member, message)
        return end_ps

    def _set_alarm(self, time_ps: int) -> None:
        self._alarm_ps = time_ps
        delay_ps = time_ps - self._environment.now
        simpy.Timeout(self._environment, delay_ps, time_ps).callbacks.append(self._work)

    def _work(self, alarm: simpy.Event) -> None:
        """Do what is due now, and what is due before anything else happens."""
        if alarm.value != self._alarm_ps:
            return
        agenda, environment, now_ps = self._agenda, self._environment, self._alarm_ps
        self._is_at_work = True
        while agenda and (agenda[0][0] <= now_ps or agenda[0][0] < environment.peek()):
            time_ps, _, member, message = heapq.heappop(agenda)
            self.events += 1
            if message is None:
                member.send(time_ps)
            else:
                self.cross(time_ps, member, message)
        self._is_at_work = False
        self._alarm_ps = _NEVER_PS
        if agenda:
            self._set_alarm(agenda[0][0])


class _Travel(Struct):
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


class Round:
    """The exchanges of one group, once: nobody waits for a member that does not send to it.

    Parameters
    ----------
    links
        The links that it uses.
    exchanges
        Those of a channel one after the other, all with as many members.
    pause_ps
        As for `exchange`.
    """

    def __init__(self, links: MessageLinks, exchanges: Sequence[Exchange], *, pause_ps: int = 0) -> None:
        self.size = len(exchanges[0].sends) if exchanges else 0
        self._channels = []
        for channel in dict.fromkeys(each.channel for each in exchanges):
            of_it = [each for each in exchanges if each.channel == channel]
            members = [_Member(links, _steps(of_it, number), pause_ps) for number in range(self.size)]
            for member in members:
                member.group = members
            self._channels.append(members)

    def begin(self, member: int, time_ps: int, through: Callable[[int], None]) -> None:
        """Let a member begin at a time that is not past.

        Parameters
        ----------
        member
            Its number.
        time_ps
            When it sends first. What others send it before that arrives all the same.
        through
            Told when the member is through with all that it sends and receives, as soon as that is known.
        """
        if len(self._channels) == 1:
            self._channels[0][member].begin(time_ps, through)
            return
        ends_ps: list[int] = []

        def one_more(end_ps: int) -> None:
            ends_ps.append(end_ps)
            if len(ends_ps) == len(self._channels):
                through(max(ends_ps))

        for members in self._channels:
            members[member].begin(time_ps, one_more)


class _Member:
    """A member of a group, in one of its steps; the events that it waits for are counted, not scheduled."""

    __slots__ = (
        "_early",
        "_links",
        "_missing",
        "_pause_ps",
        "_ready_ps",
        "_rest",
        "_sends",
        "_step",
        "_through",
        "group",
    )

    _through: Callable[[int], None]

    def __init__(self, links: MessageLinks, steps: Iterator[_StepOfOne], pause_ps: int) -> None:
        self.group: Sequence[_Member] = ()
        self._links = links
        self._rest = steps
        self._pause_ps = pause_ps
        self._ready_ps = 0
        self._sends: Sequence[Send] = ()
        self._step = -1
        self._missing = 0
        self._early: dict[int, tuple[int, int]] = {}

    def begin(self, time_ps: int, through: Callable[[int], None]) -> None:
        """Take up the first step in which there is something to do."""
        self._through = through
        self._begin_next_step(time_ps)

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

    def _begin_next_step(self, now_ps: int) -> None:
        found = next(self._rest, None)
        if found is None:
            self._through(now_ps)
            return
        self._step, self._sends, receives = found
        early, latest_ps = self._early.pop(self._step, (0, 0))
        self._missing = receives - early + 1  # one more: its own messages, until they have left
        self._ready_ps = max(now_ps, latest_ps)
        self._links.at(now_ps + self._pause_ps, self)

    def _settle(self, time_ps: int) -> None:
        self._ready_ps = max(self._ready_ps, time_ps)
        self._missing -= 1
        if not self._missing:
            self._begin_next_step(self._ready_ps)


def _steps(exchanges: Sequence[Exchange], member: int) -> Iterator[_StepOfOne]:
    """Yield the number of every step in which a member has something to do, its messages, and how many it receives."""
    first = 0
    for each in exchanges:
        sends, receives = each.sends[member], each.receives[member]
        if sends or receives:
            for step in range(first, first + each.steps):
                yield step, sends, receives
        first += each.steps
