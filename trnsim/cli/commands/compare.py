"""`trnsim compare`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import rich_click as click

from trnsim.cli.options import json_file_option, set_option
from trnsim.cli.output import STDOUT, output_file_or_stdout, refuse_overwriting, say, write
from trnsim.cli.progress import working
from trnsim.errors import InputError, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from trnsim.scenario import Scenario
    from trnsim.study import Comparison

__all__ = ["command"]

_GATE_FAILED = 1


def _finite(ctx: click.Context, param: click.Parameter, value: float | None) -> float | None:
    """Refuse a gate that nothing fails, or nothing passes: an option callback."""
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"{value} is no ratio", ctx, param)
    return value


@click.command("compare", cls=click.RichCommand)
@click.argument("files", nargs=-1, required=True)
@set_option
@json_file_option
@click.option(
    "--markdown",
    "markdown_file",
    metavar="FILE",
    callback=output_file_or_stdout,
    help="Write a Markdown table, for a CI job summary.",
)
@click.option(
    "--min-speedup",
    type=click.FloatRange(min=0.0, min_open=True),
    callback=_finite,
    help="Exit 1 if the tokens per s of a later scenario over those of the first are below this.",
)
@click.pass_context
def command(
    ctx: click.Context,
    *,
    files: tuple[str, ...],
    overrides: tuple[str, ...],
    json_file: Path | None,
    markdown_file: Path | None,
    min_speedup: float | None,
) -> None:
    """Simulate scenarios and set them side by side.

    FILES are two or more scenario files or names. Ratios are to the first. An override holds for all of them.
    """
    if len(files) < 2:
        raise click.UsageError("a comparison needs two scenarios or more", ctx)
    if json_file == markdown_file == STDOUT:
        raise click.UsageError("only one of --json and --markdown can take standard output", ctx)
    refuse_overwriting(files, json=json_file, markdown=markdown_file)
    from trnsim import reports, results, study

    comparison = study.compare(_each_shown(_loaded(files, overrides)))
    say(reports.comparison_text(comparison), to_stderr=STDOUT in {json_file, markdown_file})
    if json_file:
        write(json_file, results.json_text(comparison.to_dict()))
    if markdown_file:
        write(markdown_file, reports.comparison_markdown(comparison))
    if min_speedup is not None and not _passes(comparison, min_speedup):
        ctx.exit(_GATE_FAILED)


def _loaded(files: tuple[str, ...], overrides: tuple[str, ...]) -> list[Scenario]:
    """Load and check every scenario before the first is simulated; the problems of all come in one report."""
    from trnsim import scenario
    from trnsim.simulation.check import check

    scenarios: list[Scenario] = []
    problems: dict[Problem, None] = {}
    for file in files:
        try:
            scenarios.append(scenario.load(file, overrides))
            check(scenarios[-1])
        except InputError as error:
            problems |= dict.fromkeys(error.problems)
    if problems:
        raise InputError(problems, file=files[0])
    return scenarios


def _each_shown(scenarios: list[Scenario]) -> Iterator[Scenario]:
    """Yield scenarios, and show each while it is simulated."""
    for loaded in scenarios:
        with working(f"simulating {loaded.name}"):
            yield loaded


def _passes(comparison: Comparison, min_speedup: float) -> bool:
    """Say which scenarios are slower than the gate allows, and return whether none is."""
    first, *later = comparison.results
    failed = [
        (result.name, comparison.speedup(position))
        for position, result in enumerate(later, start=1)
        if comparison.speedup(position) < min_speedup
    ]
    for name, speedup in failed:
        say(
            f"gate failed: {name} has {speedup:.4f} x the tokens per s of {first.name}, below {min_speedup}",
            to_stderr=True,
        )
    return not failed
