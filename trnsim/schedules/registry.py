"""Finding schedules by name."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from trnsim.documents import canonical, refuse_unknown
from trnsim.schedules import kinds

if TYPE_CHECKING:
    from trnsim.schedules.order import Kind, Pass

__all__ = ["in_flight", "schedule", "schedule_names"]


def schedule_names() -> tuple[str, ...]:
    """Return the names of all schedules.

    Examples
    --------
    >>> schedule_names()
    ('1f1b', 'gpipe')
    """
    return tuple(sorted(_found()))


def schedule(kind: str, stages: int, microbatches: int) -> tuple[tuple[Pass, ...], ...]:
    """Return for each stage the order of its passes.

    Fewer microbatches than stages are legal.

    Parameters
    ----------
    kind
        Name of the schedule, read without regard to case, dashes and underscores.
    stages
        Pipeline stages. >= 1.
    microbatches
        Microbatches of one step. >= 1.

    Raises
    ------
    ValueError
        If a number is below 1 or the name is unknown; the message lists the known ones.

    Examples
    --------
    >>> for order in schedule("1F1B", stages=2, microbatches=3):
    ...     print(*(f"{each.kind}{each.microbatch}" for each in order))
    F0 F1 B0 F2 B1 B2
    F0 B0 F1 B1 F2 B2
    """
    chosen = _kind(kind, stages, microbatches)
    return tuple(chosen.order(stage, stages, microbatches) for stage in range(stages))


def in_flight(kind: str, stage: int, stages: int, microbatches: int) -> int:
    """Return the most microbatches whose activations a stage holds at once.

    Parameters
    ----------
    kind, stages, microbatches
        As for `schedule`.
    stage
        0 <= stage < stages.

    Raises
    ------
    ValueError
        As `schedule`; or if there is no such stage.

    Examples
    --------
    >>> in_flight("1f1b", stage=1, stages=4, microbatches=64), in_flight("gpipe", stage=1, stages=4, microbatches=64)
    (3, 64)
    """
    chosen = _kind(kind, stages, microbatches)
    if not 0 <= stage < stages:
        raise ValueError(f"there is no stage {stage} among {stages} stages")
    return chosen.in_flight(stage, stages, microbatches)


def _kind(name: str, stages: int, microbatches: int) -> Kind:
    if stages < 1 or microbatches < 1:
        raise ValueError(f"a schedule needs a stage and a microbatch, not {stages} and {microbatches}")
    found = {canonical(known): kind for known, kind in _found().items()}
    if canonical(name) not in found:
        raise ValueError(refuse_unknown("schedule", name, schedule_names()))
    return found[canonical(name)]


@cache
def _found() -> dict[str, Kind]:
    modules = (import_module(f"{kinds.__name__}.{module.name}") for module in pkgutil.iter_modules(kinds.__path__))
    return {module.KIND.name: module.KIND for module in modules}
