"""Simulated time: cohorts that act, messages between them, collectives that join them.

A cohort stands for ranks that behave alike (its multiplicity) and is one SimPy process. A message is
one event, a collective is a counter and one event, whatever their size. Nothing ends in silence: when
no event is left and a cohort still waits, `Engine.run` raises `SimulationStalledError` and names it.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable
from typing import TYPE_CHECKING

import simpy
from simpy.core import EmptySchedule

from trnsim.engine.clock import picoseconds, seconds
from trnsim.engine.log import Log
from trnsim.errors import SimulationStalledError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from trnsim.engine.operations import Activity, Wait

Story = Generator[simpy.Event, None, None]


class _Arrival(simpy.Event):
    """An event whose moment is settled when its cause is known: a message sent, a collective complete."""

    ready_ps = -1

    def happen_in(self, delay_ps: int) -> None:
        """Settle the moment: the cause is known now, the event happens `delay_ps` from now."""
        self.ready_ps = int(self.env.now)
        self._ok = True
        self._value = None
        self.env.schedule(self, delay=delay_ps)


class Call(_Arrival):
    """One collective of one group, complete when the last member has joined."""

    start_ps = -1
    end_ps = -1

    def __init__(self, group: Collective, name: str, environment: simpy.Environment) -> None:
        super().__init__(environment)
        self.group = group
        self.name = name
        self.joined_ps: dict[Cohort, int] = {}

    def describe(self) -> str:
        """Say who has joined and who is missing."""
        missing = [cohort for cohort in self.group.members if cohort not in self.joined_ps]
        joined = self.group.size - sum(self.group.members[cohort] for cohort in missing)
        names = ", ".join(cohort.first for cohort in missing[:3]) + (", ..." if len(missing) > 3 else "")
        return f'"{self.name}" on {self.group.axis}: {joined} of {self.group.size} ranks joined, missing {names}'


class Collective:
    """A group of the machine; its collectives run one at a time, in the order in which they complete.

    Parameters
    ----------
    axis
        The axis along which the members differ, for reports.
    members
        How many members of one group belong to each cohort.
    """

    def __init__(self, axis: str, members: Mapping[Cohort, int]) -> None:
        self.axis = axis
        self.members = dict(members)
        self.size = sum(members.values())
        self._open: dict[Hashable, Call] = {}
        self._free_ps = 0

    def join(self, cohort: Cohort, name: str, key: Hashable, duration_ps: int) -> Call:
        """Let all members that belong to `cohort` join the call `key`; the last cohort to join starts it."""
        call = self._open.get(key)
        if call is None:
            call = self._open[key] = Call(self, name, cohort.engine.environment)
        now = call.joined_ps[cohort] = cohort.engine.now_ps
        if len(call.joined_ps) == len(self.members):
            del self._open[key]
            call.start_ps = max(now, self._free_ps)
            call.end_ps = self._free_ps = call.start_ps + duration_ps
            call.happen_in(call.end_ps - now)
        return call


class Cohort:
    """Ranks that behave alike, simulated once.

    Parameters
    ----------
    engine
        The engine that runs it.
    name
        What the ranks are, for example ``stage 3``.
    ranks
        How many ranks it stands for. >= 1.
    first
        Name of its first rank, for example ``dp0.pp3.tp0``.

    Attributes
    ----------
    log
        What the cohort did.
    stream
        The collectives that it launched beside its own work: joined, start, end.
    step_ends
        For each finished step: rows of the log, rows of the stream, time in picoseconds.
    """

    def __init__(self, engine: Engine, name: str, ranks: int, first: str) -> None:
        self.engine = engine
        self.name = name
        self.ranks = ranks
        self.first = first
        self.log = Log()
        self.stream = Log()
        self.step_ends: list[tuple[int, int, int]] = []
        self.finished = False
        self._inbox: dict[Hashable, _Arrival] = {}
        self._blocked: Callable[[], str] | None = None

    def __str__(self) -> str:
        return f"{self.name} ({self.ranks} rank{'s' if self.ranks > 1 else ''}, first {self.first})"

    def perform(self, activity: Activity, group: Collective | None = None, key: Hashable = None) -> Story:
        """Spend the time of an activity, meeting the group where the activity needs it.

        A group whose members all belong to this cohort needs no meeting: they arrive together.
        """
        engine, start = self.engine, self.engine.now_ps
        ready = start + activity.head_ps
        if activity.rendezvous is None or group is None or len(group.members) == 1:
            if activity.duration_ps:
                yield engine.environment.timeout(activity.duration_ps)
        else:
            if activity.head_ps:
                yield engine.environment.timeout(activity.head_ps)
            rest = activity.duration_ps - activity.head_ps
            call = group.join(self, activity.name, (activity.name, key), rest)
            yield from self._block(call, call.describe)
            ready = call.ready_ps
        self.log.add(activity, start, ready, engine.now_ps)

    def send(self, receiver: Cohort, wait: Wait, what: str, microbatch: int, duration_s: float) -> Story:
        """Push a message out; blocked until it has arrived, whether or not the receiver looks."""
        start = self.engine.now_ps
        message = receiver._message((self, what, microbatch))
        message.happen_in(picoseconds(duration_s))
        yield message
        self.log.add(wait, start, start, self.engine.now_ps)

    def receive(self, sender: Cohort, wait: Wait, what: str, microbatch: int) -> Story:
        """Block until a message has arrived."""
        start, key = self.engine.now_ps, (sender, what, microbatch)
        message = self._message(key)
        yield from self._block(message, lambda: _describe_receive(sender, what, microbatch))
        del self._inbox[key]
        self.log.add(wait, start, max(start, message.ready_ps), self.engine.now_ps)

    def launch(self, group: Collective, wait: Wait, key: Hashable, duration_s: float) -> Call:
        """Join a collective that runs beside the cohort's own work."""
        return group.join(self, wait.name, key, picoseconds(duration_s))

    def wait(self, call: Call, wait: Wait) -> Story:
        """Block until a launched collective is over."""
        start = self.engine.now_ps
        yield from self._block(call, call.describe)
        self.log.add(wait, start, max(start, call.ready_ps), self.engine.now_ps)
        self.stream.add(wait, call.joined_ps[self], call.start_ps, call.end_ps)

    def end_step(self) -> None:
        """Mark the end of a step."""
        self.step_ends.append((len(self.log), len(self.stream), self.engine.now_ps))

    def blocked_on(self) -> str:
        """Say in words what the cohort waits for."""
        return self._blocked() if self._blocked else "waits for an event of its own that never happens"

    def _block(self, event: simpy.Event, describe: Callable[[], str]) -> Story:
        self._blocked = describe
        yield event
        self._blocked = None

    def _message(self, key: Hashable) -> _Arrival:
        message = self._inbox.get(key)
        if message is None:
            message = self._inbox[key] = _Arrival(self.engine.environment)
        return message


