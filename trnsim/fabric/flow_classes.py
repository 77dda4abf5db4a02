"""Which paths and which links behave alike, so that a few classes stand for a million flows.

Paths start with a colour (what they carry, and when they begin), links with their capacity. A link's next colour is its
colour with how much the paths of every colour load it; a path's next colour is its colour with the colours of its links.
When no round splits a class, all paths of a class have the same rate under fair sharing at every instant: by induction
over the rounds of progressive filling, the links of a class are equally full and close together.

References
----------
Paige and Tarjan, Three partition refinement algorithms, SIAM J. Comput. 16(6), 1987, doi:10.1137/0216062
"""

from __future__ import annotations

from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from trnsim.record import Record

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]
    Hashes = NDArray[np.uint64]

__all__ = ["Crossings", "FlowClasses", "UnsettledError", "fold", "fold_by_orbits"]


class Crossings(Record, eq=False, dict=True):
    """Paths over links, as a list of crossings.

    Parameters
    ----------
    first
        Per path, and one more for the end: where its crossings begin. Every path crosses a link.
    link
        Per crossing: the link, 0 .. links - 1. A path may cross a link more than once.
    weight
        Per crossing: how often the link is touched per byte. >= 1.
    """

    first: Integers
    link: Integers
    weight: Integers

    @cached_property
    def path(self) -> Integers:
        """Per crossing: its path."""
        return np.repeat(np.arange(len(self.first) - 1), np.diff(self.first))


class FlowClasses(Record, eq=False):
    """Paths and links by class.

    Parameters
    ----------
    path_class, link_class
        Class of each path and of each link; -1 for a link that no path crosses.
    path, link
        Of each class, one path or link that stands for it.
    counts
        Paths in each class.
    weights
        Of each flow class, link class to the load on ONE link of it by ALL paths of the flow class, per byte of one path.
    """

    path_class: Integers
    link_class: Integers
    path: Integers
    link: Integers
    counts: Integers
    weights: tuple[dict[int, int], ...]


class UnsettledError(Exception):
    """Paths that do not meet differ by how far they are from an exception, and there is no end to that."""


def fold(colour: Integers, crossings: Crossings, capacity: Integers, most_rounds: int | None = None) -> FlowClasses:
    """Find the classes of paths and links that fair sharing treats alike.

    Colours are refined by sums of hashes, and the partition that comes out is then checked exactly; should two hashes
    ever collide, it is done again with others.

    Parameters
    ----------
    colour
        Per path: paths of one colour carry as much and begin at the same time.
    crossings
        The links of each path.
    capacity
        Per link.
    most_rounds
        How often classes may be split; None: until none is.

    Returns
    -------
    FlowClasses

    Raises
    ------
    UnsettledError
        If classes are still being split after `most_rounds`.

    Examples
    --------
    Two paths share link 0 and go on over links that are alike.

    >>> pair = Crossings(np.array([0, 2, 4]), np.array([0, 1, 0, 2]), np.array([1, 1, 1, 1]))
    >>> found = fold(np.array([0, 0]), pair, np.array([10, 7, 7]))
    >>> found.counts.tolist(), [sorted(weights.values()) for weights in found.weights]
    ([2], [[1, 2]])
    """
    if not len(colour):
        none = np.zeros(0, dtype=np.int64)
        return FlowClasses(none, np.full(len(capacity), -1, dtype=np.int64), none, none, none, ())
    used, link = np.unique(crossings.link, return_inverse=True)
    compact = Crossings(crossings.first, link.astype(np.int64), crossings.weight)
    capacities = np.unique(capacity[used], return_inverse=True)[1].astype(np.int64)
    colours = np.unique(colour, return_inverse=True)[1].astype(np.int64)
    for salt in count():
        paths, links = _refine(colours, compact, capacities, salt, most_rounds)
        if _is_equitable(compact, colours, capacities, paths, links):
            break
    link_class = np.full(len(capacity), -1, dtype=np.int64)
    link_class[used] = links
    path_first, counts = np.unique(paths, return_index=True, return_counts=True)[1:]
    link_first = np.unique(links, return_index=True)[1]
    weights = _weights_on(link_first, compact, paths)
    return FlowClasses(paths, link_class, path_first, used[link_first], counts, weights)


