"""What nccom-test and nccl-tests print, read into rows.

Both tools print tables with a line per size. nccom-test has one line of names with their units in brackets; nccl-tests
has a line of names and a line of units, both behind a ``#``, and two sets of columns: out of place and in place. Which
operation it was and on how many ranks stands, if anywhere, in the lines above a table. Time is what counts: bandwidths
are read only to tell whether a table means 1e9 or 2**30 bytes where it says GB.
"""

from __future__ import annotations

import json
import re
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from trnsim.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["Log", "LogTable", "Measured", "Skipped", "read_log"]

_OPS = {
    "all-reduce": "allr|all_?reduce",
    "all-gather": "allg|all_?gather",
    "reduce-scatter": "redsct|reduce_?scatter",
    "all-to-all": "a2a|all_?to_?all",
    "all-to-all-v": "all_?to_?all_?v",
    "all-gather-v": "all_?gather_?v",
    "send-recv": "send_?recv",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "permute": "permute",
    "gather": "gather",
    "scatter": "scatter",
    "hypercube": "hypercube",
}
_OP = re.compile("|".join(f"(?P<{op.replace('-', '_')}>(?:{words})(?:_perf)?)" for op, words in _OPS.items()), re.ASCII)
_COMMAND = re.compile(r"\bnccom-test\b(?P<words>.*)")
_PERF = re.compile(r"\b(?P<op>[a-z_]+_perf)\b")
_RANKS = re.compile(r"(?:^|\s)(?:-r|--nworkers)[ =]?(\d+)")
_RANK_LINE = re.compile(r"#\s*Rank\s+(\d+)\b")
_PREFIX = re.compile(r"^(?:\x1b\[[0-9;]*m|\[\d+,\d+\]<std(?:out|err)>:|\s*\d+:(?=\s*[#\d]))")
_SIZE = re.compile(r"0*[1-9]\d{0,17}", re.ASCII)
_ROW = re.compile(r"\d+\s")
_HEAD = re.compile(r"([#\w:%.]+?)(?:\(([^()\s]+)\))?")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
_WITH_UNITS = {"size", "count", "time", "algbw", "busbw"}
_DIGITS_ENOUGH = 1.0  # from here on two decimals tell 1e9 from 2**30
_UNITS = {"GB/s": 1e9, "GiB/s": float(2**30)}
_UNIT_TOLERANCE = 0.03


class Measured(Record):
    """One measured time.

    Parameters
    ----------
    line
        Where it stands in the log, counted from 1; in a JSON report the number of the result.
    bytes
        Size as the tool prints it. > 0.
    time_s
        Out of place, where a tool measures both. > 0.
    """

    line: int
    bytes: int
    time_s: float


class Skipped(Record):
    """A line that looks like a measurement and is none that can be used, and why."""

    line: int
    reason: str


class LogTable(Record):
    """One table of a log.

    Parameters
    ----------
    line
        Of its head.
    op
        Operation, as trnsim spells it; None where the log does not say.
    ranks
        None where the log does not say.
    rows
        In the order of the log.
    unit
        What its bandwidths turn out to be, ``GB/s`` (1e9) or ``GiB/s`` (2**30), from size and time; None if that cannot
        be told.
    printed_unit
        What its head says they are; None where it says nothing.
    bus_factor
        Bus bandwidth over algorithm bandwidth, which tells the ranks; None if that cannot be told.
    """

    line: int
    op: str | None
    ranks: int | None
    rows: tuple[Measured, ...]
    unit: str | None
    printed_unit: str | None
    bus_factor: float | None


class Log(Record):
    """All tables of a log, and the lines that were skipped."""

    tables: tuple[LogTable, ...]
    skipped: tuple[Skipped, ...]


def read_log(text: str) -> Log:
    """Read what nccom-test or nccl-tests printed, or the JSON report of nccom-test.

    Parameters
    ----------
    text
        The log, other lines in between included.

    Returns
    -------
    Log
        Without tables if none is in the text.

    Examples
    --------
    >>> log = read_log('''nccom-test -r 2 allr
    ...      size(B)    count(elems)    type    time(us)    algbw(GB/s)    busbw(GB/s)
    ...     33554432        33554432   uint8         768          40.69          40.69
    ... ''')
    >>> [(table.op, table.ranks, table.unit) for table in log.tables], log.tables[0].rows
    ([('all-reduce', 2, 'GiB/s')], (Measured(line=3, bytes=33554432, time_s=0.000768),))
    """
    reader = _Reader()
    if text.lstrip("\ufeff \t\r\n").startswith("{"):
        reader.report(text)
    else:
        for number, line in enumerate(text.lstrip("\ufeff").splitlines(), start=1):
            reader.line(number, _PREFIX.sub("", line).strip())
    reader.close()
    return Log(tuple(reader.tables), tuple(reader.skipped))


class _Columns(Record):
    """Where to find what in the lines of a table."""

    names: tuple[str, ...]
    units: Mapping[str, str]

    @property
    def time(self) -> str:
        """Name of the column of times: the plain one, or the average, or the first."""
        times = [name for name in self.names if name.partition(":")[0] == "time"]
        return next((name for name in ("time", "time:avg") if name in times), times[0])

    def first(self, name: str, cells: Sequence[str]) -> str:
        """Return the cell of the first column of a name."""
        return cells[self.names.index(name)] if name in self.names else ""


class _Row(NamedTuple):
    """A measurement, and the bandwidths that are printed beside it."""

    measured: Measured
    algbw: float
    busbw: float


