"""`trnsim schedule`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rich_click as click

from trnsim.cli.options import json_file_option, plot_option
from trnsim.cli.output import STDOUT, refuse_overwriting, say, write, write_figure

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from trnsim.reports.schedule import Cell

__all__ = ["command"]

_WIDTH_OF_A_FILE = 120
_COLOURS = {"F": (39, 33, 27, 21), "B": (114, 78, 42, 35)}
"""Of 256: blues for forward and greens for backward passes, darker for later virtual stages."""


@click.command("schedule", cls=click.RichCommand)
@click.argument("name")
@click.option("--stages", type=int, required=True, metavar="P", help="Pipeline stages.")
@click.option("--microbatches", type=int, required=True, metavar="M", help="Microbatches of a step.")
@click.option(
    "--virtual-stages", type=int, default=1, show_default=True, metavar="V", help="Virtual stages on each stage."
)
@click.option(
    "--backward",
    type=int,
    default=2,
    show_default=True,
    metavar="N",
    help="Time of a backward pass, in forward passes.",
)
@plot_option
@json_file_option
def command(
    *,
    name: str,
    stages: int,
    microbatches: int,
    virtual_stages: int,
    backward: int,
    plot_file: Path | None,
    json_file: Path | None,
) -> None:
    """Draw a pipeline schedule, with its bubble and what each stage holds.

    NAME is gpipe, 1f1b, interleaved-1f1b or breadth-first. All virtual stages are equal and messages are free. F3 is the
    forward pass of microbatch 3, B3 its backward pass; a and b tell the virtual stages of a stage apart.
    """
    refuse_overwriting([], plot=plot_file, json=json_file)
    from trnsim.reports.schedule import schedule_facts, schedule_lines
    from trnsim.simulation.schedule_grid import schedule_grid

    grid = schedule_grid(
        name, stages=stages, microbatches=microbatches, virtual_stages=virtual_stages, backward=backward
    )
    _draw(lambda width: schedule_lines(grid, width), to_stderr=json_file == STDOUT)
    say("\n" + schedule_facts(grid), to_stderr=json_file == STDOUT)
    if json_file:
        from trnsim.results import json_text

        write(json_file, json_text(grid.to_dict()))
    if plot_file:
        from trnsim.plots.schedule import schedule_figure

        title = f"{grid.name}: {stages} stages, {microbatches} microbatches"
        write_figure(plot_file, schedule_figure(grid.frame(), title=title))


def _draw(lines: Callable[[int], list[list[Cell]]], *, to_stderr: bool) -> None:
    """Print lines that fit: in colours on a terminal, plain elsewhere."""
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=to_stderr, highlight=False)
    if not console.is_terminal:
        plain = ("".join(cell.text for cell in line).rstrip() for line in lines(_WIDTH_OF_A_FILE))
        say("\n".join(plain), to_stderr=to_stderr)
        return
    for line in lines(console.width):
        console.print(Text.assemble(*((cell.text, _style(cell)) for cell in line)), no_wrap=True)


def _style(cell: Cell) -> str:
    if not cell.kind:
        return "dim" if cell.text.startswith(".") else ""
    colours = _COLOURS[cell.kind]
    return f"black on color({colours[cell.layer % len(colours)]})"
