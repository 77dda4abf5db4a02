"""`trnsim describe`."""

from __future__ import annotations

import rich_click as click

from trnsim.cli.options import json_flag
from trnsim.cli.output import say

__all__ = ["command"]


@click.command("describe", cls=click.RichCommand)
@click.argument("what", metavar="FILE|NAME|KIND:NAME")
@json_flag
def command(what: str, *, as_json: bool) -> None:
    """Show everything about a scenario, chip, server, topology, software family or model.

    Values come with their source, its date, and whether they are official, from a third party, inferred or assumed.
    `KIND:NAME` (as in server:trn2-ultraserver) settles a name that two kinds share.
    """
    from trnsim import reports, results
    from trnsim.simulation.description import describe

    description = describe(what)
    say(results.json_text(description.to_dict()) if as_json else reports.description_text(description))
