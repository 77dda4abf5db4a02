"""Reading a finished run: when steps ended, who was last, under which headings its time is booked."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from trnsim.engine.clock import seconds
from trnsim.engine.operations import spans

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trnsim.engine.core import Cohort
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
    steps = {len(cohort.step_ends) for cohort in cohorts}
    if len(steps) != 1 or 0 in steps:
        raise ValueError("every cohort must have finished the same number of steps, at least one")
    ends = [max(cohort.step_ends[step][2] for cohort in cohorts) for step in range(steps.pop())]
    last = next(cohort for cohort in cohorts if cohort.step_ends[-1][2] == ends[-1])
    return Window(last, ends[-2] if len(ends) > 1 else 0, ends[-1], ends[0])


def breakdown(cohort: Cohort, window: Window) -> dict[str, float]:
    """Book every instant of a window under one heading, as a cohort spent it.

    Time that a cohort has spent before the window is left out, so the parts sum to the window exactly
    if the cohort is the one that finishes last.

    Returns
    -------
    dict
        Heading -> seconds, each a whole number of picoseconds.
    """
    found: Counter[str] = Counter()
    for operation, start, ready, end in cohort.log.rows():
        if end > window.start_ps:
            for span in spans(operation, start, ready, end):
                found[span.heading] += max(0, min(span.end_ps, window.end_ps) - max(span.start_ps, window.start_ps))
    return {heading: seconds(count) for heading, count in found.items() if count}


def time_by_name(cohort: Cohort, window: Window) -> dict[tuple[str, str], float]:
    """Book the instants of a window under (operation or part name, heading), in seconds."""
    found: Counter[tuple[str, str]] = Counter()
    for operation, start, ready, end in cohort.log.rows():
        if end > window.start_ps:
            for span in spans(operation, start, ready, end):
                clipped = min(span.end_ps, window.end_ps) - max(span.start_ps, window.start_ps)
                found[span.name, span.heading] += max(0, clipped)
    return {key: seconds(count) for key, count in found.items() if count}


def stretches(cohort: Cohort) -> Iterator[Stretch]:
    """Yield a cohort's operations and, inside each, its parts, as a trace shows them."""
    for operation, start, ready, end in cohort.log.rows():
        inner = list(spans(operation, start, ready, end))
        if inner:
            yield Stretch(operation.name, _heading(operation), seconds(start), seconds(end), 0)
        if len(inner) > 1:
            yield from (Stretch(s.name, s.heading, seconds(s.start_ps), seconds(s.end_ps), 1) for s in inner)


def stream_stretches(cohort: Cohort) -> Iterator[Stretch]:
    """Yield the collectives that ran beside a cohort's own work, while their bytes moved."""
    for operation, _, start, end in cohort.stream.rows():
        if end > start:
            yield Stretch(operation.name, _heading(operation), seconds(start), seconds(end), 0)


def _heading(operation: Operation) -> str:
    return getattr(operation, "after_ready", operation.name)
