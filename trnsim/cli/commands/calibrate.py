"""`trnsim calibrate`."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from trnsim.cli.output import STDOUT, output_file_or_stdout, refuse_overwriting, say, write
from trnsim.cli.progress import working

__all__ = ["command"]


@click.command("calibrate", cls=click.RichCommand)
@click.option(
    "--measured",
    "tables",
    metavar="TABLE.csv",
    multiple=True,
    required=True,
    help="Measured steps; may be given several times. A table without a column `split` is fitted whole.",
)
@click.option("--family", required=True, metavar="NAME", help="Software family to start from; its rows are fitted.")
@click.option(
    "--fit",
    "keys",
    metavar="KEY",
    multiple=True,
    help="Number to fit, as gemm_efficiency; may be given up to five times. By default those that the family says were "
    "fitted, or the GEMM efficiency alone where rows are few.",
)
@click.option(
    "-o",
    "--output",
    "output",
    metavar="FILE",
    callback=output_file_or_stdout,
    required=True,
    help="Where to write the family, for `cluster.software` of a scenario; - for standard output.",
)
@click.option("--jobs", type=click.IntRange(min=-1), default=-1, help="Processes to use; -1 for one a core.")
def command(*, tables: tuple[str, ...], family: str, keys: tuple[str, ...], output: Path, jobs: int) -> None:
    """Fit the few numbers of a software family to measured steps.

    Tables are those of `trnsim validate`. The family that is written says which rows it rests on, how far its numbers
    are certain, and how far off its steps are by regime.
    """
    refuse_overwriting(tables, output=output)
    from datetime import UTC, datetime

    from trnsim import study
    from trnsim.reports import calibration_text

    with working(f"fitting {family}"):
        found = study.calibrate([Path(table) for table in tables], family, keys, jobs=jobs or -1)
    names = " and ".join(Path(table).name for table in tables)
    write(output, study.family_yaml(found, tables=names, date=datetime.now(tz=UTC).date().isoformat()))
    say(calibration_text(found), to_stderr=output == STDOUT)
