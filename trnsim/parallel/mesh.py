"""The mesh of ranks: named axes, their order, and the groups along them."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING

from trnsim.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

AXES = ("tp", "cp", "pp", "ep", "dp")


class Group(Record):
    """Ranks that differ along one axis of the mesh: an arithmetic progression.

    Parameters
    ----------
    first
        Lowest rank of the group. >= 0.
    stride
        Distance between two neighbours, in ranks. >= 1.
    size
        Number of members. >= 1.

    Examples
    --------
    >>> list(Group(first=3, stride=8, size=4).members())
    [3, 11, 19, 27]
    """

    first: int
    stride: int
    size: int

    def members(self) -> Iterator[int]:
        """Yield the ranks in the order of their coordinate."""
        return iter(range(self.first, self.first + self.stride * self.size, self.stride))


class Mesh(Record, dict=True):
    """Ranks arranged on named axes, the first axis of `order` innermost.

    Parameters
    ----------
    sizes
        Members along each axis. Axes that are left out have size 1.
    order
        Axes from the innermost (consecutive ranks) to the outermost.

    Raises
    ------
    ValueError
        If a size is below 1 or an axis above 1 is missing from `order`.

    Examples
    --------
    >>> mesh = Mesh({"tp": 8, "pp": 9, "dp": 32}, ("tp", "cp", "pp", "dp"))
    >>> mesh.ranks, mesh.stride("pp"), mesh.stride("dp")
    (2304, 8, 72)
    >>> mesh.rank({"tp": 1, "pp": 2, "dp": 3})
    233
    >>> mesh.coordinates(233)
    {'tp': 1, 'cp': 0, 'pp': 2, 'dp': 3}
    """

    sizes: Mapping[str, int]
    order: tuple[str, ...]

    def __post_init__(self) -> None:
        bad = [axis for axis, size in self.sizes.items() if size < 1 or (size > 1 and axis not in self.order)]
        if bad:
            raise ValueError(f"axes {bad} need a size of at least 1 and a place in the order {list(self.order)}")

    @cached_property
    def _strides(self) -> dict[str, int]:
        strides, stride = {}, 1
        for axis in self.order:
            strides[axis] = stride
            stride *= self.sizes.get(axis, 1)
        return strides

    @cached_property
    def _axes(self) -> tuple[tuple[str, int, int], ...]:
        """Name, stride and size of each axis of the order."""
        return tuple((axis, self._strides[axis], self.size(axis)) for axis in self.order)

    @cached_property
    def ranks(self) -> int:
        """Number of ranks: the product of all sizes."""
        return math.prod(self.sizes.values())

    def size(self, axis: str) -> int:
        """Members along an axis."""
        return self.sizes.get(axis, 1)

    def stride(self, axis: str) -> int:
        """Distance in ranks between neighbours along an axis."""
        found = self._strides.get(axis)
        return self.ranks if found is None else found

    def rank(self, coordinates: Mapping[str, int]) -> int:
        """Return the rank at the given coordinates; axes that are left out are at 0."""
        strides, ranks = self._strides, self.ranks
        return sum(at * strides.get(axis, ranks) for axis, at in coordinates.items())

    def coordinates(self, rank: int) -> dict[str, int]:
        """Return the coordinate of a rank along every axis of the order."""
        return {axis: rank // stride % size for axis, stride, size in self._axes}

    def group(self, axis: str, rank: int) -> Group:
        """Return the group of `rank` along an axis."""
        stride, size = self.stride(axis), self.size(axis)
        return Group(rank - rank // stride % size * stride, stride, size)

    def label(self, rank: int) -> str:
        """Name a rank by its coordinates, as the stall report does.

        Examples
        --------
        >>> Mesh({"tp": 8, "pp": 4, "dp": 64}, ("tp", "pp", "dp")).label(1432)
        'dp44.pp3.tp0'
        """
        found = self.coordinates(rank)
        return ".".join(
            f"{axis}{found[axis]}"
            for axis in ("dp", "pp", "cp", "tp")
            if axis in found and (axis != "cp" or self.size("cp") > 1)
        )