def fold_by_orbits(colour: Integers, crossings: Crossings, orbit: Integers, endpoints: int) -> FlowClasses:
    """Find the classes of paths and links where symmetries carry every endpoint into every other.

    Parameters
    ----------
    colour
        Per path from endpoint 0, as in `fold`. All other endpoints send the images of these paths.
    crossings
        The links of each path from endpoint 0.
    orbit
        Of every link, its class under the symmetries.
    endpoints
        How many there are.

    Returns
    -------
    FlowClasses
        `path_class` of the paths from endpoint 0, `counts` of those of all endpoints.
    """
    first_of_orbit, orbit, members = np.unique(orbit, return_index=True, return_inverse=True, return_counts=True)[1:]
    on_orbits = Crossings(crossings.first, orbit[crossings.link], crossings.weight)
    each = np.arange(len(members))
    used = np.unique(on_orbits.link)
    key = _mix(colour, 0) + _sum_by_path(on_orbits, _mix(each, 1)[on_orbits.link])
    path_first, paths, counts = np.unique(key, return_index=True, return_inverse=True, return_counts=True)[1:]
    table = np.zeros((len(path_first), len(members)), dtype=np.int64)
    np.add.at(table, (paths[on_orbits.path], on_orbits.link), on_orbits.weight)
    loads, rest = np.divmod(table * endpoints, members)
    if rest.any():
        raise ValueError("the classes of links are not those of a symmetry that carries any endpoint into any other")
    weights = tuple({int(link): int(row[link]) for link in np.flatnonzero(row)} for row in loads)
    link_class = np.where(np.isin(orbit, used), orbit, -1)
    return FlowClasses(paths, link_class, path_first, first_of_orbit, counts * endpoints, weights)


def _mix(values: Integers, salt: int) -> Hashes:
    """Scatter numbers over 64 bits (the finaliser of SplitMix64, doi:10.1145/2660193.2660195)."""
    mixed = values.astype(np.uint64) + np.uint64((salt + 1) * 0x9E3779B97F4A7C15 % 2**64)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def _sum_by_path(crossings: Crossings, values: Hashes) -> Hashes:
    """Sum over the crossings of each path, modulo 2**64: stands for the multiset of the values."""
    return np.add.reduceat(values, crossings.first[:-1])


def _refine(
    path: Integers, crossings: Crossings, link: Integers, salt: int, most_rounds: int | None
) -> tuple[Integers, Integers]:
    """Split classes of paths and links until no round splits one; give up after so many."""
    by_link = np.argsort(crossings.link, kind="stable")
    first_of_link = np.flatnonzero(np.diff(crossings.link[by_link], prepend=-1))
    path_by_link, weight = crossings.path[by_link], crossings.weight[by_link].astype(np.uint64)
    before, classes, rounds = -1, int(path.max() + link.max()), 0
    while before < classes:
        if rounds == most_rounds:
            raise UnsettledError(f"classes are still being split after {rounds} rounds")
        loads = np.add.reduceat(_mix(path, 4 * salt)[path_by_link] * weight, first_of_link)
        link = _distinct(_mix(link, 4 * salt + 1) + loads)
        path = _distinct(_mix(path, 4 * salt + 2) + _sum_by_path(crossings, _mix(link, 4 * salt + 3)[crossings.link]))
        before, classes, rounds = classes, int(path.max() + link.max()), rounds + 1
    return path, link


def _distinct(keys: Hashes) -> Integers:
    return np.unique(keys, return_inverse=True)[1].astype(np.int64)


def _is_equitable(
    crossings: Crossings, colours: Integers, capacities: Integers, paths: Integers, links: Integers
) -> bool:
    """Compare every path and every link with the first one of its class."""
    over = _rows(crossings.path, links[crossings.link], np.ones_like(crossings.weight), len(paths))
    loads = _rows(crossings.link, paths[crossings.path], crossings.weight, len(links))
    return _alike(paths, colours, over) and _alike(links, capacities, loads)


Rows = tuple["Integers", "Integers", "Integers"]


def _rows(row: Integers, column: Integers, value: Integers, rows: int) -> Rows:
    """Return the sums of values by row and column: where each row begins, and columns with sums, row after row."""
    width = int(column.max()) + 1
    keys, where = np.unique(row * width + column, return_inverse=True)
    sums = np.bincount(where, value, len(keys)).astype(np.int64)
    return np.searchsorted(keys // width, np.arange(rows + 1)), keys % width, sums


def _alike(classes: Integers, given: Integers, rows: Rows) -> bool:
    """Whether all members of a class were given the same number and have the same row."""
    first, column, value = rows
    model = np.unique(classes, return_index=True)[1][classes]
    lengths = np.diff(first)
    if (given != given[model]).any() or (lengths != lengths[model]).any():
        return False
    same = np.repeat(first[model] - first[:-1], lengths) + np.arange(len(column))
    return bool((column == column[same]).all() and (value == value[same]).all())


def _weights_on(chosen: Integers, crossings: Crossings, paths: Integers) -> tuple[dict[int, int], ...]:
    """Return, for every flow class, its load on the chosen link of each link class."""
    number = np.full(int(crossings.link.max()) + 1, -1, dtype=np.int64)
    number[chosen] = np.arange(len(chosen))
    kept = np.flatnonzero(number[crossings.link] >= 0)
    first, columns, sums = _rows(
        paths[crossings.path[kept]], number[crossings.link[kept]], crossings.weight[kept], int(paths.max()) + 1
    )
    pairs = list(zip(columns.tolist(), sums.tolist(), strict=True))
    return tuple(dict(pairs[start:end]) for start, end in zip(first[:-1].tolist(), first[1:].tolist(), strict=True))
