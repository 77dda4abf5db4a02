"""Reading a finished run: when steps ended, who was last, under which headings its time is booked."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from trnsim.engine.clock import seconds
from trnsim.engine.operations import Activity, Wait, spans
from trnsim.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from trnsim.engine.core import Cohort
    from trnsim.engine.log import Log
    from trnsim.engine.operations import Operation


class Window(NamedTuple):
    """The time between the ends of the last two steps; the step itself if there is only one.

    Attributes
    ----------
    last
        The cohort that finishes last; of several, the one created first.
    start_ps, end_ps
        Borders of the window.
    first_step_ps
        End of the first step.
    """

    last: Cohort
    start_ps: int
    end_ps: int
    first_step_ps: int

    @property
    def duration_s(self) -> float:
        """Length in seconds."""
        return seconds(self.end_ps - self.start_ps)

    @property
    def first_step_s(self) -> float:
        """Length of the first step in seconds."""
        return seconds(self.first_step_ps)


class Stretch(NamedTuple):
    """One stretch of a rank's time in seconds since the start of the run, for traces.

    `depth` is 0 for an operation and 1 for a part of it.
    """

    name: str
    heading: str
    start_s: float
    end_s: float
    depth: int


def last_step(cohorts: Sequence[Cohort]) -> Window:
    """Find the window of the last step of a run.

    Raises
    ------
    ValueError
        If no step was finished.
    """
    ends_ps = [tuple(end_ps for _, _, end_ps in cohort.step_ends) for cohort in cohorts]
    steps = set(map(len, ends_ps))
    if len(steps) != 1 or 0 in steps:
        raise ValueError("every cohort must have finished the same number of steps, at least one")
    ends = list(map(max, zip(*ends_ps, strict=True)))
    last = next(cohort for cohort, ended_ps in zip(cohorts, ends_ps, strict=True) if ended_ps[-1] == ends[-1])
    return Window(last, ends[-2] if len(ends) > 1 else 0, ends[-1], ends[0])


class Account(Record):
    """Where the time of one cohort went during a window, in picoseconds by (name, heading).

    Every instant is booked once, so the parts sum to the window exactly if the cohort is the one that finishes last.
    """

    booked_ps: Mapping[tuple[str, str], int]

    def by_heading(self) -> dict[str, float]:
        """Return heading -> seconds, each a whole number of picoseconds."""
        found: Counter[str] = Counter()
        for (_, heading), count in self.booked_ps.items():
            found[heading] += count
        return {heading: seconds(count) for heading, count in found.items()}

    def by_name(self) -> dict[tuple[str, str], float]:
        """Return (name of the operation or part, heading) -> seconds."""
        return {key: seconds(count) for key, count in self.booked_ps.items()}


def account(cohort: Cohort, window: Window) -> Account:
    """Book every instant of a window, as a cohort spent it.

    Activities that lie inside the window and waited for nobody are counted and booked together.
    """
    found: Counter[tuple[str, str]] = Counter()
    whole: Counter[int] = Counter()  # by identity: an activity is one object, however often it is performed
    activities: dict[int, Activity] = {}
    for operation, start, ready, end in cohort.log.rows():
        if isinstance(operation, Activity) and start >= window.start_ps and end - start == operation.duration_ps:
            whole[id(operation)] += 1
            activities[id(operation)] = operation
        elif end > window.start_ps:
            for span in spans(operation, start, ready, end):
                clipped = min(span.end_ps, window.end_ps) - max(span.start_ps, window.start_ps)
                found[span.name, span.heading] += max(0, clipped)
    for number, count in whole.items():
        for part in activities[number].parts:
            found[part.name, part.heading] += count * part.duration_ps
    return Account({key: count for key, count in found.items() if count})


def stretches(log: Log) -> Iterator[Stretch]:
    """Yield what a cohort did and, inside each operation, its parts, as a trace shows them."""
    for operation, start, ready, end in log.rows():
        inner = list(spans(operation, start, ready, end))
        if inner:
            yield Stretch(operation.name, _heading(operation), seconds(start), seconds(end), 0)
        if len(inner) > 1:
            yield from (Stretch(s.name, s.heading, seconds(s.start_ps), seconds(s.end_ps), 1) for s in inner)


def stream_stretches(log: Log) -> Iterator[Stretch]:
    """Yield the collectives of a stream while their bytes moved."""
    for operation, _, start, end in log.rows():
        if end > start:
            yield Stretch(operation.name, _heading(operation), seconds(start), seconds(end), 0)


def _heading(operation: Operation) -> str:
    return operation.after_ready if isinstance(operation, Wait) else operation.name
