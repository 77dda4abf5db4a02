"""`trnsim list`."""

from __future__ import annotations

from itertools import groupby

import rich_click as click
from msgspec.structs import asdict

from trnsim.cli.options import json_flag
from trnsim.cli.output import say

__all__ = ["command"]

_KINDS = ("chips", "servers", "topologies", "models", "families", "scenarios")


@click.command("list", cls=click.RichCommand)
@click.argument("kind", type=click.Choice(_KINDS, case_sensitive=False))
@json_flag
def command(kind: str, *, as_json: bool) -> None:
    """List what comes with trnsim, one line each."""
    from trnsim import results
    from trnsim.simulation.catalog import PLURALS, entries

    listed = entries(PLURALS[kind])
    if as_json:
        say(results.json_text({kind: [asdict(entry) for entry in listed]}))
        return
    width = max((len(entry.name) for entry in listed), default=0)
    for group, members in groupby(listed, key=lambda entry: entry.group):
        indent = "  " if group else ""
        head = f"{group}\n" if group else ""
        say(head + "".join(f"{indent}{entry.name:<{width}}  {entry.summary}\n" for entry in members))
