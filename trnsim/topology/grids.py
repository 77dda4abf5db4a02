"""Rings, tori, meshes and hypercubes as networks: chips on axes, and routes in dimension order."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from trnsim.record import Record
from trnsim.topology.bisections import mesh_bisection, torus_bisection
from trnsim.topology.network import Network, Routes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Whole = NDArray[np.int64]

__all__ = ["Grid", "grid_network"]


class Grid(Record, eq=False):
    """Chips along axes, the first axis fastest, each joined to the next one on every axis.

    An axis that wraps is a ring of n cables, of two chips one cable; one that does not is a line of n - 1 cables.

    Parameters
    ----------
    dims
        Chips along each axis. Each >= 1.
    wraps
        Whether the last chip of an axis is joined to the first.
    split
        Whether a transfer over an even ring to the chip opposite is halved between the two ways round; if not, it
        takes the positive one.

    Examples
    --------
    >>> [Grid(dims, wraps=True).links for dims in ((4, 4, 4), (2, 2, 2), (6,))]
    [384, 24, 12]
    """

    dims: tuple[int, ...]
    wraps: bool
    split: bool = True

    @property
    def chips(self) -> int:
        """Number of chips."""
        return math.prod(self.dims)

    @property
    def links(self) -> int:
        """Number of directed links."""
        return int((self.link_table() >= 0).sum())

    def coordinates(self, chips: Whole) -> Whole:
        """Return the place of chips on each axis: one row per axis."""
        strides = np.array([math.prod(self.dims[:axis]) for axis in range(len(self.dims))])
        return np.asarray(chips // strides[:, None] % np.array(self.dims)[:, None])

    def link_table(self) -> Whole:
        """Return the link that leaves a chip: by axis, direction (0 up, 1 down) and chip; -1 where there is none."""
        place, last = self.coordinates(np.arange(self.chips)), np.array(self.dims)[:, None] - 1
        ring = self.wraps & (last > 1)
        up = (place < last) | ring | (self.wraps & (last == 1))
        down = ((place > 0) & (not self.wraps)) | ring
        present = np.stack([up, down], axis=1)
        table = np.full(present.shape, -1, dtype=np.int64)
        table[present] = np.arange(present.sum())
        return table

    def steps(self, sources: Whole, targets: Whole) -> tuple[Whole, NDArray[np.bool_]]:
        """Return the signed steps on each axis, and where the other way round is as short and is used too."""
        ahead = self.coordinates(targets) - self.coordinates(sources)
        if not self.wraps:
            return ahead, np.zeros(ahead.shape, dtype=bool)
        size = np.array(self.dims)[:, None]
        ahead %= size
        return np.where(2 * ahead <= size, ahead, ahead - size), self.split & (2 * ahead == size) & (size > 2)

    def paths(self, sources: Whole, targets: Whole) -> tuple[Whole, Whole, Whole]:
        """Return the transfer of each path, its parts, and its signed steps on each axis."""
        steps, tied = self.steps(sources, targets)
        parts = np.asarray(1 << tied.sum(axis=0))
        transfer = np.repeat(np.arange(len(sources)), parts)
        choice = np.arange(len(transfer)) - np.repeat(np.cumsum(parts) - parts, parts)
        steps, tied = steps[:, transfer], tied[:, transfer]
        for axis, ties in enumerate(tied):
            steps[axis, ties & (choice % 2 == 1)] *= -1
            choice >>= ties
        return transfer, parts[transfer], steps

    def routes(self, sources: Whole, targets: Whole, table: Whole) -> Routes:
        """Return routes in dimension order, the first axis first.

        Parameters
        ----------
        sources, targets
            Chips.
        table
            As :meth:`link_table` gives it.

        References
        ----------
        Dally and Seitz, IEEE Trans. Computers C-36(5), 1987, doi:10.1109/TC.1987.1676939 (dimension-order routing)
        """
        transfer, parts, steps = self.paths(sources, targets)
        counts = np.abs(steps)
        lengths = counts.sum(axis=0)
        link = np.empty(lengths.sum(), dtype=np.int64)
        here, ends = sources[transfer], targets[transfer]
        start = np.cumsum(lengths) - lengths
        for axis, size in enumerate(self.dims):
            count, stride = counts[axis], math.prod(self.dims[:axis])
            path = np.repeat(np.arange(len(count)), count)
            done = np.arange(len(path)) - np.repeat(np.cumsum(count) - count, count)
            place = here // stride % size
            moved = (place[path] + np.sign(steps[axis])[path] * done) % size
            chip = here[path] + (moved - place[path]) * stride
            link[start[path] + done] = table[axis, (steps[axis] < 0).astype(np.int64)[path], chip]
            here = here + (ends // stride % size - place) * stride
            start = start + count
        return Routes.from_lengths(transfer, parts, lengths, link)


def grid_network(name: str, grid: Grid, bandwidth_bytes_per_s: float, latency_s: float) -> Network:
    """Make a network of a grid; each direction of each cable is one link.

    Parameters
    ----------
    name
        As the user wrote it.
    grid
        Chips and cables.
    bandwidth_bytes_per_s, latency_s
        Of each link.

    Examples
    --------
    >>> torus = grid_network("torus:4x4x4", Grid((4, 4, 4), wraps=True), 50e9, 500e-9)
    >>> torus.routes([0], [1]).lengths.tolist(), torus.routes([0], [2]).parts.tolist()
    ([1], [2, 2])
    """
    table = grid.link_table()
    axis, way, chip = (np.ascontiguousarray(ends) for ends in np.nonzero(table >= 0))
    links, rate = len(chip), round(bandwidth_bytes_per_s)

    def router(sources: Whole, targets: Whole) -> Routes:
        return grid.routes(sources, targets, table)

    def namer(link: int) -> str:
        size, stride = grid.dims[axis[link]], math.prod(grid.dims[: axis[link]])
        place = int(chip[link]) // stride % size
        moved = (place + (-1 if way[link] else 1)) % size
        return f"chip {chip[link]} -> chip {int(chip[link]) + (moved - place) * stride}"

    return Network(
        name=name,
        endpoints=grid.chips,
        kinds=("link",),
        kind=np.zeros(links, dtype=np.int16),
        bytes_per_s=np.full(links, rate, dtype=np.int64),
        latency_s=np.full(links, latency_s),
        orbit=np.unique(2 * axis + way, return_inverse=True)[1] if grid.wraps or grid.chips == 1 else None,
        reduces=False,
        uplinks=np.arange(links),
        router=router,
        namer=namer,
        bisection=torus_bisection(grid.dims, [rate] * len(grid.dims))
        if grid.wraps
        else mesh_bisection(grid.dims, rate),
    )
