"""`trnsim compare`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rich_click as click

from trnsim.cli.options import json_file_option, set_option
from trnsim.cli.output import STDOUT, output_file_or_stdout, say, write
from trnsim.cli.progress import working

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from trnsim.scenario import Scenario
    from trnsim.study import Comparison

__all__ = ["command"]

_GATE_FAILED = 1


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
    from trnsim import reports, results, study

    comparison = study.compare(_loaded(files, overrides))
    say(reports.comparison_text(comparison), to_stderr=STDOUT in {json_file, markdown_file})
    if json_file:
        write(json_file, results.json_text(comparison.to_dict()))
    if markdown_file:
        write(markdown_file, reports.comparison_markdown(comparison))
    if min_speedup is not None and not _passes(comparison, min_speedup):
        ctx.exit(_GATE_FAILED)


def _loaded(files: tuple[str, ...], overrides: tuple[str, ...]) -> Iterator[Scenario]:
    """Load every scenario before the first is simulated: a mistake in the last one is found at once."""
    from trnsim import scenario

    scenarios = [scenario.load(file, overrides) for file in files]
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
            f"gate failed: {name} has {speedup:.4f} x the tokens per s of {first.name}, below {min_speedup:g}",
            to_stderr=True,
        )
    return not failed
