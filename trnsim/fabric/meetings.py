"""Counting, without listing them, in which tier of a fabric the pairs of a regular pattern meet.

Endpoints are numbered; a switch group of tier t serves the endpoints of one block of `blocks[t]` numbers, and the
blocks of a tier hold whole blocks of the tier below. A pair meets in the lowest tier in which both are in one block.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

__all__ = ["Line", "count_by_tier", "count_everyone_by_tier", "count_within", "shift_lines"]


class Line(NamedTuple):
    """Pairs (source + k step, target + k step) for k = 0 .. pairs - 1.

    Parameters
    ----------
    source, target
        The first pair. Each >= 0.
    step
        >= 0.
    pairs
        >= 1.
    """

    source: int
    target: int
    step: int
    pairs: int


def count_by_tier(lines: Iterable[Line], blocks: Sequence[int]) -> Counter[int]:
    """Count the pairs of lines of endpoints by the tier in which they meet.

    Parameters
    ----------
    lines
        Pairs of different endpoints.
    blocks
        Endpoints of a block in each tier; the last block holds all.

    Examples
    --------
    Neighbours 0-1, 1-2, ..., 6-7 below switches of 4: only 3-4 meets in the tier above.

    >>> count_by_tier([Line(0, 1, 1, 7)], blocks=[4, 8])
    Counter({0: 6, 1: 1})
    """
    counts: Counter[int] = Counter()
    for line in lines:
        if line.pairs == 1:
            counts[next(tier for tier, block in enumerate(blocks) if line.source // block == line.target // block)] += 1
            continue
        met = 0
        for tier, block in enumerate(blocks):
            if (within := count_within(line, block)) > met:
                counts[tier] += within - met
                met = within
            if met == line.pairs:
                break
    return counts


def count_everyone_by_tier(endpoints: Sequence[int], chips: int, blocks: Sequence[int]) -> Counter[int]:
    """Count the ordered pairs of endpoints of different servers by the tier in which they meet.

    Parameters
    ----------
    endpoints
        One per member; several members may share one.
    chips
        Endpoints of one server.
    blocks
        Endpoints of a block in each tier; the last block holds all.

    Examples
    --------
    >>> count_everyone_by_tier([0, 1, 2, 3], chips=1, blocks=[2, 4])
    Counter({1: 8, 0: 4})
    """
    counts: Counter[int] = Counter()
    servers = [endpoint // chips for endpoint in endpoints]
    alone = len(set(servers)) == len(servers)
    met = 0
    for tier, block in enumerate(blocks):
        groups = [endpoint // block for endpoint in endpoints]
        at_home = len(groups) if alone else _sum_of_squares(zip(servers, groups, strict=True))
        within = _sum_of_squares(groups) - at_home
        if within > met:
            counts[tier], met = within - met, within
    return counts


def count_within(line: Line, block: int) -> int:
    r"""Count the pairs of a line whose two numbers lie in one block.

    With :math:`x_k` the lower number of a pair and D their difference, a pair lies in one block of size b when
    :math:`x_k \bmod b < b - D`, and that is the difference of :math:`\lfloor x_k / b \rfloor` and
    :math:`\lfloor (x_k - (b - D)) / b \rfloor`.

    Parameters
    ----------
    line
        Pairs of numbers.
    block
        >= 1; blocks begin at its multiples.
    """
    free = block - abs(line.target - line.source)
    if free <= 0:
        return 0
    lower = min(line.source, line.target)
    return _sum_of_floors(line, block, lower) - _sum_of_floors(line, block, lower - free)


def shift_lines(distance: int, span: int, stride: int, size: int) -> Iterator[Line]:
    """Yield lines that together hold every transfer of a shift, see `trnsim.collectives.Shift`.

    Members have three digits: below the circle, on it, above it. The lines run along the one with most values, so
    there are as many lines as the two others have values.

    Parameters
    ----------
    distance
        0 <= distance < span.
    span, stride
        Places of a circle and their distance.
    size
        Members in all, a multiple of ``span * stride``.
    """
    for first, places, moved in ((0, span - distance, distance), (span - distance, distance, distance - span)):
        digits = sorted([(stride, 1), (places, stride), (size // (span * stride), span * stride)])
        (count_a, step_a), (count_b, step_b), (count, step) = digits
        for a in range(count_a):
            for b in range(count_b):
                source = first * stride + a * step_a + b * step_b
                yield Line(source, source + moved * stride, step, count)


def _sum_of_squares(keys: Iterable[Hashable]) -> int:
    """Return the sum over different keys of their number squared."""
    return sum(count**2 for count in Counter(keys).values())


def _sum_of_floors(line: Line, block: int, first: int) -> int:
    """Return the sum of floor((first + k step) / block) over the k of a line, in logarithmic time.

    Whole blocks are taken out; what is left counts the points of a lattice below a line, and exchanging the axes
    makes the numbers smaller as Euclid's algorithm does.
    """
    count, step, total = line.pairs, line.step, 0
    while count:
        total += step // block * (count * (count - 1) // 2) + first // block * count
        step, first = step % block, first % block
        top, first = divmod(first + step * count, block)
        count, block, step = top, step, block
    return total
