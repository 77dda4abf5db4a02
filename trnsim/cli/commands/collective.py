"""`trnsim collective`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import rich_click as click

from trnsim.cli.options import json_file_option, plot_option
from trnsim.cli.output import STDOUT, output_file, refuse_overwriting, say, write, write_figure
from trnsim.cli.progress import working

if TYPE_CHECKING:
    from pathlib import Path

    from trnsim.cli.output import Drawing
    from trnsim.results.collective_times import CollectiveTimes
    from trnsim.study.log_comparison import LogComparison

__all__ = ["command"]


@click.command("collective", cls=click.RichCommand)
@click.argument("op")
@click.option(
    "--on",
    required=True,
    metavar="TOPOLOGY|SERVER",
    help="A server (trnsim list servers), a topology, a file, or a generic machine: ring, star, switch, fully-connected, "
    "torus:4x4x4, mesh:8x8, hypercube:6, fat-tree:16x16.",
)
@click.option("--servers", type=int, default=1, show_default=True, metavar="N", help="How many of the server.")
@click.option("--fabric", metavar="NAME", help="What joins several servers; ultracluster if nothing is said.")
@click.option(
    "--ranks",
    type=int,
    metavar="N",
    help="Members of the group, on the first endpoints; all of them if nothing is said.",
)
@click.option(
    "--rank", default="chip", show_default=True, metavar="chip|logical_core", help="What is one rank of a server."
)
@click.option(
    "--bytes",
    "sizes",
    metavar="A:B",
    help="Size of the buffer, or A and its doubles up to B; a bare number is bytes. 8:1GiB if nothing is said.",
)
@click.option(
    "--algorithm", default="auto", show_default=True, metavar="NAME", help="How it is done; auto takes the fastest."
)
@click.option(
    "--fidelity",
    default="flow",
    show_default=True,
    metavar="closed_form|flow|chunk",
    help="Formulas, flows that share links, or single messages (up to 16,384 ranks).",
)
@click.option(
    "--policy",
    default="fastest",
    show_default=True,
    metavar="fastest|neuron",
    help="What auto does; neuron takes mesh below 1 MB, recursive halving and doubling up to 56 MB, KangaRing above.",
)
@click.option("--link-bandwidth", metavar="RATE", help='Of each link and direction of a generic machine, as "50 GB/s".')
@click.option(
    "--link-latency", metavar="TIME", help='Of each link of a generic machine, as "250 ns"; none if nothing is said.'
)
@click.option(
    "--ties",
    metavar="split|positive",
    help="Between two ways round a generic torus that are as short: half each (if nothing is said), or the positive one.",
)
@click.option("--degrade", metavar="N:FACTOR", help="N evenly spaced uplinks keep this share of their bandwidth.")
@click.option(
    "--matrix", metavar="FILE", help="For an all-to-all-v, whole numbers: what each rank (row) sends to each (column)."
)
@click.option(
    "--compare", "log", metavar="LOG", help="Simulate what nccom-test or nccl-tests measured; its sizes, error per row."
)
@click.option(
    "--explain", is_flag=True, help="Show the program of the largest size, its busiest link and its lower bounds."
)
@plot_option
@click.option("--csv", "csv_file", metavar="FILE", callback=output_file, help="Write the table as CSV.")
@json_file_option
def command(
    *,
    op: str,
    log: str | None,
    plot_file: Path | None,
    csv_file: Path | None,
    json_file: Path | None,
    **asked: Any,
) -> None:
    """Time a collective on a network, size by size, as nccl-tests and nccom-test print it.

    OP is all-reduce, reduce-scatter, all-gather, all-to-all, all-to-all-v, broadcast, reduce, send-recv (rank i sends S/N
    bytes to rank i + 1) or barrier. Exit code 2: something is wrong with the question; 3: there are too few endpoints.
    """
    read = [name for name in (asked["on"], asked["fabric"], asked["matrix"], log) if name]
    refuse_overwriting(read, plot=plot_file, csv=csv_file, json=json_file)
    found = _found(op, log, asked)
    say(_text(found), to_stderr=json_file == STDOUT)
    if json_file:
        from trnsim.results import json_text

        write(json_file, json_text(found.to_dict()))
    if csv_file:
        write(csv_file, found.csv_text())
    if plot_file:
        write_figure(plot_file, _figure(found))


def _found(op: str, log: str | None, asked: dict[str, Any]) -> CollectiveTimes | LogComparison:
    """Simulate what was asked, or what a log measured."""
    with working(f"simulating {op} on {asked['on']}"):
        if log is None:
            from trnsim.simulation.collective import collective

            return collective(op, **asked)
        from trnsim.study.log_comparison import compare_log

        if asked.pop("sizes") is not None:
            raise click.UsageError("--bytes and --compare: the sizes are those of the log")
        return compare_log(log, op, **asked)


def _text(found: CollectiveTimes | LogComparison) -> str:
    """Return what the terminal shows."""
    from trnsim.reports.collective import collective_text, comparison_with_log_text, explanation_text
    from trnsim.results.collective_times import CollectiveTimes

    if not isinstance(found, CollectiveTimes):
        return comparison_with_log_text(found) + explanation_text(found.times)
    return collective_text(found) + explanation_text(found)


def _figure(found: CollectiveTimes | LogComparison) -> Drawing:
    """Draw the simulation, and what was measured."""
    from trnsim.plots.collective import collective_figure
    from trnsim.results.collective_times import CollectiveTimes

    times = found if isinstance(found, CollectiveTimes) else found.times
    measured = None if isinstance(found, CollectiveTimes) else found.frame()
    title = f"{times.op} on {times.provenance['described']}, {times.provenance['ranks']:,} ranks"
    return collective_figure(times.frame(), title=title, measured=measured)
