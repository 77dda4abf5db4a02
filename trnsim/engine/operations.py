"""What a cohort does with its time: activities of known length, and waits that the simulation settles.

An operation is data, shared by all microbatches and cohorts that perform it; when it was performed
is in the cohort's log as three times: start, ready, end. `spans` joins the two and says under which
heading each instant is booked.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from msgspec import field

from trnsim.engine.clock import picoseconds, seconds
from trnsim.engine.courses import Course, Stint, stints_of
from trnsim.record import Record

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping

STRAGGLER_WAIT = "straggler_wait"


class Transfer(Record, dict=True):
    """Bytes that a rank sends, or a collective that it joins.

    Parameters
    ----------
    duration_s
        Seconds that it takes alone. >= 0.
    busy_s
        Of these, seconds on links of each kind, which others may share.
    task
        What is carried out, as a network knows it that follows single messages.
    delay_s
        Of the duration, what passes before the first message is sent. >= 0.

    Examples
    --------
    >>> Transfer(5e-12, {"efa": 3e-12}).course.stints
    [Stint(kind='', work_ps=2), Stint(kind='efa', work_ps=3)]
    """

    duration_s: float
    busy_s: Mapping[str, float] = field(default_factory=dict)
    task: Hashable = None
    delay_s: float = 0.0

    @cached_property
    def course(self) -> Course:
        """What it is to the links, one stint after the other."""
        busy_ps = {kind: picoseconds(busy) for kind, busy in self.busy_s.items()}
        return Course(stints_of(picoseconds(self.duration_s), busy_ps))

    @cached_property
    def delay_ps(self) -> int:
        """The delay on the clock of the engine."""
        return picoseconds(self.delay_s)


class Part(Record, dict=True):
    """A piece of an activity: some time that is booked under one heading.

    Parameters
    ----------
    name
        What happens, for example ``layer 3 all-gather``.
    heading
        Under which heading of the breakdown it is booked, for example ``exposed_tp``.
    duration_s
        Seconds. >= 0.
    transfer
        The collective that it is, of the same duration, or of that of the part and the wait for slower chips that follows
        it; None where nothing is sent.
    """

    name: str
    heading: str
    duration_s: float
    transfer: Transfer | None = None

    @cached_property
    def duration_ps(self) -> int:
        """The duration on the clock of the engine."""
        return picoseconds(self.duration_s)


class Activity(Record, dict=True):
    """Parts that follow each other without a choice, a message or a launch.

    Parameters
    ----------
    name
        What the parts are together, for example ``forward``.
    parts
        The parts in order.
    rendezvous
        Number of the first part that needs the whole group of the rank (its first collective), or
        None. From there on the members of the group stay together, because they do the same.

    Examples
    --------
    >>> matmuls, reduce = Part("matmuls", "compute", 2e-12), Part("all-reduce", "exposed_tp", 0.5e-12)
    >>> forward = Activity("forward", (matmuls, reduce, matmuls), rendezvous=1)
    >>> forward.head_ps, forward.duration_ps
    (2, 5)
    """

    name: str
    parts: tuple[Part, ...]
    rendezvous: int | None = None

    @cached_property
    def head_ps(self) -> int:
        """Length of the parts before the rendezvous."""
        return sum(part.duration_ps for part in self.parts[: self.rendezvous])

    @cached_property
    def duration_ps(self) -> int:
        """Length of all parts when nobody keeps the group waiting."""
        return sum(part.duration_ps for part in self.parts)

    @cached_property
    def _courses(self) -> dict[int, Course]:
        return {}

    @cached_property
    def whole_course(self) -> Course:
        """What all parts are to the links."""
        return self.course()

    @cached_property
    def joint_course(self) -> Course:
        """What the parts from the rendezvous on are to the links."""
        return self.course(self.rendezvous or 0)

    @property
    def duration_s(self) -> float:
        """Length in seconds when nobody keeps the group waiting."""
        return seconds(self.duration_ps)

    def course(self, first: int = 0) -> Course:
        """Return what the parts from number `first` on are to the links."""
        found = self._courses.get(first)
        if found is None:
            stints = (
                stint
                for part in self.parts[first:]
                for stint in (part.transfer.course.stints if part.transfer else (Stint("", part.duration_ps),))
            )
            found = self._courses[first] = Course(stints)
        return found


class Wait(Record):
    """Blocked on others: booked under one heading until they are ready, under another from then on.

    Parameters
    ----------
    name
        What is waited for.
    until_ready
        Heading while the message is not sent, or the last member has not joined.
    after_ready
        Heading while the bytes travel.
    """

    name: str
    until_ready: str
    after_ready: str


Operation = Activity | Wait


class Span(NamedTuple):
    """One stretch of a cohort's time, in picoseconds since the start of the run."""

    name: str
    heading: str
    start_ps: int
    end_ps: int


def spans(operation: Operation, start_ps: int, ready_ps: int, end_ps: int) -> Iterator[Span]:
    """Yield the stretches of one performed operation: no gap, no overlap, none empty.

    Examples
    --------
    >>> [tuple(span) for span in spans(Wait("receive", "bubble", "exposed_pp"), 10, 14, 15)]
    [('receive', 'bubble', 10, 14), ('receive', 'exposed_pp', 14, 15)]
    """
    found = (
        _wait_spans(operation, start_ps, ready_ps, end_ps)
        if isinstance(operation, Wait)
        else _activity_spans(operation, start_ps, ready_ps, end_ps)
    )
    return (span for span in found if span.end_ps > span.start_ps)


def _wait_spans(wait: Wait, start_ps: int, ready_ps: int, end_ps: int) -> Iterator[Span]:
    yield Span(wait.name, wait.until_ready, start_ps, ready_ps)
    yield Span(wait.name, wait.after_ready, ready_ps, end_ps)


def _activity_spans(activity: Activity, start_ps: int, ready_ps: int, end_ps: int) -> Iterator[Span]:
    clock = start_ps
    for number, part in enumerate(activity.parts):
        if number == activity.rendezvous:
            yield Span(f"wait for {part.name}", STRAGGLER_WAIT, clock, ready_ps)
            clock = ready_ps
        yield Span(part.name, part.heading, clock, clock + part.duration_ps)
        clock += part.duration_ps
    if activity.rendezvous is not None:
        yield Span("shared links", activity.parts[activity.rendezvous].heading, clock, end_ps)
