"""Where a schedule repeats itself: the same passes in the same order, some microbatches later."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnsim.schedules.order import Pass

__all__ = ["borders", "repeats"]


@lru_cache(maxsize=1024)
def borders(turns: tuple[Pass, ...]) -> frozenset[int]:
    """Return the numbers of the passes that are the first forward or the last backward through a virtual stage.

    Examples
    --------
    >>> from trnsim.schedules import Pass
    >>> sorted(borders((Pass("F", 0, 0), Pass("F", 1, 0), Pass("B", 0, 0), Pass("B", 1, 0))))
    [0, 3]
    """
    numbered = list(enumerate(turns))
    first = {turn.virtual_stage: number for number, turn in reversed(numbered) if turn.kind == "F"}
    last = {turn.virtual_stage: number for number, turn in numbered if turn.kind == "B"}
    return frozenset(first.values()) | frozenset(last.values())


@lru_cache(maxsize=1024)
def repeats(turns: tuple[Pass, ...], first: int, second: int) -> tuple[int, int]:
    """Return how often the passes from one to another come again right behind them, and by how many microbatches later.

    The pass with which the last repetition is left belongs to it as well, and none of them is at a border.

    Parameters
    ----------
    turns
        The passes of a stage, in order.
    first, second
        Numbers of two passes. 0 <= first < second < len(turns).

    Examples
    --------
    1F1B on the last stage, 6 microbatches: F0 B0 F1 B1 and so on. From F1 to F2, passes come again up to F5.

    >>> from trnsim.schedules import Pass
    >>> turns = tuple(Pass(kind, number, 0) for number in range(6) for kind in "FB")
    >>> repeats(turns, 2, 4)
    (3, 1)
    """
    length = second - first
    later = turns[second].microbatch - turns[first].microbatch
    special = borders(turns)
    number = first
    while number + length < len(turns) and _comes_again(turns, number, length, later):
        if number in special or number + length in special:
            break
        number += 1
    return max(0, (number - first - 1) // length), later


def _comes_again(turns: Sequence[Pass], number: int, length: int, later: int) -> bool:
    (kind, microbatch, place), other = turns[number], turns[number + length]
    return (kind, microbatch + later, place) == other
