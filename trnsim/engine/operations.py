"""What a cohort does with its time: activities of known length, and waits that the simulation settles.

An operation is data, shared by all microbatches and cohorts that perform it; when it was performed
is in the cohort's log as three times: start, ready, end. `spans` joins the two and says under which
heading each instant is booked.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from trnsim.engine.clock import picoseconds, seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

STRAGGLER_WAIT = "straggler_wait"


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of an activity: some time that is booked under one heading.

    Parameters
    ----------
    name
        What happens, for example ``layer 3 all-gather``.
    heading
        Under which heading of the breakdown it is booked, for example ``exposed_tp``.
    duration_s
        Seconds. >= 0.
    """

    name: str
    heading: str
    duration_s: float
    duration_ps: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "duration_ps", picoseconds(self.duration_s))


@dataclass(frozen=True, slots=True)
class Activity:
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
    head_ps: int = field(init=False)
    duration_ps: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "head_ps", sum(part.duration_ps for part in self.parts[: self.rendezvous]))
        object.__setattr__(self, "duration_ps", sum(part.duration_ps for part in self.parts))

    @property
    def duration_s(self) -> float:
        """Length in seconds when nobody keeps the group waiting."""
        return seconds(self.duration_ps)


@dataclass(frozen=True, slots=True)
class Wait:
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
        else _activity_spans(operation, start_ps, ready_ps)
    )
    return (span for span in found if span.end_ps > span.start_ps)


def _wait_spans(wait: Wait, start_ps: int, ready_ps: int, end_ps: int) -> Iterator[Span]:
    yield Span(wait.name, wait.until_ready, start_ps, ready_ps)
    yield Span(wait.name, wait.after_ready, ready_ps, end_ps)


def _activity_spans(activity: Activity, start_ps: int, ready_ps: int) -> Iterator[Span]:
    clock = start_ps
    for number, part in enumerate(activity.parts):
        if number == activity.rendezvous:
            yield Span(f"wait for {part.name}", STRAGGLER_WAIT, clock, ready_ps)
            clock = ready_ps
        yield Span(part.name, part.heading, clock, clock + part.duration_ps)
        clock += part.duration_ps
