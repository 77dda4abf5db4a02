"""Finding schedules by name."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from trnsim.documents import canonical, refuse_unknown
from trnsim.schedules import kinds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnsim.schedules.order import Kind, Pass, Pipeline

__all__ = ["BrokenRule", "broken_rules", "interleaved_names", "schedule", "schedule_kind", "schedule_names"]


class BrokenRule(NamedTuple):
    """Why a schedule cannot have the shape of a pipeline.

    Attributes
    ----------
    number
        The number of the pipeline at fault, as its attribute is called.
    message
        The rule, with its arithmetic.
    nearest
        The nearest valid numbers, where they are not clear from the rule.
    """

    number: str
    message: str
    nearest: tuple[int, ...] = ()

    @property
    def text(self) -> str:
        """The message, with the nearest valid numbers."""
        return self.message + (f"; the nearest are {' and '.join(map(str, self.nearest))}" if self.nearest else "")


def schedule_names() -> tuple[str, ...]:
    """Return the names of all schedules.

    Examples
    --------
    >>> schedule_names()
    ('1f1b', 'breadth-first', 'gpipe', 'interleaved-1f1b')
    """
    return tuple(sorted(_found()))


def interleaved_names() -> tuple[str, ...]:
    """Return the names of those that have several virtual stages on each stage.

    Examples
    --------
    >>> interleaved_names()
    ('breadth-first', 'interleaved-1f1b')
    """
    return tuple(name for name in schedule_names() if _found()[name].interleaves)


def schedule_kind(name: str) -> Kind:
    """Return a schedule by its name, read without regard to case, dashes and underscores.

    Raises
    ------
    ValueError
        If the name is unknown; the message lists the known ones.

    Examples
    --------
    >>> from trnsim.schedules import Pipeline
    >>> [schedule_kind(name).in_flight(1, Pipeline(4, 64)) for name in ("1F1B", "GPipe")]
    [3, 64]
    """
    found = {canonical(known): kind for known, kind in _found().items()}
    if canonical(name) not in found:
        raise ValueError(refuse_unknown("schedule", name, schedule_names()))
    return found[canonical(name)]


def broken_rules(kind: Kind, pipeline: Pipeline) -> Iterator[BrokenRule]:
    """Yield every rule of a schedule that the shape of a pipeline breaks.

    Examples
    --------
    >>> from trnsim.schedules import Pipeline
    >>> for broken in broken_rules(schedule_kind("interleaved-1f1b"), Pipeline(4, 6, 2)):
    ...     print(*broken, sep=": ")
    microbatches: interleaved-1f1b takes microbatches in rounds of 4, one for each stage; 6 mod 4 = 2: (4, 8)
    """
    stages, microbatches, virtual_stages = pipeline
    if kind.interleaves and stages == 1:
        yield BrokenRule("stages", f"{kind.name} needs a pipeline: at least 2 stages")
    if kind.interleaves and virtual_stages == 1:
        yield BrokenRule("virtual_stages", f"{kind.name} has several virtual stages on each stage: at least 2")
    if not kind.interleaves and virtual_stages > 1:
        several = " and ".join(interleaved_names())
        yield BrokenRule("virtual_stages", f"{kind.name} has 1 virtual stage on each stage; {several} have several")
    if kind.whole_rounds and microbatches % stages:
        below = microbatches // stages * stages
        rule = f"{kind.name} takes microbatches in rounds of {stages:,}, one for each stage"
        rest = f"{microbatches:,} mod {stages:,} = {microbatches % stages:,}"
        yield BrokenRule("microbatches", f"{rule}; {rest}", tuple(near for near in (below, below + stages) if near))


def schedule(name: str, pipeline: Pipeline) -> tuple[tuple[Pass, ...], ...]:
    """Return for each stage the order of its passes.

    Parameters
    ----------
    name
        Name of the schedule, as for `schedule_kind`.
    pipeline
        Its shape. Fewer microbatches than stages are legal.

    Raises
    ------
    ValueError
        If the name is unknown, a number is below 1, or the schedule cannot have this shape.

    Examples
    --------
    >>> from trnsim.schedules import Pipeline
    >>> for order in schedule("1F1B", Pipeline(stages=2, microbatches=3)):
    ...     print(*(f"{each.kind}{each.microbatch}" for each in order))
    F0 F1 B0 F2 B1 B2
    F0 B0 F1 B1 F2 B2
    """
    kind = schedule_kind(name)
    if min(pipeline) < 1:
        raise ValueError(f"a schedule needs stages, microbatches and virtual stages, not {tuple(pipeline)}")
    for broken in broken_rules(kind, pipeline):
        raise ValueError(broken.text)
    return tuple(kind.order(stage, pipeline) for stage in range(pipeline.stages))


@cache
def _found() -> dict[str, Kind]:
    modules = (import_module(f"{kinds.__name__}.{module.name}") for module in pkgutil.iter_modules(kinds.__path__))
    return {module.KIND.name: module.KIND for module in modules}
