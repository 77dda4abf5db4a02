"""`trnsim check`."""

from __future__ import annotations

import rich_click as click

from trnsim.cli.options import set_option
from trnsim.cli.output import say

__all__ = ["command"]


@click.command("check", cls=click.RichCommand)
@click.argument("file")
@set_option
def command(file: str, overrides: tuple[str, ...]) -> None:
    """Report every problem of a scenario at once, without simulating it.

    FILE is a scenario file, or the name of one that ships with trnsim. Exit code 2: it breaks rules; 3: it is legal, but its
    cluster is too small.
    """
    from trnsim import scenario
    from trnsim.simulation.check import check

    loaded = scenario.load(file, overrides)
    checked = check(loaded)
    say(f"{loaded.source}: no problems")
    warnings = [("warning", warning) for warning in checked.warnings]
    for key, text in (*loaded.derived.items(), ("memory", checked.memory), *warnings):
        say(f"  {key}: {text}")
