"""Collectives and messages of single ranks on links that all of them share, carried message by message."""

from __future__ import annotations

from collections import deque
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct, field

from trnsim.engine.groups import Call
from trnsim.engine.messages import MessageLinks, Round
from trnsim.engine.operations import STRAGGLER_WAIT, Activity, Transfer, Wait

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence

    import simpy

    from trnsim.engine.core import Cohort
    from trnsim.engine.groups import Collective
    from trnsim.engine.messages import Exchange

    ExchangesOf = Callable[[tuple[int, ...], Any], Sequence[Exchange]]

__all__ = ["ExchangesOf", "MemberCall", "Post"]


class MemberCall(Call):
    """A collective as one of its members sees it: over when that member is through.

    Parameters
    ----------
    meeting
        What it has in common with the calls of the others.
    member
        Whose call it is.
    name
        What it is called in reports.
    delay_ps
        What passes before the member sends.
    """

    def __init__(self, meeting: _Meeting, member: Cohort, name: str, delay_ps: int) -> None:
        super().__init__(meeting.group, name, member.engine.environment)
        self.meeting = meeting
        self.member = member
        self.joined_ps = meeting.joined_ps
        self.delay_ps = delay_ps


class Stop(NamedTuple):
    """A collective that interrupts an activity."""

    wait: Wait
    transfer: Transfer


class _Meeting(Struct):
    """A collective: the messages of its members, and the calls of those that have joined."""

    group: Collective
    key: Hashable
    round: Round
    joined_ps: dict[Cohort, int] = field(default_factory=dict)
    calls: list[MemberCall] = field(default_factory=list)


class _Queue(Struct):
    """What a member has called of one group and is not through with, and when it was through with the last before."""

    calls: deque[MemberCall] = field(default_factory=deque)
    free_ps: int = 0


class Post:
    """Carries what ranks send.

    The collectives of a group follow one another at each member in the order in which that member calls them.

    Parameters
    ----------
    environment
        Where time passes, in integer picoseconds.
    latencies_ps, exchanges_of
        As for `trnsim.engine.message_engine.MessageEngine`.
    """

    def __init__(self, environment: simpy.Environment, latencies_ps: Sequence[int], exchanges_of: ExchangesOf) -> None:
        self._environment = environment
        self._links = MessageLinks(environment, latencies_ps)
        self._exchanges_of = exchanges_of
        self._rank: dict[Cohort, int] = {}
        self._numbers: dict[Collective, dict[Cohort, int]] = {}
        self._exchanges: dict[tuple[Collective, Hashable], Sequence[Exchange]] = {}
        self._meetings: dict[tuple[Collective, Hashable], _Meeting] = {}
        self._queues: dict[tuple[Collective, Cohort], _Queue] = {}
        self._pieces: dict[int, tuple[Activity, list[Activity | Stop]]] = {}

    @property
    def events(self) -> int:
        """Events of messages so far."""
        return self._links.events

    def add(self, rank: Cohort) -> None:
        """Give a cohort the next rank."""
        self._rank[rank] = len(self._rank)

    def join(
        self,
        group: Collective,
        member: Cohort,
        name: str,
        key: Hashable,
        transfer: Transfer,
        *,
        after: Call | None = None,
    ) -> MemberCall:
        """Let a member join the call `key` of its group, at once or as soon as another call of its own is over.

        The key may be used again when all have joined.
        """
        meeting = self._meetings.get((group, key))
        if meeting is None:
            meeting = self._meetings[group, key] = _Meeting(group, key, self._round(group, transfer))
        call = MemberCall(meeting, member, name, transfer.delay_ps)
        if after is None or after.processed:
            self._enter(call)
        else:
            after.callbacks.append(lambda _: self._enter(call))
        return call

    def _enter(self, call: MemberCall) -> None:
        meeting, member = call.meeting, call.member
        now_ps = meeting.joined_ps[member] = member.engine.now_ps
        meeting.calls.append(call)
        if len(meeting.calls) == len(meeting.group.members):
            del self._meetings[meeting.group, meeting.key]
            for each in meeting.calls:
                each.ready_ps = now_ps
        queue = self._queues.setdefault((meeting.group, member), _Queue())
        queue.calls.append(call)
        if len(queue.calls) == 1:
            self._begin_first(queue, max(now_ps, queue.free_ps))

    def deliver(self, sender: Cohort, receiver: Cohort, transfer: Transfer, arrived: Callable[[int], None]) -> None:
        """Send a message now, and tell when all of it will have arrived."""
        now_ps = sender.engine.now_ps
        pair = Round(self._links, self._exchanges_of((self._rank[sender], self._rank[receiver]), transfer.task))
        pair.begin(0, now_ps + transfer.delay_ps, _nobody)
        pair.begin(1, now_ps, arrived)

    def pieces(self, activity: Activity) -> list[Activity | Stop]:
        """Return an activity, cut at its collectives."""
        if id(activity) not in self._pieces:
            self._pieces[id(activity)] = activity, list(_pieces(activity))
        return self._pieces[id(activity)][1]

    def _round(self, group: Collective, transfer: Transfer) -> Round:
        """Return the messages of a collective; members that are no ranks, switches that reduce, begin at once."""
        if group not in self._numbers:
            self._numbers[group] = {member: number for number, member in enumerate(group.members)}
        if (group, transfer.task) not in self._exchanges:
            ranks = tuple(self._rank[member] for member in group.members)
            self._exchanges[group, transfer.task] = self._exchanges_of(ranks, transfer.task)
        found = Round(self._links, self._exchanges[group, transfer.task])
        for number in range(len(group.members), found.size):
            found.begin(number, self._environment.now, _nobody)  # type: ignore[arg-type]  # an int here
        return found

    def _begin_first(self, queue: _Queue, time_ps: int) -> None:
        call = queue.calls[0]
        call.start_ps = time_ps
        number = self._numbers[call.group][call.member]
        call.meeting.round.begin(number, time_ps + call.delay_ps, lambda end_ps: self._end_first(queue, end_ps))

    def _end_first(self, queue: _Queue, end_ps: int) -> None:
        """Let the first call of a queue end at a time that is not past, and begin the next one then."""
        call = queue.calls.popleft()
        call.end_ps = queue.free_ps = end_ps
        call.happen_in(end_ps - self._environment.now)  # type: ignore[arg-type]  # an int here
        if queue.calls:
            self._begin_first(queue, end_ps)


def _nobody(_: int) -> None:
    """Take notice for somebody who does not wait."""


def _pieces(activity: Activity) -> Iterator[Activity | Stop]:
    for alone, run in groupby(activity.parts, key=lambda part: part.transfer is None):
        if alone:
            yield Activity(activity.name, tuple(run))
        else:
            yield from (
                Stop(Wait(part.name, STRAGGLER_WAIT, part.heading), part.transfer) for part in run if part.transfer
            )
