"""What a cohort did and when, kept compactly: three integers and a reference for each operation."""

from __future__ import annotations

import struct
from array import array
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from trnsim.engine.operations import Operation


_packed = struct.Struct("3q").pack
_NAME = attrgetter("name")


class Row(NamedTuple):
    """One performed operation; times in picoseconds since the start of the run."""

    operation: Operation
    start_ps: int
    ready_ps: int
    end_ps: int


class Log:
    """The operations of one track in the order in which they were performed.

    Attributes
    ----------
    operations
        The operations.
    times_ps
        Start, ready and end of each operation, flattened (shape ``3 * len(operations)``).
    """

    __slots__ = ("operations", "times_ps")

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.times_ps = array("q")

    def __len__(self) -> int:
        return len(self.operations)

    def add(self, operation: Operation, start_ps: int, ready_ps: int, end_ps: int) -> None:
        """Append one row.

        Raises
        ------
        OverflowError
            If a time does not fit into 64 bits.
        """
        self.operations.append(operation)
        try:
            self.times_ps.frombytes(_packed(start_ps, ready_ps, end_ps))  # half of what `extend` takes
        except struct.error:
            raise OverflowError(f"{end_ps} ps do not fit into 64 bits") from None

    def names(self, first: int = 0) -> str:
        """Return the names of the operations from number `first` on, each on a line of its own."""
        return "\n".join(map(_NAME, self.operations[first:]))

    def extend(self, other: Log) -> None:
        """Append all rows of another log."""
        self.operations += other.operations
        self.times_ps += other.times_ps

    def later(self, later_ps: int) -> Log:
        """Return the log with all times later."""
        found = Log()
        found._add_rows(self, 0, len(self), later_ps)
        return found

    def repeated(self, repeats: Iterable[tuple[int, int, int, int]]) -> Log:
        """Return the log with some rows repeated, and what follows them later.

        Parameters
        ----------
        repeats
            In order: first row, row behind the last, how many times they are added, how much later they are each time.
        """
        found, cursor, later_ps = Log(), 0, 0
        for first, end, times, period_ps in repeats:
            found._add_rows(self, cursor, end, later_ps)
            for _ in range(times):
                later_ps += period_ps
                found._add_rows(self, first, end, later_ps)
            cursor = end
        found._add_rows(self, cursor, len(self), later_ps)
        return found

    def _add_rows(self, other: Log, first: int, end: int, later_ps: int) -> None:
        self.operations += other.operations[first:end]
        self.times_ps.extend([time_ps + later_ps for time_ps in other.times_ps[3 * first : 3 * end]])

    def set_times(self, number: int, start_ps: int, ready_ps: int, end_ps: int) -> None:
        """Correct the times of a row."""
        self.times_ps[3 * number : 3 * number + 3] = array("q", (start_ps, ready_ps, end_ps))

    def rows(self, first: int = 0) -> Iterator[Row]:
        """Yield the rows from number `first` on."""
        times = self.times_ps
        for index in range(first, len(self.operations)):
            yield Row(self.operations[index], times[3 * index], times[3 * index + 1], times[3 * index + 2])
