"""`trnsim run`."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

import rich_click as click

from trnsim.cli.cost import Cost, peak_memory_bytes
from trnsim.cli.options import json_file_option, set_option
from trnsim.cli.output import (
    STDOUT,
    make_directory,
    output_directory,
    output_file,
    refuse_overwriting,
    say,
    write,
)
from trnsim.cli.progress import working

if TYPE_CHECKING:
    from pathlib import Path

    from trnsim.results import Result

__all__ = ["command"]


@click.command("run", cls=click.RichCommand)
@click.argument("file")
@set_option
@json_file_option
@click.option("--trace", "trace_file", metavar="FILE", callback=output_file, help="Write a trace for ui.perfetto.dev.")
@click.option(
    "--out",
    "directory",
    metavar="DIR",
    callback=output_directory,
    help="Write result.json, one CSV per table and trace.json here.",
)
@click.option(
    "--profile",
    "profile_file",
    metavar="FILE",
    callback=output_file,
    help="Write the wall time and memory of the simulator.",
)
def command(
    *,
    file: str,
    overrides: tuple[str, ...],
    json_file: Path | None,
    trace_file: Path | None,
    directory: Path | None,
    profile_file: Path | None,
) -> None:
    """Simulate a scenario and explain its training step.

    FILE is a scenario file, or the name of one that ships with trnsim (`trnsim list scenarios`).
    """
    refuse_overwriting([file], json=json_file, trace=trace_file, profile=profile_file)
    result, cost = _simulated(file, overrides)
    say(result.summary(), to_stderr=json_file == STDOUT)
    say(cost.sentence(), to_stderr=True)
    if json_file:
        from trnsim import results

        write(json_file, results.json_text(result.to_dict()))
    if trace_file:
        _write_trace(trace_file, result)
    if directory:
        _write_directory(directory, result)
    if profile_file:
        write(profile_file, cost.json_text())


def _simulated(file: str, overrides: tuple[str, ...]) -> tuple[Result, Cost]:
    """Load and simulate a scenario, and measure what that costs."""
    start_s = perf_counter()
    with working(f"simulating {file}"):
        from trnsim import scenario, simulation

        loaded = scenario.load(file, overrides)
        loaded_s = perf_counter()
        result = simulation.simulate(loaded)
    cost = Cost(loaded_s - start_s, perf_counter() - loaded_s, peak_memory_bytes(), result.engine.events)
    return result, cost


def _write_directory(directory: Path, result: Result) -> None:
    """Write everything that a run has to say."""
    from trnsim import results

    make_directory(directory)
    write(directory / "result.json", results.json_text(result.to_dict()))
    for name in results.TABLES:
        write(directory / f"{name}.csv", results.csv_text(result, name))
    _write_trace(directory / "trace.json", result)


def _write_trace(file: Path, result: Result) -> None:
    """Write the trace; say which ranks it leaves out."""
    from trnsim import results

    write(file, results.trace_text(result))
    if notice := results.trace_notice(result):
        say(notice, to_stderr=True)
