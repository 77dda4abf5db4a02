"""How far releases of a software move the time of the same step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsim.record import Record
from trnsim.study.validation.measurements import set_of, time_s

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from trnsim.study.measured import MeasuredRow
    from trnsim.study.validation.groups import GroupFile

__all__ = ["Releases", "releases"]


class Releases(Record):
    """Older releases beside the newest, on one configuration of the same size.

    Parameters
    ----------
    group, configuration
        The set, and the configuration in words.
    newest
        The release that counts.
    rows
        Measured steps of older releases.
    least, most
        Their shortest and longest time, over that of the newest.
    """

    group: str
    configuration: str
    newest: str
    rows: int
    least: float
    most: float


def releases(
    newest: Iterable[MeasuredRow], older: Iterable[MeasuredRow], known: Mapping[str, GroupFile]
) -> Iterator[Releases]:
    """Yield the spread of each configuration that has older releases; steps of another size are left out."""
    times: dict[tuple[object, ...], list[float]] = {}
    for row in older:
        found_s = time_s(row, known.get(set_of(row)))
        if not isinstance(found_s, str):
            times.setdefault(_step(row, known), []).append(found_s)
    for row in newest:
        counts_s, found = time_s(row, known.get(set_of(row))), times.get(_step(row, known))
        if found and not isinstance(counts_s, str):
            yield Releases(
                group=row.group,
                configuration=", ".join(f"{name} {cell}" for name, cell in _configuration(row, known).items()),
                newest=row.software,
                rows=len(found),
                least=min(found) / counts_s,
                most=max(found) / counts_s,
            )


def _configuration(row: MeasuredRow, known: Mapping[str, GroupFile]) -> dict[str, object]:
    return {name: getattr(row, name) for name in known[set_of(row)].newest_of}


def _step(row: MeasuredRow, known: Mapping[str, GroupFile]) -> tuple[object, ...]:
    """Return what tells the steps of a set apart: its configuration and its size."""
    return (set_of(row), *_configuration(row, known).values(), row.dp, row.accelerators, row.seq, row.global_batch)
