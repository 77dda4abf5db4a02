"""The tables of a result, as rows, as CSV text and as pandas frames."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from trnsim.results.columns import TABLES

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd

    from trnsim.record import Record
    from trnsim.results.columns import Column
    from trnsim.results.result import Result

__all__ = ["csv_text", "frame", "frame_of", "rows"]

Row = dict[str, Any]


def rows(result: Result, name: str) -> list[Row]:
    """Return the rows of one table; each holds exactly the declared columns.

    Raises
    ------
    KeyError
        If there is no such table; the message lists them.
    """
    if name not in TABLES:
        raise KeyError(f"no table {name!r}; there are {', '.join(TABLES)}")
    columns = TABLES[name]
    return [{column.name: row[column.name] for column in columns} for row in _MAKERS[name](result)]


def csv_text(result: Result, name: str) -> str:
    """Return one table as CSV text with a header line."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [column.name for column in TABLES[name]], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows(result, name))
    return text.getvalue()


def frame(result: Result, name: str) -> pd.DataFrame:
    """Return one table as a frame with the declared columns and dtypes; its `attrs` say of what run it is."""
    found = frame_of(rows(result, name), TABLES[name])
    found.attrs["provenance"] = asdict(result.provenance)
    return found


def frame_of(table_rows: list[Row], columns: tuple[Column, ...]) -> pd.DataFrame:
    """Return rows as a frame with exactly the declared columns and dtypes, also when there is no row.

    Examples
    --------
    >>> from trnsim.results import Column
    >>> frame_of([{"chips": 64}, {"chips": 144}], (Column("chips", "int64", "", "chips reserved"),))
       chips
    0     64
    1    144
    """
    import pandas as pd

    return pd.DataFrame(
        {column.name: pd.array([row[column.name] for row in table_rows], dtype=column.dtype) for column in columns}
    )


def _step(result: Result) -> Iterator[Row]:
    yield {
        **_fields(result.step),
        **_fields(result.cluster),
        "scenario": result.name,
        "model": result.model.name,
        "tokens_per_s_per_chip": result.step.tokens_per_s / result.cluster.chips,
    }


def _breakdown(result: Result) -> Iterator[Row]:
    for part, time_s in result.step.breakdown_s.parts().items():
        yield {"part": part, "time_s": time_s, "fraction": time_s / result.step.time_s}


def _memory(result: Result) -> Iterator[Row]:
    for term, size in result.memory.by_term_bytes.terms().items():
        yield {"term": term, "bytes": size, "limit_fraction": size / result.memory.limit_bytes}


def _stages(result: Result) -> Iterator[Row]:
    for stage in result.stages:
        terms = {f"{term}_bytes": size for term, size in stage.memory_bytes.terms().items()}
        yield {**_fields(stage), **terms}


def _tiers(result: Result) -> Iterator[Row]:
    for tier in result.tiers:
        yield {"axis": tier.axis, "size": tier.size, "kinds": ", ".join(tier.kinds)}


def _fields(record: Record) -> Row:
    """Return the fields of a record by name."""
    return {name: getattr(record, name) for name in record.__struct_fields__}


_MAKERS = {
    "step": _step,
    "breakdown": _breakdown,
    "waterfall": lambda result: map(_fields, result.waterfall),
    "memory": _memory,
    "stages": _stages,
    "collectives": lambda result: map(_fields, result.collectives),
    "links": lambda result: map(_fields, result.links),
    "tiers": _tiers,
}
