"""What a cohort did and when: written down as two integers for each operation, read as three and the operation."""

from __future__ import annotations

import struct
from array import array
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from trnsim.engine.operations import Operation


_packed = struct.Struct("3q").pack
_packed_end = struct.Struct("2q").pack
_NAME = attrgetter("name")
_NOTHING = array("q")


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


class Journal:
    """What a cohort does, as it writes it down.

    An operation mostly begins when the one before it ends, so only other starts are kept. Which operations they are is kept
    once for all that do the same from the beginning on.

    Parameters
    ----------
    like
        Of another cohort, which probably does the same; None if there is none.

    Attributes
    ----------
    operations
        What it has written down, and maybe more that others have which did the same so far.
    end_ps
        When the last operation ended; 0 before the first.

    Examples
    --------
    >>> from trnsim.engine import Wait
    >>> journal, wait = Journal(), Wait("receive", "bubble", "exposed_pp")
    >>> journal.add(wait, 0, 3, 5)
    >>> journal.add(wait, 7, 7, 9)
    >>> [tuple(row[1:]) for row in journal.log.rows()]
    [(0, 3, 5), (7, 7, 9)]
    """

    __slots__ = ("_starts_ps", "_times_ps", "end_ps", "operations")

    def __init__(self, like: Journal | None = None) -> None:
        self.operations: list[Operation] = [] if like is None else like.operations
        self.end_ps = 0
        self._times_ps = _NOTHING  # ready and end of each
        self._starts_ps = _NOTHING  # number and start of those that do not begin when the one before ends

    @classmethod
    def of(cls, log: Log) -> Journal:
        """Return the journal from which a log can be read."""
        found = cls()
        found.end_ps = log.times_ps[-1] if len(log) else 0
        found.operations, times_ps = log.operations, log.times_ps
        found._times_ps = array("q", bytes(16 * len(log)))
        found._times_ps[0::2], found._times_ps[1::2] = times_ps[1::3], times_ps[2::3]
        starts_ps, foreseen_ps = times_ps[0::3], array("q", [0]) + times_ps[2::3]
        if starts_ps != foreseen_ps[:-1]:
            pairs = enumerate(zip(starts_ps, foreseen_ps, strict=False))
            apart = [(row, start_ps) for row, (start_ps, before_ps) in pairs if start_ps != before_ps]
            found._starts_ps = array("q", chain.from_iterable(apart))
        return found

    def __len__(self) -> int:
        return len(self._times_ps) // 2

    @property
    def log(self) -> Log:
        """All that is written down."""
        found, rows, written_ps = Log(), len(self), self._times_ps
        found.operations = self.operations[:rows]
        times_ps = found.times_ps = array("q", bytes(24 * rows))
        times_ps[1::3], times_ps[2::3] = written_ps[0::2], written_ps[1::2]
        times_ps[3::3] = written_ps[1:-1:2]
        for row, start_ps in zip(self._starts_ps[0::2], self._starts_ps[1::2], strict=True):
            times_ps[3 * row] = start_ps
        return found

    def add(self, operation: Operation, start_ps: int, ready_ps: int, end_ps: int) -> None:
        """Write down one operation.

        Raises
        ------
        OverflowError
            If a time does not fit into 64 bits.
        """
        times_ps = self._times_ps
        row = len(times_ps) // 2
        try:
            if self.operations[row] is not operation:
                self.operations = [*self.operations[:row], operation]
        except IndexError:
            self.operations.append(operation)
        if not row:
            times_ps = self._times_ps = array("q")
        if start_ps != self.end_ps:
            if not self._starts_ps:
                self._starts_ps = array("q")
            self._starts_ps.extend((row, start_ps))
        self.end_ps = end_ps
        try:
            times_ps.frombytes(_packed_end(ready_ps, end_ps))  # two thirds of what it takes to append both
        except struct.error:
            raise OverflowError(f"{end_ps} ps do not fit into 64 bits") from None
