"""`trnsim schema`."""

from __future__ import annotations

import rich_click as click

from trnsim.cli.output import say

__all__ = ["command"]


@click.command("schema", cls=click.RichCommand)
def command() -> None:
    """Print the JSON Schema of scenario files, for editors."""
    from trnsim import results, scenario

    say(results.json_text(scenario.json_schema()))
