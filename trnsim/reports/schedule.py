"""A pipeline schedule as text: a grid of passes over time, its bubble and what is held."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trnsim.results.schedule_grid import ScheduleGrid, TimedPass

__all__ = ["Cell", "schedule_facts", "schedule_lines"]

MOST_BANDS = 8
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


class Cell(NamedTuple):
    """A piece of a line.

    Attributes
    ----------
    text
        What it says.
    kind
        ``F`` or ``B`` of a pass; empty for what is none.
    layer
        Which of the virtual stages of its stage it belongs to, from 0.
    """

    text: str
    kind: str = ""
    layer: int = 0


def schedule_lines(grid: ScheduleGrid, width: int) -> list[list[Cell]]:
    """Draw a schedule: a row for each stage, time to the right, in bands that fit a terminal.

    Parameters
    ----------
    grid
        The schedule.
    width
        Characters of a line. A band has at least one forward pass.

    Returns
    -------
    list of list of Cell
        The lines of all bands, with an empty one between two; one that says so where the drawing would be too long.
    """
    cell = max(len(_label(grid, each)) for each in grid.passes) + 1
    head = len(f"stage {grid.stages - 1}") + 2
    columns = max(1, (width - head) // cell)
    starts = range(0, grid.time, columns)
    if len(starts) > MOST_BANDS:
        return [[Cell(f"the grid has {grid.time:,} columns; --plot FILE draws it")]]
    rows = [list(passes) for _, passes in groupby(grid.passes, key=lambda each: each.stage)]
    lines: list[list[Cell]] = []
    for start in starts:
        lines += [[]] if lines else []
        for stage, passes in enumerate(rows):
            end = min(start + columns, grid.time)
            lines.append([Cell(f"stage {stage}".ljust(head)), *_cells(grid, passes, start, end, cell)])
    return lines


def _cells(grid: ScheduleGrid, passes: Sequence[TimedPass], start: int, end: int, width: int) -> Iterator[Cell]:
    """Yield what a stage does from one time to another; dots for nothing."""
    now = start
    for each in passes:
        first, last = max(each.start, start), min(each.end, end)
        if first < last:
            yield Cell(".".ljust(width) * (first - now))
            label = _label(grid, each) if first == each.start else "-"
            yield Cell(label.ljust(width * (last - first)), each.kind, each.virtual_stage // grid.stages)
            now = last
    yield Cell(".".ljust(width) * (end - now))


def _label(grid: ScheduleGrid, each: TimedPass) -> str:
    """Name a pass: ``F3``, or with several virtual stages ``F3b`` for the second of the stage."""
    layer = each.virtual_stage // grid.stages
    if grid.virtual_stages == 1:
        return f"{each.kind}{each.microbatch}"
    return f"{each.kind}{each.microbatch}{_LETTERS[layer] if grid.virtual_stages <= len(_LETTERS) else f'.{layer}'}"


def schedule_facts(grid: ScheduleGrid) -> str:
    """Return what a schedule costs: its length, its bubble, and what each stage holds."""
    work, idle = grid.slots - grid.idle_slots, grid.idle_slots
    part = "" if grid.virtual_stages == 1 else f" of 1/{grid.virtual_stages} of a stage"
    rows = (
        ("step", f"{grid.slots:,} slots = {work:,} of work + {idle:,} idle, each a forward and a backward pass{part}"),
        ("bubble", f"{_percent(grid.bubble_fraction)} of the step, {_percent(grid.bubble_over_work)} of the work"),
        ("in flight", _held(grid.in_flight, f"passes{part}")),
    )
    return "".join(f"{name:<11}{text}\n" for name, text in rows)


def _held(in_flight: Sequence[int], unit: str) -> str:
    """Write what stages hold: once if it is the same on all of them."""
    if len(set(in_flight)) == 1:
        return f"{in_flight[0]:,} {unit} on each stage"
    return f"{', '.join(map(str, in_flight))} {unit} on stages 0 to {len(in_flight) - 1}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
