"""`trnsim topology`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import rich_click as click

from trnsim.cli.options import json_file_option, plot_option
from trnsim.cli.output import STDOUT, refuse_overwriting, say, write, write_figure
from trnsim.cli.progress import working

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["command"]


@click.command("topology", cls=click.RichCommand)
@click.argument("name")
@click.option(
    "--servers", type=int, metavar="N", help="How many of the server; 1 if nothing is said, 16 below a fabric."
)
@click.option("--server", metavar="NAME", help="What a fabric joins; trn2-ultraserver if nothing is said.")
@click.option("--fabric", metavar="NAME", help="What joins several servers; ultracluster if nothing is said.")
@click.option("--ranks", type=int, metavar="N", help="Chips of a ring, star, switch or fully-connected machine.")
@click.option(
    "--rank", default="chip", show_default=True, metavar="chip|logical_core", help="What is one place of a server."
)
@click.option("--link-bandwidth", metavar="RATE", help='Of each link and direction of a generic machine, as "50 GB/s".')
@click.option(
    "--link-latency", metavar="TIME", help='Of each link of a generic machine, as "250 ns"; none if nothing is said.'
)
@plot_option
@json_file_option
def command(*, name: str, plot_file: Path | None, json_file: Path | None, **asked: Any) -> None:
    """Count the links of a network, its diameter and its bisection, and draw it.

    NAME is a server, a topology or fabric that ships with trnsim, a file, or a generic machine such as torus:4x4x4.
    """
    refuse_overwriting(
        [file for file in (name, asked["server"], asked["fabric"]) if file], plot=plot_file, json=json_file
    )
    from trnsim.reports.topology import topology_text
    from trnsim.simulation.topology import find_topology, topology_facts, topology_picture

    with working(f"counting {name}"):
        site = find_topology(name, **asked)
        drawn = topology_picture(site) if plot_file else None
        facts = topology_facts(name, site)
    say(topology_text(facts), to_stderr=json_file == STDOUT)
    if json_file:
        from trnsim.results import json_text

        write(json_file, json_text(facts.to_dict()))
    if plot_file and drawn:
        from trnsim.plots.topology import topology_figure
        from trnsim.results.topology_facts import picture_frames

        write_figure(plot_file, topology_figure(*picture_frames(drawn), title=site.described))
