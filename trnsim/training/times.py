"""Times of what comes one after the other, many of which are kept until the end of a run: as few as possible, packed."""

from __future__ import annotations

import zlib
from array import array
from functools import lru_cache
from itertools import accumulate
from operator import sub
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Cut", "Times", "pack"]


class Cut(NamedTuple):
    """Times that come again: from number `first` to `end`, so many times, each time later by a period."""

    first: int
    end: int
    times: int
    period_ps: int


class Times:
    """Times in picoseconds, of which some come again and are kept once.

    Attributes
    ----------
    cuts
        Those that come again.

    Examples
    --------
    >>> times = Times()
    >>> times.kept.extend([1, 2, 4, 9])
    >>> times.cuts = (Cut(1, 3, times=2, period_ps=10),)
    >>> times.later(100)
    [101, 102, 104, 112, 114, 122, 124, 129]
    """

    __slots__ = ("_kept", "_packed", "cuts")

    def __init__(self) -> None:
        self.cuts: tuple[Cut, ...] = ()
        self._kept = array("q")
        self._packed: tuple[_Packed, int, int] | None = None

    @property
    def kept(self) -> array[int]:
        """Those that are kept; to be added to until they are packed."""
        if self._packed is None:
            return self._kept
        packed, first, end = self._packed
        return _unpacked(packed)[first:end]

    def __len__(self) -> int:
        return len(self.kept) + self._again

    @property
    def _again(self) -> int:
        """How many of them are not kept."""
        return sum(cut.times * (cut.end - cut.first) for cut in self.cuts)

    def until(self, count: int, later_ps: int) -> Times:
        """Return so many of them, each so much later; they reach behind all that come again."""
        found = Times()
        found.kept.extend([time_ps + later_ps for time_ps in self.kept[: count - self._again]])
        found.cuts = self.cuts
        return found

    def after_cuts(self, later_ps: int) -> tuple[int, list[int]]:
        """Return those behind all that come again, each so much later than it is kept, and how many there are before them."""
        first = self.cuts[-1].end if self.cuts else 0
        return first + self._again, [time_ps + later_ps for time_ps in self.kept[first:]]

    @property
    def first_ps(self) -> int:
        """The first of them."""
        return self._kept[0]

    def put_away(self, packed: _Packed, first: int, end: int) -> None:
        """Keep the first only; all are from number `first` to `end` of what is packed."""
        self._packed, self._kept = (packed, first, end), self._kept[:1]

    def later(self, later_ps: int) -> list[int]:
        """Return all of them, each so much later."""
        found: list[int] = []
        kept, cursor = self.kept, 0
        for first, end, times, period_ps in self.cuts:
            found += [time_ps + later_ps for time_ps in kept[cursor:end]]
            period = [time_ps + later_ps for time_ps in kept[first:end]]
            found += [time_ps + number * period_ps for number in range(1, times + 1) for time_ps in period]
            cursor = end
            later_ps += times * period_ps
        found += [time_ps + later_ps for time_ps in kept[cursor:]]
        return found


class _Packed:
    """Many times, packed: the steps from each to the next repeat each other far more than the times do."""

    __slots__ = ("packed",)

    def __init__(self, times_ps: array[int]) -> None:
        steps_ps = array("q", times_ps[:1])
        steps_ps.extend(map(sub, times_ps[1:], times_ps))
        self.packed = zlib.compress(steps_ps, level=1)


@lru_cache(maxsize=2)
def _unpacked(packed: _Packed) -> array[int]:
    return array("q", accumulate(array("q", zlib.decompress(packed.packed))))


def pack(every: Iterable[Times]) -> None:
    """Put times away together, as nothing will be added to them.

    Examples
    --------
    >>> few, many = Times(), Times()
    >>> few.kept.append(7)
    >>> many.kept.extend(range(2000))
    >>> pack([few, many])
    >>> few.later(1), many.first_ps, many.kept == array("q", range(2000))
    ([8], 0, True)
    """
    every = list(every)
    times_ps = array("q")
    places = []
    for each in every:
        places.append((len(times_ps), len(times_ps) + len(each.kept)))
        times_ps += each.kept
    packed = _Packed(times_ps)
    for each, place in zip(every, places, strict=True):
        each.put_away(packed, *place)
