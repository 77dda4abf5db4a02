"""Tables for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

__all__ = ["aligned"]


def aligned(table: Sequence[Sequence[str]], words: Collection[str]) -> Iterator[str]:
    r"""Yield the lines of a table: numbers to the right, words to the left.

    Parameters
    ----------
    table
        Rows of as many cells; the first has the heads.
    words
        Heads of columns that hold words.

    Examples
    --------
    >>> print("\n".join(aligned([["set", "rows"], ["trn1", "8"]], {"set"})))
    set   rows
    trn1     8
    """
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    sides: list[Callable[[str, int], str]] = [str.ljust if name in words else str.rjust for name in table[0]]
    for row in table:
        cells = (side(cell, width) for cell, width, side in zip(row, widths, sides, strict=True))
        yield "  ".join(cells).rstrip()