class _Reader:
    """Goes through a log line by line and keeps what it knows of the table at hand."""

    def __init__(self) -> None:
        self.tables: list[LogTable] = []
        self.skipped: list[Skipped] = []
        self._op: str | None = None
        self._ranks: int | None = None
        self._listed = 0
        self._columns: _Columns | None = None
        self._head = 0
        self._rows: list[_Row] = []

    def line(self, number: int, line: str) -> None:
        """Take one line."""
        if columns := _columns_of(line):
            self.close()
            self._columns, self._head = columns, number
        elif self._columns and not self._rows and (units := _units_of(line)):
            names = [name for name in self._columns.names if name in _WITH_UNITS]
            self._columns = _Columns(self._columns.names, dict(zip(reversed(names), reversed(units), strict=False)))
        elif self._columns and _ROW.match(line):
            self._row(number, line.split())
        else:
            self._title(line)

    def report(self, text: str) -> None:
        """Take a JSON report: a list of results whose keys are the names of columns."""
        try:
            results = json.loads(text.lstrip("\ufeff"))["results"]
            entries = [{str(key): value for key, value in dict(entry).items()} for entry in results]
        except (ValueError, KeyError, TypeError, RecursionError):
            return
        for number, entry in enumerate(entries, start=1):
            columns = _columns_of(" ".join(entry))
            if columns is None:
                self.skipped.append(Skipped(number, "a result without size and time"))
                continue
            self._columns, self._head = columns, 1
            self._row(number, [str(cell) for cell in entry.values()])

    def close(self) -> None:
        """End the table at hand, if there is one with rows."""
        if self._columns and self._rows:
            printed = self._columns.units.get("algbw")
            table = LogTable(
                line=self._head,
                op=self._op,
                ranks=self._ranks or self._listed or None,
                rows=tuple(row.measured for row in self._rows),
                unit=_unit_of(self._rows),
                printed_unit=printed,
                bus_factor=_bus_factor(self._rows),
            )
            self.tables.append(table)
        self._columns, self._rows = None, []

    def _row(self, number: int, cells: Sequence[str]) -> None:
        columns = self._columns
        if columns is None:
            return
        found = _measured(number, cells, columns)
        if isinstance(found, Skipped):
            self.skipped.append(found)
        else:
            algbw, busbw = (_number(columns.first(name, cells)) or 0.0 for name in ("algbw", "busbw"))
            self._rows.append(_Row(found, algbw, busbw))

    def _title(self, line: str) -> None:
        """Look for the operation and the ranks in a line that is no part of a table."""
        if command := _COMMAND.search(line):
            self.close()
            self._op, self._listed = _op_among(command["words"].split()), 0
            ranks = _RANKS.search(command["words"])
            self._ranks = int(ranks[1]) if ranks else None
        elif perf := _PERF.search(line):
            if not line.startswith("# Collective test concluded"):
                self.close()
                self._op, self._ranks, self._listed = _op_among([perf["op"]]), None, 0
        elif rank := _RANK_LINE.match(line):
            self._listed = max(self._listed if int(rank[1]) else 0, int(rank[1]) + 1)


def _columns_of(line: str) -> _Columns | None:
    """Return the columns that a line heads, or None if it is no head."""
    words = line.lstrip("# ").split()
    found = [match for word in words if (match := _HEAD.fullmatch(word))]
    names = tuple(match[1] for match in found)
    if len(found) < len(words) or "size" not in names or not any(name.partition(":")[0] == "time" for name in names):
        return None
    units = {match[1]: match[2] for match in reversed(found) if match[2]}
    return _Columns(names, units)


def _units_of(line: str) -> list[str]:
    """Return the units of a line that holds nothing else."""
    words = line.lstrip("# ").split()
    units = re.findall(r"\(([^()\s]+)\)", line)
    return units if words and len(units) == len(words) else []


def _measured(number: int, cells: Sequence[str], columns: _Columns) -> Measured | Skipped:
    """Return the measurement of a line, or why it is none."""
    if len(cells) != len(columns.names):
        reason = f"{len(cells)} cells where {len(columns.names)} columns are: {' '.join(cells[1:])[:60]}"
        return Skipped(number, reason)
    size, printed = columns.first("size", cells), columns.first(columns.time, cells)
    time, unit = _number(printed), columns.units.get(columns.time, "us")
    wrong = _number(columns.first("#wrong", cells))
    if not _SIZE.fullmatch(size):
        return Skipped(number, f"a size of {size}")
    if time is None or not time > 0:
        return Skipped(number, f"a time of {printed}")
    if unit not in _SECONDS:
        return Skipped(number, f"a time in {unit}")
    if wrong:
        return Skipped(number, f"{wrong:.0f} wrong values: the operation failed its check")
    return Measured(number, int(size), time * _SECONDS[unit])


def _number(cell: str) -> float | None:
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if abs(value) < float("inf") else None


def _op_among(words: Iterable[str]) -> str | None:
    """Return the operation that one of some words names, the last that does."""
    found = [match.lastgroup for word in words if (match := _OP.fullmatch(word.casefold())) and match.lastgroup]
    return found[-1].replace("_", "-") if found else None


def _unit_of(rows: Iterable[_Row]) -> str | None:
    """Tell from sizes and times what a bandwidth of 1 stands for."""
    ratios = [row.measured.bytes / row.measured.time_s / row.algbw for row in rows if row.algbw >= _DIGITS_ENOUGH]
    if not ratios:
        return None
    name, off = min(((name, abs(median(ratios) / rate - 1)) for name, rate in _UNITS.items()), key=lambda each: each[1])
    return name if off < _UNIT_TOLERANCE else None


def _bus_factor(rows: Iterable[_Row]) -> float | None:
    """Tell from the largest algorithm bandwidth, which has most digits, what it is multiplied by."""
    best = max(rows, key=lambda row: row.algbw)
    return best.busbw / best.algbw if best.algbw >= _DIGITS_ENOUGH and best.busbw else None
