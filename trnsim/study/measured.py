"""Measured training runs: one CSV row for each published number, and what its columns and blanks mean.

Columns that are needed are `id`, `group`, `model`, `metric`, `value` and `unit`; further ones are those of
`MeasuredRow`, and any other is ignored. The columns of tables of Trainium runs are understood too: `system` for
`hardware`, `chips` for `accelerators`, `seq_len` for `seq`, `sp_cp_zero1` for `zero_fsdp`; where they have no `group`, it
is the kind of instance, as `trn1`, and `software` is the Neuron SDK that their notes name.

A blank means: 1 for a degree of parallelism, `heads` for `kv_heads`, `no` for `seq_parallel`, what is left of the
accelerators for `dp`, micro-batch x `grad_accum` x `dp` for `global_batch`, `test` for `split`, and otherwise that the source does not say. A row whose cells cannot be read
is kept, with the reason for which it is skipped.
"""

from __future__ import annotations

import csv
import math
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_type_hints

from trnsim.errors import InputError, Problem
from trnsim.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["MeasuredRow", "read_measured", "shipped"]

_NEEDED: Final = ("id", "group", "model", "metric", "value", "unit")
_DEGREES: Final = ("tp", "pp", "vpp", "cp", "ep")
_BLANKS: Final = {**dict.fromkeys(_DEGREES, "1"), "seq_parallel": "no", "split": "test"}
_SPLITS: Final = ("calibration", "test")
_ALIASES: Final = {"hardware": "system", "accelerators": "chips", "seq": "seq_len", "zero_fsdp": "sp_cp_zero1"}
_ABSENT: Final = {"", "n/a", "-"}


class MeasuredRow(Record):
    """One published number of one training run; None where the source does not say.

    Parameters
    ----------
    id, group, model
        Name of the row, the set that it belongs to, and the model.
    metric, value, unit
        What was measured.
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
    hardware, accelerators, nodes, software
        What it ran on.
    source, table
        Where it was published.
    split
        ``calibration`` if a fit may see it, else ``test``.
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
    nodes: int | None
    software: str
    table: str
    split: str
    skipped: str
    line: int


def shipped(name: str) -> Path:
    """Return a measured table that comes with trnsim, as ``memory``."""
    return Path(__file__).parent / "data" / f"{name}.csv"


def read_measured(
    path: Path | str, fill: Callable[[dict[str, str]], Mapping[str, str]] | None = None
) -> tuple[MeasuredRow, ...]:
    """Read a measured table.

    Parameters
    ----------
    path
        The file.
    fill
        Returns what stands for the cells of a row, where a source is known to mean something else or to leave something
        out; by default they stand for themselves.

    Raises
    ------
    InputError
        If the file cannot be read, has no rows, or a needed column is missing; exit code 2.

    Examples
    --------
    >>> rows = read_measured(shipped("memory"))
    >>> rows[0].group, rows[0].tp, rows[0].split
    ('korthikanti22', 8, 'test')
    """
    file = str(path)
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError([Problem("", f"cannot be read: {error}")], file=file) from None
    reader = csv.DictReader(text.splitlines())
    columns = set(reader.fieldnames or ())
    missing = [name for name in _NEEDED if name not in columns and not (name == "group" and "system" in columns)]
    if missing:
        message = f"a column {', '.join(missing)} is due; needed are {', '.join(_NEEDED)}"
        raise InputError([Problem(missing[0], message, line=1)], file=file)
    rows = tuple(_Reading(_cells(cells), reader.line_num, fill).row() for cells in reader)
    if not rows:
        raise InputError([Problem("", "the table has no rows; one row for each measured number is due")], file=file)
    return rows


def _cells(written: Mapping[str, str | None]) -> dict[str, str]:
    """Return the cells of a line under the names of `MeasuredRow`."""
    cells = {key: (cell or "").strip() for key, cell in written.items() if isinstance(key, str)}
    for name, alias in _ALIASES.items():
        cells.setdefault(name, cells.get(alias, ""))
    if "group" not in cells:
        instance = re.match(r"trn\d", cells["hardware"])
        cells["group"] = instance.group() if instance else "other"
        release = re.search(r"SDK (\d[\d.]*\d)", cells.get("notes", ""))
        cells["software"] = f"Neuron SDK {release[1]}" if release else ""
    return cells


@cache
def _kinds() -> dict[str, Any]:
    """Return the type of what each cell of a row becomes."""
    return {name: kind for name, kind in get_type_hints(MeasuredRow).items() if name != "line"}


class _Reading:
    """One line of a table, cell by cell."""

    def __init__(
        self, cells: dict[str, str], line: int, fill: Callable[[dict[str, str]], Mapping[str, str]] | None
    ) -> None:
        self._faults: list[str] = []
        self._line = line
        self._cells = fill(cells) if fill else cells
        self._values: dict[str, Any] = {name: self._value(name, kind) for name, kind in _kinds().items()}
        self._faults += self._contradictions()

    def row(self) -> MeasuredRow:
        """Return the line."""
        values = dict(self._values)
        values["kv_heads"] = values["kv_heads"] or values["heads"]
        replica = values["tp"] * values["pp"] * values["cp"]
        if values["dp"] is None and values["accelerators"] is not None and values["accelerators"] % replica == 0:
            values["dp"] = values["accelerators"] // replica
        sizes = (values["micro_batch"], values["grad_accum"], values["dp"])
        values["global_batch"] = values["global_batch"] or (math.prod(sizes) if all(sizes) else None)
        values["skipped"] = values["skipped"] or "; ".join(self._faults)
        return MeasuredRow(**values, line=self._line)

    def _value(self, name: str, kind: Any) -> Any:
        cell = self._cells.get(name, "")
        cell = _BLANKS.get(name, "") if cell.casefold() in _ABSENT else cell
        if kind is bool:
            return cell.casefold() in {"yes", "true", "1"}
        if kind is str and (cell or name not in _NEEDED):
            return cell
        if cell or name in _NEEDED:
            return cell if kind is str else self._number(name, cell, whole=kind is not float)
        return None

    def _number(self, name: str, cell: str, *, whole: bool) -> float | int | None:
        try:
            number = float(cell)
        except ValueError:
            number = math.nan
        if not math.isfinite(number) or number < 0 or (whole and not number.is_integer()):
            due = "a whole number" if whole else "a number of at least 0"
            self._faults.append(f"{name} is {cell or 'blank'}, and {due} is due")
            return 1 if name in _DEGREES else 0.0 if name == "value" else None
        return int(number) if whole else number

    def _contradictions(self) -> Iterator[str]:
        if self._values["split"] not in _SPLITS:
            yield f"split is {self._values['split']}; choose from {', '.join(_SPLITS)}"
        for name in _NEEDED:
            if self._values[name] == "":
                yield f"{name} is blank"
        for name in _DEGREES:
            if self._values[name] == 0:
                self._values[name] = 1
                yield f"{name} is 0, and a degree is at least 1"
