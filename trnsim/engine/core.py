"""Simulated time: cohorts that act, messages between them, collectives that join them.

A cohort stands for ranks that behave alike (its multiplicity) and is one SimPy process. A message is
one event, a collective is a counter and one event, whatever their size. Nothing ends in silence: when
no event is left and a cohort still waits, `Engine.run` raises `SimulationStalledError` and names it.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterator
from typing import TYPE_CHECKING

import simpy
from simpy.core import Infinity

from trnsim.engine.arrivals import Arrival, Link, Route
from trnsim.engine.clock import seconds
from trnsim.engine.fingerprint import digest
from trnsim.engine.groups import Call, Collective, Message
from trnsim.engine.log import Journal
from trnsim.engine.shared_links import SharedLinks
from trnsim.errors import SimulationStalledError

if TYPE_CHECKING:
    from collections.abc import Callable

    from trnsim.engine.courses import Course
    from trnsim.engine.log import Log
    from trnsim.engine.operations import Activity, Transfer, Wait

    Carry = Callable[[Course, Route, Arrival], None]

Story = Generator[simpy.Event, None, None]


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
    journal, stream_journal
        Where it writes down what it does, and what goes on beside its own work.
    step_ends
        For each finished step: rows of the log, rows of the stream, time in picoseconds.
    """

    __slots__ = (
        "_awaits",
        "_inbox",
        "_links",
        "_posted",
        "_routes",
        "engine",
        "finished",
        "first",
        "journal",
        "name",
        "ranks",
        "step_ends",
        "stream_journal",
    )

    def __init__(self, engine: Engine, name: str, ranks: int, first: str) -> None:
        self.engine = engine
        self.name = name
        self.ranks = ranks
        self.first = first
        self.journal = Journal()
        self.stream_journal = Journal()
        self.step_ends: list[tuple[int, int, int]] = []
        self.finished = False
        self._inbox: dict[tuple[Cohort, Hashable], Message] = {}
        self._posted: dict[Wait, Message] | None = None
        self._links: tuple[Link, ...] = ()  # of each kind: out, in
        self._routes: tuple[Route, ...] = ()
        self._awaits: Message | Call | None = None

    @property
    def log(self) -> Log:
        """What it did, made anew."""
        return self.journal.log

    @property
    def stream(self) -> Log:
        """What went on beside its own work: collectives that it launched (joined, start, end), messages that it posted."""
        return self.stream_journal.log

    def write_like(self, other: Cohort) -> None:
        """Share what can be shared of its journals with those of a cohort that will probably do the same."""
        self.journal, self.stream_journal = Journal(other.journal), Journal(other.stream_journal)

    def trajectory_key(self) -> Hashable:
        """Return what is the same for others only if their trajectories are."""
        return self

    def trajectory(self) -> bytes:
        """Return a hash of what it did and when."""
        logs = self.log, self.stream
        return b"".join([digest(log, log.names()) for log in logs])

    def __str__(self) -> str:
        return f"{self.name} ({self.ranks} rank{'s' if self.ranks > 1 else ''}, first {self.first})"

    def perform(self, activity: Activity, group: Collective | None = None, key: Hashable = None) -> Story:
        """Spend the time of an activity, meeting the group where the activity needs it.

        A group whose members all belong to this cohort needs no meeting: they arrive together.
        """
        engine = self.engine
        start = engine.now_ps
        ready = start + activity.head_ps
        if group is None or activity.rendezvous is None:
            if activity.duration_ps:
                yield engine.environment.timeout(activity.duration_ps)
        elif group.is_one_cohort:
            over = Arrival(engine.environment)
            engine.carry(activity.whole_course, group.route, over)
            yield over
        else:
            name = activity.name
            self._awaits = call = group.join(self, name, (name, key), activity.joint_course, activity.head_ps)
            yield call
            self._awaits = None
            ready = call.ready_ps
        self.journal.add(activity, start, ready, engine.now_ps)

    def send(self, receiver: Cohort, wait: Wait, content: Hashable, transfer: Transfer) -> Story:
        """Push a message out; blocked until it has arrived, whether or not the receiver looks."""
        engine = self.engine
        start = engine.now_ps
        yield self._push(receiver, content, transfer)
        self.journal.add(wait, start, start, engine.now_ps)

    def post(self, receiver: Cohort, wait: Wait, content: Hashable, transfer: Transfer) -> Story:
        """Push a message out and go on; blocked only while the last message of the same name is still on its way."""
        yield from self.settle(wait)
        if self._posted is None:
            self._posted = {}
        self._posted[wait] = self._push(receiver, content, transfer)

    def settle(self, wait: Wait) -> Story:
        """Block until the last message that was posted under a name has arrived."""
        posted = self._posted
        message = posted and posted.get(wait)
        if posted and message:
            start = self.engine.now_ps
            yield message
            del posted[wait]  # not before: what is waited for is a part of the situation
            if self.engine.now_ps > start:
                self.journal.add(wait, start, start, self.engine.now_ps)
            self.stream_journal.add(wait, message.ready_ps, message.ready_ps, message.end_ps)

    def receive(self, sender: Cohort, wait: Wait, content: Hashable) -> Story:
        """Block until a message has arrived."""
        engine, inbox = self.engine, self._inbox
        start, key = engine.now_ps, (sender, content)
        message = inbox.get(key) or self._message(key)
        if not message.processed:
            self._awaits = message
            yield message
            self._awaits = None
        del inbox[key]
        ready = message.ready_ps
        self.journal.add(wait, start, ready if ready > start else start, engine.now_ps)  # noqa: FURB136  # in half the time

    def launch(
        self, group: Collective, wait: Wait, key: Hashable, transfer: Transfer, after: Call | None = None
    ) -> Call:
        """Join a collective that runs beside the cohort's own work: at once, or as soon as another one is over."""
        if after is None or after.processed:
            return group.join(self, wait.name, key, transfer.course)
        call = group.call(self.engine, wait.name, key)

        def join(_: object) -> None:
            group.join(self, wait.name, key, transfer.course)

        after.callbacks.append(join)
        return call

    def wait(self, call: Call, wait: Wait) -> Story:
        """Block until a launched collective is over."""
        start = self.engine.now_ps
        self._awaits = call
        yield call
        self._awaits = None
        self.journal.add(wait, start, max(start, call.ready_ps), self.engine.now_ps)
        self.stream_journal.add(wait, call.joined_ps[self], call.start_ps, call.end_ps)

    def end(self, _: simpy.Event) -> None:
        """Take notice that its story is over."""
        self.finished = True

    def end_step(self) -> None:
        """Mark the end of a step."""
        self.step_ends.append((len(self.journal), len(self.stream_journal), self.engine.now_ps))

    def links(self, kind: str) -> tuple[Link, ...]:
        """Return its links of a kind: out and in."""
        found = tuple([link for link in self._links if link.kind == kind])
        if not found:
            found = Link(kind), Link(kind)
            self._links += found
        return found

    @property
    def messages(self) -> Iterator[tuple[Cohort, Hashable, bool]]:
        """What was sent to it or it waits for, and has not received: sender, content, whether it has come."""
        return ((sender, content, message.processed) for (sender, content), message in self._inbox.items())

    def at_work_ps(self, now_ps: int) -> int:
        """Return for how long it has been at what it does."""
        return now_ps - self.journal.end_ps

    def situation(self, now_ps: int) -> Hashable:
        """Return what it has posted, and how far transfers are on its links."""
        posted = tuple(
            (wait, message.ready_ps - now_ps, message.left_ps(now_ps)) for wait, message in (self._posted or {}).items()
        )
        streams = tuple([link.situation(now_ps) for link in self._links])
        return posted, streams

    def blocked_on(self) -> str:
        """Say in words what the cohort waits for."""
        return self._awaits.describe() if self._awaits else "waits for an event of its own that never happens"

    def _push(self, receiver: Cohort, content: Hashable, transfer: Transfer) -> Message:
        """Let a message set out."""
        engine, key = self.engine, (self, content)
        message = receiver._inbox.get(key) or receiver._message(key)
        message.ready_ps = engine.now_ps
        engine.carry(transfer.course, self._route_to(receiver), message)
        return message

    def _route_to(self, receiver: Cohort) -> Route:
        for route in self._routes:  # two or so
            if route.receiver is receiver:
                return route
        route = Route(_Between(self, receiver), receiver)
        self._routes += (route,)
        return route

    def _message(self, key: tuple[Cohort, Hashable]) -> Message:
        message = self._inbox.get(key)
        if message is None:
            message = self._inbox[key] = Message(*key, self.engine.environment)
        return message


