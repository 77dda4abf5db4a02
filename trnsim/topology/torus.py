"""Arithmetic of a torus: chips are numbered with the first axis fastest, and a route never needs a search."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["torus_cables", "torus_coordinates", "torus_path"]


def torus_coordinates(chip: int, dims: tuple[int, ...]) -> tuple[int, ...]:
    """Return the place of a chip on each axis: chip = x + X y + X Y z.

    Parameters
    ----------
    chip
        Number of the chip. 0 <= chip < product of `dims`.
    dims
        Chips along each axis. Each >= 1.

    Examples
    --------
    >>> torus_coordinates(27, (4, 4, 4))
    (3, 2, 1)
    """
    place = []
    for size in dims:
        chip, coordinate = divmod(chip, size)
        place.append(coordinate)
    return tuple(place)


def torus_cables(dims: tuple[int, ...], axis: int) -> Iterator[tuple[int, int]]:
    """Yield each cable of an axis once: a chip, and the next one in the positive direction.

    An axis of n chips is a ring of n cables; of two chips, one cable; of one chip, none.

    Examples
    --------
    >>> list(torus_cables((3, 2), 0))
    [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)]
    >>> list(torus_cables((3, 2), 1))
    [(0, 3), (1, 4), (2, 5)]
    """
    size = dims[axis]
    for chip in range(math.prod(dims)):
        if size > 2 or torus_coordinates(chip, dims)[axis] < size - 1:
            yield chip, _neighbour(chip, axis, 1, dims)


def torus_path(start: int, end: int, dims: tuple[int, ...]) -> tuple[int, ...]:
    """Return the chips from `start` to `end`, both included, in dimension order.

    The first axis is corrected first, each axis the shorter way round; of two equal ways the positive one.

    Parameters
    ----------
    start, end
        Numbers of the two chips. Each 0 <= chip < product of `dims`.
    dims
        Chips along each axis. Each >= 1.

    Examples
    --------
    >>> torus_path(0, 27, (4, 4, 4))  # one step back in x, two forward in y (a tie), one forward in z
    (0, 3, 7, 11, 27)

    References
    ----------
    Dally and Seitz, IEEE Trans. Computers C-36(5), 1987, doi:10.1109/TC.1987.1676939 (dimension-order routing)
    """
    path = [start]
    ends = zip(torus_coordinates(start, dims), torus_coordinates(end, dims), dims, strict=True)
    for axis, (here, there, size) in enumerate(ends):
        forward = (there - here) % size
        step = 1 if 2 * forward <= size else -1
        for _ in range(min(forward, size - forward)):
            path.append(_neighbour(path[-1], axis, step, dims))
    return tuple(path)


def _neighbour(chip: int, axis: int, step: int, dims: tuple[int, ...]) -> int:
    stride = math.prod(dims[:axis])
    coordinate = chip // stride % dims[axis]
    return chip + ((coordinate + step) % dims[axis] - coordinate) * stride
