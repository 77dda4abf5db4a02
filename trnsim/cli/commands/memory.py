"""`trnsim memory`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rich_click as click

from trnsim.cli.options import json_file_option, plot_option, set_option
from trnsim.cli.output import STDOUT, refuse_overwriting, say, write, write_figure
from trnsim.cli.progress import working

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["command"]


@click.command("memory", cls=click.RichCommand)
@click.argument("file")
@set_option
@plot_option
@json_file_option
def command(*, file: str, overrides: tuple[str, ...], plot_file: Path | None, json_file: Path | None) -> None:
    """Follow the memory of each stage's ranks through a step: its peak by term, and when that is.

    FILE is a scenario file, or the name of one that ships with trnsim. The report comes also where it does not fit; then the
    exit code is 3.
    """
    refuse_overwriting([file], plot=plot_file, json=json_file)
    with working(f"simulating {file}"):
        from trnsim import scenario
        from trnsim.reports.memory import memory_text
        from trnsim.simulation.memory import check_memory
        from trnsim.simulation.memory_report import memory_over_time

        loaded = scenario.load(file, overrides)
        report = memory_over_time(loaded)
    say(memory_text(report), to_stderr=json_file == STDOUT)
    if json_file:
        from trnsim.results import json_text

        write(json_file, json_text(report.to_dict()))
    if plot_file:
        from trnsim.plots.memory import memory_figure

        title = f"{report.name}: memory of rank {report.worst.rank:,}, stage {report.worst.stage}"
        write_figure(
            plot_file,
            memory_figure(report.frame(), step_time_s=report.step_time_s, limit_bytes=report.limit_bytes, title=title),
        )
    check_memory(loaded)