def _describe_receive(sender: Cohort, what: str, microbatch: int) -> str:
    gone = ", which has finished" if sender.finished else ""
    return f"receives {what} of microbatch {microbatch} from {sender.name}{gone}"


class Engine:
    """Runs the stories of cohorts in integer picoseconds and counts the events.

    Attributes
    ----------
    environment
        The SimPy environment; its clock is an int.
    events
        Events processed so far, counted by the engine's own loop.
    cohorts
        All cohorts, in the order of their creation.

    Examples
    --------
    >>> from trnsim.engine import Activity, Part
    >>> engine = Engine()
    >>> cohort = engine.cohort("chip", ranks=1, first="dp0")
    >>> engine.start(cohort, cohort.perform(Activity("work", (Part("matmul", "compute", 1.0),))))
    >>> engine.run()
    >>> engine.now_s, engine.events
    (1.0, 3)
    """

    def __init__(self) -> None:
        self.environment = simpy.Environment()
        self.events = 0
        self.cohorts: list[Cohort] = []

    @property
    def now_ps(self) -> int:
        """Simulated time in picoseconds."""
        return self.environment.now  # type: ignore[return-value]  # an int, since every delay is one

    @property
    def now_s(self) -> float:
        """Simulated time in seconds."""
        return seconds(self.now_ps)

    def cohort(self, name: str, *, ranks: int, first: str) -> Cohort:
        """Add a cohort."""
        found = Cohort(self, name, ranks, first)
        self.cohorts.append(found)
        return found

    def start(self, cohort: Cohort, story: Story) -> None:
        """Let a cohort live its story from now on."""
        self.environment.process(self._live(cohort, story))

    def run(self) -> None:
        """Process events until none is left.

        Raises
        ------
        SimulationStalledError
            If a cohort has not finished its story then.
        """
        step = self.environment.step
        try:
            while True:
                step()
                self.events += 1
        except EmptySchedule:
            waiting = [cohort for cohort in self.cohorts if not cohort.finished]
        if waiting:
            raise SimulationStalledError(_stall_report(self.now_s, waiting))

    @staticmethod
    def _live(cohort: Cohort, story: Story) -> Story:
        yield from story
        cohort.finished = True


def _stall_report(now_s: float, waiting: list[Cohort]) -> str:
    count = f"{len(waiting)} cohort{'s wait' if len(waiting) > 1 else ' waits'}"
    head = f"SimulationStalledError at {now_s:.6g} s: {count} and nothing is left to happen"
    titles = [str(cohort) for cohort in waiting]
    width = max(map(len, titles))
    lines = [f"  {title:<{width}}  {cohort.blocked_on()}" for title, cohort in zip(titles, waiting, strict=True)]
    return "\n".join([head, *lines])
