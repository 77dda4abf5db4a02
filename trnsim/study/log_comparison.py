"""A simulated collective beside the measured times of a log."""

from __future__ import annotations

import csv
import io
from statistics import median
from typing import TYPE_CHECKING, Any

from trnsim.documents import canonical
from trnsim.errors import InputError
from trnsim.record import Record
from trnsim.results import Column
from trnsim.results.tables import frame_of
from trnsim.simulation.collective import collective
from trnsim.simulation.problems import Report
from trnsim.simulation.question import read_text
from trnsim.study.logs import Skipped, read_log

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pandas as pd

    from trnsim.results.collective_times import CollectiveTimes
    from trnsim.study.logs import LogTable

__all__ = ["COMPARED_COLUMNS", "Compared", "LogComparison", "compare_log"]

COMPARED_COLUMNS = (
    Column("line", "int64", "", "line of the log"),
    Column("bytes", "int64", "B", "larger of one rank's input and output buffer"),
    Column("ranks", "int64", "", "members of the group"),
    Column("algorithm", "string", "", "how it is simulated"),
    Column("measured_s", "float64", "s", "time in the log"),
    Column("time_s", "float64", "s", "simulated time"),
    Column("error_fraction", "float64", "fraction", "simulated over measured, less 1"),
)
"""Columns of the table of a comparison."""

_FACTOR_TOLERANCE = 0.01


class Compared(Record):
    """One measured row with its simulation; fields as :data:`COMPARED_COLUMNS` explains them."""

    line: int
    bytes: int
    ranks: int
    algorithm: str
    measured_s: float
    time_s: float

    @property
    def error_fraction(self) -> float:
        """Simulated over measured time, less 1: positive where the simulation is slow."""
        return self.time_s / self.measured_s - 1


