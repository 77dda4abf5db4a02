"""Measured training runs: one CSV row for each published number, and what its columns and blanks mean.

Columns that are needed are `id`, `group`, `model`, `metric`, `value`, `unit` and `source`; further ones are those of
`MeasuredRow`, and any other is ignored. A blank means: 1 for a degree of parallelism, `heads` for `kv_heads`, `no` for
`seq_parallel`, what is left of the accelerators for `dp`, `held-out` for `split`, and otherwise that the source does not say.
"""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_type_hints

from trnsim.errors import InputError, Problem
from trnsim.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["MeasuredRow", "read_measured", "shipped"]

_NEEDED: Final = ("id", "group", "model", "metric", "value", "unit", "source")
_DEGREES: Final = ("tp", "pp", "vpp", "cp", "ep")
_BLANKS: Final = {**dict.fromkeys(_DEGREES, "1"), "seq_parallel": "no", "split": "held-out"}
_SPLITS: Final = ("calibration", "held-out")


class MeasuredRow(Record):
    """One published number of one training run; None where the source does not say.

    Parameters
    ----------
    id, group, model
        Name of the row, the set that it belongs to, and the model.
    layers, hidden, heads, kv_heads, ffn, vocab
        Shape of the model.
    seq, global_batch, micro_batch, grad_accum
        Tokens of a sequence; sequences of a step and of a pass; microbatches of a step on each replica.
    tp, pp, vpp, dp, cp, ep
        Degrees of parallelism; virtual stages on each stage.
    zero_fsdp, recompute, precision
        In the words of the source.
    seq_parallel
        Whether it had sequence parallelism.
    hardware, accelerators, software
        What it ran on.
    metric, value, unit
        What was measured.
    source, table
        Where it was published.
    split
        ``calibration`` if a fit may see it, else ``held-out``.
    skipped
        Why it is not compared; empty where it is.
    line
        Line of the file.
    """

    id: str
    group: str
    model: str
    metric: str
    value: float
    unit: str
    source: str
    layers: int | None
    hidden: int | None
    heads: int | None
    kv_heads: int | None
    ffn: int | None
    vocab: int | None
    seq: int | None
    global_batch: int | None
    micro_batch: int | None
    grad_accum: int | None
    tp: int
    pp: int
    vpp: int
    dp: int | None
    cp: int
    ep: int
    zero_fsdp: str
    seq_parallel: bool
    recompute: str
    precision: str
    hardware: str
    accelerators: int | None
    software: str
    table: str
    split: str
    skipped: str
    line: int


def shipped(name: str) -> Path:
    """Return a measured table that comes with trnsim, as ``memory``."""
    return Path(__file__).parent / "data" / f"{name}.csv"


def read_measured(path: Path | str) -> tuple[MeasuredRow, ...]:
    """Read a measured table.

    Raises
    ------
    InputError
        If the file cannot be read, a needed column or value is missing, or a value is not what its column holds: with
        every such place; exit code 2.

    Examples
    --------
    >>> rows = read_measured(shipped("memory"))
    >>> rows[0].group, rows[0].tp, rows[0].split
    ('korthikanti22', 8, 'held-out')
    """
    file = str(path)
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError([Problem("", f"cannot be read: {error}")], file=file) from None
    reader = csv.DictReader(text.splitlines())
    missing = [name for name in _NEEDED if name not in (reader.fieldnames or ())]
    if missing:
        message = f"a column {', '.join(missing)} is due; needed are {', '.join(_NEEDED)}"
        raise InputError([Problem(missing[0], message, line=1)], file=file)
    found = [_Reading(cells, reader.line_num) for cells in reader]
    problems = [problem for reading in found for problem in reading.problems]
    if problems:
        raise InputError(problems, file=file)
    return tuple(reading.row() for reading in found)


class _Reading:
    """One line of a table, cell by cell."""

    def __init__(self, cells: dict[str, str | None], line: int) -> None:
        self.problems: list[Problem] = []
        self._line = line
        self._cells = {key: (cell or "").strip() for key, cell in cells.items() if isinstance(key, str)}
        hints = get_type_hints(MeasuredRow)
        self._values: dict[str, Any] = {
            name: self._value(name, hints[name]) for name in MeasuredRow.__struct_fields__ if name != "line"
        }
        self.problems += self._contradictions()

    def row(self) -> MeasuredRow:
        """Return the line; it has no problems."""
        values = dict(self._values)
        values["kv_heads"] = values["kv_heads"] or values["heads"]
        replica = values["tp"] * values["pp"] * values["cp"]
        if values["dp"] is None and values["accelerators"] is not None and values["accelerators"] % replica == 0:
            values["dp"] = values["accelerators"] // replica
        return MeasuredRow(**values, line=self._line)

    def _value(self, name: str, kind: Any) -> Any:
        cell = self._cells.get(name, "") or _BLANKS.get(name, "")
        if not cell:
            if name in _NEEDED:
                self._note(name, "a value is due", cell)
            return "" if kind is str else None
        if kind is str:
            return cell
        if kind is bool:
            return cell.casefold() in {"yes", "true", "1"}
        return self._number(name, cell, whole=kind is not float)

    def _number(self, name: str, cell: str, *, whole: bool) -> float | int | None:
        try:
            number = float(cell)
        except ValueError:
            number = math.nan
        if not math.isfinite(number) or number < 0 or (whole and not number.is_integer()):
            self._note(name, "a whole number is due" if whole else "a number of at least 0 is due", cell)
            return None
        return int(number) if whole else number

    def _contradictions(self) -> Iterator[Problem]:
        split = self._values["split"]
        if split not in _SPLITS:
            yield Problem("split", f"choose from {', '.join(_SPLITS)}", line=self._line, value=split)
        for name in _DEGREES:
            if self._values[name] == 0:
                yield Problem(name, "a degree is at least 1", line=self._line, value="0")

    def _note(self, name: str, message: str, cell: str) -> None:
        self.problems.append(Problem(name, message, line=self._line, value=cell or None))