def _carry_alone(course: Course, _: Route, arrival: Arrival) -> None:
    arrival.happen_in(course.duration_ps)


class _Between:
    """The links of a kind from one cohort to another."""

    __slots__ = ("_receiver", "_sender")

    def __init__(self, sender: Cohort, receiver: Cohort) -> None:
        self._sender = sender
        self._receiver = receiver

    def __call__(self, kind: str) -> tuple[Link, Link]:
        return self._sender.links(kind)[0], self._receiver.links(kind)[1]


class Engine:
    """Runs the stories of cohorts in integer picoseconds and counts the events.

    Parameters
    ----------
    links_are_shared
        Whether transfers that are on one link at the same time share it, or each has it to itself.
    start_ps
        What the clock shows at first.

    Attributes
    ----------
    environment
        The SimPy environment; its clock is an int.
    events
        Events processed so far, counted by the engine's own loop.
    cohorts
        All cohorts, in the order of their creation.
    now_ps
        Simulated time in picoseconds.
    carry
        Begins a transfer now: what it is to the links, the links that it takes at once, what happens when it ends.
    holds_groups_together
        Whether a collective begins when its last member has come, and all leave it together.

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

    holds_groups_together = True

    def __init__(self, *, links_are_shared: bool = False, start_ps: int = 0) -> None:
        self.environment = simpy.Environment(start_ps)
        self.events = 0
        self.now_ps = start_ps
        self.cohorts: list[Cohort] = []
        self._when_settled: Callable[[], None] | None = None
        self.carry: Carry = SharedLinks(self.environment).carry if links_are_shared else _carry_alone

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
        cohort.finished = False
        self.environment.process(story).callbacks = [cohort.end]  # shorter than what grows

    def call_when_settled(self, look: Callable[[], None]) -> None:
        """Call something when nothing more happens at this time."""
        self._when_settled = look

    def run(self) -> None:
        """Process events until none is left.

        Raises
        ------
        SimulationStalledError
            If a cohort has not finished its story then.
        """
        next_ps, step, events = self.environment.peek, self.environment.step, 0
        while (now_ps := next_ps()) is not Infinity:
            if now_ps > self.now_ps:
                if self._when_settled is not None:
                    look, self._when_settled = self._when_settled, None
                    look()
                self.now_ps = now_ps  # type: ignore[assignment]  # an int, since every delay is one
            step()
            events += 1
        self.events += events
        if waiting := [cohort for cohort in self.cohorts if not cohort.finished]:
            raise SimulationStalledError(_stall_report(self.now_s, waiting))


def _stall_report(now_s: float, waiting: list[Cohort]) -> str:
    count = f"{len(waiting)} cohort{'s wait' if len(waiting) > 1 else ' waits'}"
    head = f"SimulationStalledError at {now_s:.6g} s: {count} and nothing is left to happen"
    titles = [str(cohort) for cohort in waiting]
    width = max(map(len, titles))
    lines = [f"  {title:<{width}}  {cohort.blocked_on()}" for title, cohort in zip(titles, waiting, strict=True)]
    return "\n".join([head, *lines])
