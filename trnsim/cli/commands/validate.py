"""`trnsim validate`."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

import rich_click as click

from trnsim.cli.options import json_file_option, plot_option
from trnsim.cli.output import STDOUT, refuse_overwriting, say, write, write_figure
from trnsim.cli.progress import counting

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["command"]


@click.command("validate", cls=click.RichCommand)
@click.argument("tables", nargs=-1, metavar="[TABLE.csv]...")
@click.option("--rows", is_flag=True, help="Show each step, too.")
@plot_option
@json_file_option
@click.option(
    "--jobs", type=click.IntRange(min=1), metavar="N", help="Processes to use; as many as there are cores if not said."
)
def command(
    *, tables: tuple[str, ...], rows: bool, plot_file: Path | None, json_file: Path | None, jobs: int | None
) -> None:
    """Simulate measured training steps and print the errors of step time, set by set.

    TABLES are CSV files, by default those that come with trnsim. Rows that cannot be compared are counted, with the reason.
    Exit code 2: a table cannot be read, has no rows, or lacks a column.
    """
    refuse_overwriting(tables, plot=plot_file, json=json_file)
    from trnsim.reports.validation import rows_text, validation_text
    from trnsim.study.validation import validate

    start = perf_counter()
    found = validate(tables, jobs=jobs or -1, watch=counting("simulating measured steps"))
    took_s = perf_counter() - start
    say(validation_text(found) + (rows_text(found) if rows else ""), to_stderr=json_file == STDOUT)
    if json_file:
        from trnsim.results import json_text

        write(json_file, json_text(found.to_dict(rows=rows)))
    if plot_file:
        from trnsim.plots.validation import validation_figure

        write_figure(plot_file, validation_figure(found.frame(), title="measured steps, simulated"))
    count = len(found.predictions)
    say(f"simulated {count:,} steps in {took_s:.1f} s, {count / took_s:.1f} rows/s", to_stderr=True)
