"""How long a collective takes, size by size: the table that nccl-tests and nccom-test print, with what bounds each row."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping  # noqa: TC003  (part of the public annotations)
from typing import TYPE_CHECKING, Any, NamedTuple

from trnsim.record import Record
from trnsim.results.columns import Column
from trnsim.results.document import plain
from trnsim.results.tables import frame_of

if TYPE_CHECKING:
    import pandas as pd

    from trnsim.fabric.explanation import Explanation

__all__ = ["COLLECTIVE_COLUMNS", "CollectiveTime", "CollectiveTimes", "Rival"]

COLLECTIVE_COLUMNS = (
    Column("bytes", "int64", "B", "larger of one rank's input and output buffer"),
    Column("ranks", "int64", "", "members of the group"),
    Column("algorithm", "string", "", "how it is done"),
    Column("fidelity", "string", "", "how it is priced"),
    Column("time_s", "float64", "s", "time of one, alone on the network"),
    Column("algbw_bytes_per_s", "float64", "B/s", "bytes over time; nothing for a collective that takes no time"),
    Column("busbw_bytes_per_s", "float64", "B/s", "the same times the bus factor of the operation"),
    Column("bound_s", "float64", "s", "time below which no algorithm gets on this network"),
    Column("bound_by", "string", "", "what takes most of the time: latency, or the busiest link"),
)
"""Columns of the table of a collective."""

_IN_THE_DOCUMENT = tuple(column.name for column in COLLECTIVE_COLUMNS if column.name != "bound_by")


class Rival(NamedTuple):
    """An algorithm that was not taken.

    Parameters
    ----------
    name
        The algorithm.
    time_s
        What it would take, or a time below which it cannot get.
    at_least
        Whether it is the latter, because that is too long already.
    """

    name: str
    time_s: float
    at_least: bool


class CollectiveTime(Record):
    """One size.

    Parameters
    ----------
    bytes, ranks, algorithm, fidelity, time_s, algbw_bytes_per_s, busbw_bytes_per_s, bound_s, bound_by
        As :data:`COLLECTIVE_COLUMNS` explains them. Bandwidths are None where the time is zero.
    rivals
        The algorithms that `auto` did not take, fastest first.
    """

    bytes: int
    ranks: int
    algorithm: str
    fidelity: str
    time_s: float
    algbw_bytes_per_s: float | None
    busbw_bytes_per_s: float | None
    bound_s: float
    bound_by: str
    rivals: tuple[Rival, ...]

    @classmethod
    def of(
        cls,
        size: int,
        ranks: int,
        time_s: float,
        *,
        algorithm: str,
        fidelity: str,
        bus_factor: float,
        bound_s: float,
        bound_by: str,
        rivals: tuple[Rival, ...],
    ) -> CollectiveTime:
        """Make a row from a time, with its bandwidths."""
        algbw = size / time_s if time_s else None
        busbw = None if algbw is None else algbw * bus_factor
        return cls(size, ranks, algorithm, fidelity, time_s, algbw, busbw, bound_s, bound_by, rivals)


class CollectiveTimes(Record):
    """What `trnsim.collective` found.

    Parameters
    ----------
    op
        Operation.
    provenance
        What was asked, and by which version it was answered; name to value.
    bus_factor
        Bus bandwidth over algorithm bandwidth.
    rows
        By ascending size.
    explanation
        The program of the largest size on its network, if that was asked for.
    notes, warnings
        What trnsim took or left out on its own, and what deserves a look.
    """

    op: str
    provenance: Mapping[str, Any]
    bus_factor: float
    rows: tuple[CollectiveTime, ...]
    explanation: Explanation | None = None
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document: what was asked, and a row for each size."""
        rows = [{name: getattr(row, name) for name in _IN_THE_DOCUMENT} for row in self.rows]
        document = {
            **self.provenance,
            "bus_factor": self.bus_factor,
            "rows": rows,
            "notes": list(self.notes),
            "warnings": list(self.warnings),
        }
        if self.explanation is not None:
            found = self.explanation
            derived = {"steps": found.steps, "bound_by": found.bound_by, "above_bound": found.above_bound}
            document["explanation"] = {**plain(found), **derived}
        return document

    def csv_text(self) -> str:
        """Return the rows as CSV text with a header line."""
        text = io.StringIO()
        writer = csv.DictWriter(text, [column.name for column in COLLECTIVE_COLUMNS], lineterminator="\n")
        writer.writeheader()
        writer.writerows(self._cells())
        return text.getvalue()

    def frame(self) -> pd.DataFrame:
        """Return the rows as a frame with the columns of :data:`COLLECTIVE_COLUMNS`."""
        return frame_of(self._cells(), COLLECTIVE_COLUMNS)

    def _cells(self) -> list[dict[str, Any]]:
        return [{column.name: getattr(row, column.name) for column in COLLECTIVE_COLUMNS} for row in self.rows]

    def _repr_html_(self) -> str:
        return str(self.frame().to_html(index=False))
