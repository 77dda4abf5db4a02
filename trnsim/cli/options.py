"""Options that several commands share."""

from __future__ import annotations

import rich_click as click

from trnsim.cli.output import output_figure, output_file_or_stdout

__all__ = ["json_file_option", "json_flag", "plot_option", "set_option"]

set_option = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Override a key of the scenario, such as layout.tp=8; read as YAML 1.2, paths from the working directory. May be repeated.",
)
json_file_option = click.option(
    "--json",
    "json_file",
    callback=output_file_or_stdout,
    metavar="FILE",
    help="Write the JSON document; with - it is all that standard output holds.",
)
json_flag = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
plot_option = click.option(
    "--plot", "plot_file", metavar="FILE", callback=output_figure, help="Write a picture: .png, .svg or .pdf."
)
