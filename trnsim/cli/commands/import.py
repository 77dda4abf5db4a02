"""`trnsim import`."""  # noqa: N999 - the command is called so

from __future__ import annotations

from typing import TYPE_CHECKING

import rich_click as click

from trnsim.cli.output import STDOUT, output_file_or_stdout, refuse_overwriting, say, write

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["command"]

_COUNT = click.IntRange(min=1)


@click.command("import", cls=click.RichCommand)
@click.argument("format_name", metavar="nxdt|megatron-args|torchtitan")
@click.argument("file")
@click.option(
    "-o", "--output", default="-", metavar="FILE", callback=output_file_or_stdout, help="The scenario to write."
)
@click.option("--model", metavar="NAME|FILE", help="A model; by default the shape that the file gives.")
@click.option("--vocabulary", type=_COUNT, metavar="N", help="Entries of the vocabulary, where the file has none.")
@click.option("--server", metavar="NAME|FILE", help="The server; no format says it.")
@click.option("--servers", type=_COUNT, metavar="N", help="How many; by default as many as the ranks in the file need.")
@click.option("--fabric", metavar="NAME|FILE", help="What joins several servers; ultracluster for Trainium.")
def command(
    *,
    format_name: str,
    file: str,
    output: Path,
    model: str | None,
    vocabulary: int | None,
    server: str | None,
    servers: int | None,
    fabric: str | None,
) -> None:
    """Write a scenario from the settings of another tool.

    FILE is a YAML of NeuronX Distributed Training, a TOML of torchtitan, or whatever holds the arguments of Megatron-LM: a
    command, a shell script (which is read and not run), or a log in which they are printed.

    Standard error and the head of the scenario list each choice, and each key that was left out or not understood.
    Exit code 2: something is missing, above all a size of the model; none is guessed.
    """
    from pathlib import Path

    from trnsim.scenario.imports import Options, import_scenario

    refuse_overwriting([file], output=output)
    folder = Path() if output == STDOUT else output.parent
    options = Options(model, vocabulary, server, servers, fabric, folder)
    imported = import_scenario(format_name, Path(file), options)
    write(output, imported.text)
    say("\n".join((f"{file} read as a scenario", *imported.report)), to_stderr=True)