class LogComparison(Record):
    """A log beside its simulation.

    Parameters
    ----------
    log
        Name of the log.
    times
        The simulation, of every size of the rows.
    rows
        In the order of the log; at least one.
    skipped
        Lines that were not compared, and why.
    notes
        What was found out about the log, such as what its GB mean.
    """

    log: str
    times: CollectiveTimes
    rows: tuple[Compared, ...]
    skipped: tuple[Skipped, ...]
    notes: tuple[str, ...]

    @property
    def median_error_fraction(self) -> float:
        """Median of the errors without their signs."""
        return median(abs(row.error_fraction) for row in self.rows)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document of the simulation, with the measurements under ``measured``."""
        measured = {
            "log": self.log,
            "median_error_fraction": self.median_error_fraction,
            "rows": self._cells(),
            "skipped": [{"line": skipped.line, "reason": skipped.reason} for skipped in self.skipped],
            "notes": list(self.notes),
        }
        return {**self.times.to_dict(), "measured": measured}

    def csv_text(self) -> str:
        """Return the rows as CSV text with a header line."""
        text = io.StringIO()
        writer = csv.DictWriter(text, [column.name for column in COMPARED_COLUMNS], lineterminator="\n")
        writer.writeheader()
        writer.writerows(self._cells())
        return text.getvalue()

    def frame(self) -> pd.DataFrame:
        """Return the rows as a frame with the columns of :data:`COMPARED_COLUMNS`."""
        return frame_of(self._cells(), COMPARED_COLUMNS)

    def _cells(self) -> list[dict[str, Any]]:
        return [{column.name: getattr(row, column.name) for column in COMPARED_COLUMNS} for row in self.rows]


def compare_log(log: str, op: str, *, ranks: int | None = None, **asked: Any) -> LogComparison:
    """Simulate what a log measured.

    Parameters
    ----------
    log
        File with the output of nccom-test or nccl-tests.
    op
        Operation. Tables of other operations are skipped; those that do not say which they are of count.
    ranks
        Members of the group; tables of other numbers are skipped. By default what the log says.
    **asked
        Further arguments of `trnsim.collective`, but not the sizes, which are those of the log.

    Raises
    ------
    InputError
        If the log has nothing to compare, or with whatever else is wrong.
    """
    report = Report("collective")
    text = report.read("compare", read_text, log, "")
    found = read_log(text)
    kept, skipped = _parted(found.tables, op, ranks)
    said = sorted({table.ranks for table in kept if table.ranks})
    if ranks is None and len(said) > 1:
        report.add("ranks", f"the log has tables of {', '.join(map(str, said))} ranks; say which")
    elif not kept and not report.problems:
        report.add("compare", _nothing((*found.skipped, *skipped)), log)
    group = said[0] if ranks is None and len(said) == 1 else ranks
    scale = (group or 1) if canonical(op) == canonical("send-recv") else 1
    sizes = sorted({row.bytes * scale for table in kept for row in table.rows})
    times = _simulated(report, op, sizes or [1], group, asked)
    rows = tuple(_compared(times, table, scale) for table in kept)
    return LogComparison(
        log=log,
        times=times,
        rows=tuple(row for of_table in rows for row in of_table),
        skipped=tuple(sorted((*found.skipped, *skipped), key=lambda each: each.line)),
        notes=tuple(dict.fromkeys(note for table in kept for note in _notes(table, times))),
    )


def _parted(tables: Iterable[LogTable], op: str, ranks: int | None) -> tuple[list[LogTable], list[Skipped]]:
    """Part the tables of an operation and a number of ranks from others."""
    kept, skipped = [], []
    for table in tables:
        if table.op is not None and canonical(table.op) != canonical(op):
            skipped.append(_skipped(table, f"of {table.op}"))
        elif None not in (ranks, table.ranks) and table.ranks != ranks:
            skipped.append(_skipped(table, f"of {table.ranks} ranks"))
        else:
            kept.append(table)
    return kept, skipped


def _skipped(table: LogTable, what: str) -> Skipped:
    return Skipped(table.line, f"a table {what}, {len(table.rows)} row{'' if len(table.rows) == 1 else 's'}")


def _nothing(skipped: Sequence[Skipped]) -> str:
    """Say why a log has nothing to compare."""
    if not skipped:
        return "no table of nccom-test or nccl-tests is in it"
    reasons = "; ".join(f"line {each.line}: {each.reason}" for each in skipped[:3])
    return f"nothing in it can be compared: {reasons}{'; ...' if len(skipped) > 3 else ''}"


def _simulated(report: Report, op: str, sizes: list[int], ranks: int | None, asked: dict[str, Any]) -> CollectiveTimes:
    """Simulate the sizes of a log, or raise everything that is wrong."""
    times = None
    try:
        times = collective(op, ranks=ranks, sizes=sizes, **asked)
    except InputError as error:
        report.problems.extend(error.problems)
    report.close()
    return times  # type: ignore[return-value]  # without times there is a problem


def _compared(times: CollectiveTimes, table: LogTable, scale: int) -> Iterator[Compared]:
    """Yield the rows of a table with their simulation."""
    by_size = {row.bytes: row for row in times.rows}
    for measured in table.rows:
        row = by_size[measured.bytes * scale]
        yield Compared(measured.line, row.bytes, row.ranks, row.algorithm, measured.time_s, row.time_s)


def _notes(table: LogTable, times: CollectiveTimes) -> Iterator[str]:
    """Yield what a table says otherwise than it seems, or otherwise than the simulation."""
    if table.unit and table.printed_unit and table.unit != table.printed_unit:
        yield f"the log says {table.printed_unit} and holds {table.unit}: size over time tells; bandwidths here are 1e9 B/s"
    if table.op is None:
        yield f"the log does not say of which operation it is; taken for {times.op}"
    factor = table.bus_factor
    if factor and abs(factor / times.bus_factor - 1) > _FACTOR_TOLERANCE:
        yield (
            f"busbw over algbw is {factor:.3f} in the log and {times.bus_factor:.3f} here: "
            "it may be of another operation or another number of ranks"
        )
    if times.op == "send-recv":
        yield "a send-recv of the log sends its size; here its buffer is that times the ranks"
