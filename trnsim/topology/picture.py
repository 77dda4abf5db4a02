"""A picture of a network as data: where its chips and switches stand, and which of them cables join."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnsim.errors import InputError, Problem
from trnsim.record import Record
from trnsim.topology.grids import Grid

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from trnsim.topology.network import Network

    Point = tuple[float, float]
    Pairs = set[tuple[int, int]]
    Rates = dict[tuple[str, str, str], int]

__all__ = ["MOST_LINKS", "MOST_NODES", "Edge", "Node", "Picture", "picture"]

MOST_LINKS = 100_000
"""Directed links of a network that can be drawn, at most."""

MOST_NODES = 1024
"""Nodes of a picture, at most."""


class Node(NamedTuple):
    """A chip, a switch, or a server whose chips are too many to draw.

    Parameters
    ----------
    name
        As links name it.
    kind
        ``chip``, ``server``, or what the switch is called.
    x, y
        Where it stands; neighbours are about 1 apart.
    """

    name: str
    kind: str
    x: float
    y: float


class Edge(NamedTuple):
    """The links between two nodes, of one kind and both directions.

    Parameters
    ----------
    a, b
        Indices of the nodes.
    kind
        Kind of the links.
    bytes_per_s
        What they carry together in the slower direction.
    is_bent
        Whether a straight line would run over other nodes, as it would for the cable that closes a ring.
    """

    a: int
    b: int
    kind: str
    bytes_per_s: int
    is_bent: bool = False


class Picture(Record):
    """Nodes and edges.

    Parameters
    ----------
    title
        Name of the network.
    nodes, edges
        To be drawn.
    """

    title: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]


def picture(network: Network) -> Picture:
    """Lay out a network: grids by their axes, chips without switches on a circle, all else in layers above the chips.

    Where chips and switches are too many, the chips of a server are drawn as one node.

    Parameters
    ----------
    network
        Up to :data:`MOST_LINKS` links.

    Raises
    ------
    InputError
        If there are more links, or more than :data:`MOST_NODES` nodes even so.

    Examples
    --------
    >>> from trnsim.topology.machines import machine
    >>> star = picture(machine("star", endpoints=3, bandwidth_bytes_per_s=50e9, latency_s=250e-9))
    >>> [(node.name, node.x, node.y) for node in star.nodes]
    [('chip 0', 0.0, 0.0), ('chip 1', 1.0, 0.0), ('chip 2', 2.0, 0.0), ('switch', 1.0, 1.0)]
    >>> [(edge.a, edge.b) for edge in star.edges]
    [(0, 3), (1, 3), (2, 3)]
    """
    if network.links > MOST_LINKS:
        raise _refused(network, f"{network.links:,} links are more than the {MOST_LINKS:,} that can be drawn")
    rates = _rates(network)
    if len(_nodes(rates)) > MOST_NODES:
        rates = _with_servers_as_nodes(rates)
    names = _nodes(rates) or ["chip 0"]
    if len(names) > MOST_NODES:
        raise _refused(network, f"{len(names):,} chips and switches are more than the {MOST_NODES:,} that can be drawn")
    points, bent = _layout(names, _pairs_of(names, rates))
    nodes = (Node(name, _kind(name), *point) for name, point in zip(names, points, strict=True))
    return Picture(network.name, tuple(nodes), tuple(_edges(names, rates, bent)))


def _pairs_of(names: Sequence[str], rates: Rates) -> Pairs:
    number = {name: place for place, name in enumerate(names)}
    return {(number[a], number[b]) for a, b, _ in rates}


def _edges(names: Sequence[str], rates: Rates, bent: Pairs) -> Iterator[Edge]:
    number = {name: place for place, name in enumerate(names)}
    for (source, target, kind), rate in rates.items():
        a, b = number[source], number[target]
        if a < b:
            yield Edge(a, b, kind, min(rate, rates.get((target, source, kind), rate)), (a, b) in bent)


def _rates(network: Network) -> Rates:
    """Return what goes from node to node by each kind of links; nothing of what stays inside a chip."""
    rates: Rates = defaultdict(int)
    for link in range(network.links):
        source, arrow, target = network.link_name(link).partition(" -> ")
        if arrow and "/core " not in source:
            rates[source, target, network.kinds[network.kind[link]]] += int(network.bytes_per_s[link])
    return rates


def _with_servers_as_nodes(rates: Rates) -> Rates:
    merged: Rates = defaultdict(int)
    for (source, target, kind), rate in rates.items():
        ends = source.split("/")[0], target.split("/")[0]
        if ends[0] != ends[1]:
            merged[*ends, kind] += rate
    return merged


def _nodes(rates: Rates) -> list[str]:
    """Return chips or servers by their numbers, then the switches as links name them."""
    names = dict.fromkeys(name for ends in rates for name in ends[:2])
    return sorted(names, key=lambda name: _numbers(name) if _is_below(name) else [math.inf])


def _kind(name: str) -> str:
    return name.rpartition("/")[2].partition(" ")[0]


def _is_below(name: str) -> bool:
    return _kind(name) in ("chip", "server")


def _numbers(name: str) -> list[float]:
    return [float(number) for number in re.findall(r"\d+", name)]


def _layout(names: Sequence[str], pairs: Pairs) -> tuple[list[Point], Pairs]:
    """Return where nodes stand, and the pairs between which a straight line would run over others."""
    if not all(map(_is_below, names)):
        return _layers(names, pairs)
    grid = _grid(len(names), pairs)
    if grid is None or (len(grid.dims) == 1 and grid.wraps):
        return _circle(len(names)), set()
    places = grid.coordinates(np.arange(grid.chips)).T
    apart = np.array([np.abs(places[a] - places[b]).max() for a, b in sorted(pairs)])
    return _oblique(grid.dims, places), {pair for pair, far in zip(sorted(pairs), apart > 1, strict=True) if far}


def _circle(count: int) -> list[Point]:
    radius = count / (2 * math.pi)
    turns = (2 * math.pi * place / count for place in range(count))
    return [(radius * math.sin(turn), radius * math.cos(turn)) for turn in turns]


def _grid(chips: int, pairs: Pairs) -> Grid | None:
    """Return the torus or mesh that has exactly these pairs, if there is one."""
    ahead = sorted(b for a, b in pairs if a == 0)
    for strides in _chains([1], [*ahead, chips]):
        dims = tuple(further // stride for stride, further in pairwise(strides))
        for grid in (Grid(dims, wraps=True), Grid(dims, wraps=False)):
            if _pairs(grid) == pairs:
                return grid
    return None


def _chains(start: list[int], further: Sequence[int]) -> Iterator[list[int]]:
    """Yield the rows of numbers, each a multiple of the one before, that lead from the start to the last number."""
    if start[-1] == further[-1]:
        yield start
    for number in further:
        if number > start[-1] and number % start[-1] == 0:
            yield from _chains([*start, number], further)


def _pairs(grid: Grid) -> Pairs:
    chips, found = np.arange(grid.chips), set()
    for axis, size in enumerate(grid.dims):
        stride = math.prod(grid.dims[:axis])
        place = chips // stride % size
        joined = np.full(grid.chips, grid.wraps) | (place < size - 1)
        after = chips + ((place + 1) % size - place) * stride
        found |= set(zip(chips[joined].tolist(), after[joined].tolist(), strict=True))
    return found | {(b, a) for a, b in found}


def _oblique(dims: Sequence[int], places: NDArray[np.int64]) -> list[Point]:
    """Draw the first axis to the right, the second upward, the third into the depth, and further ones as blocks."""
    width, height, depth, steps = 1.0, 1.0, 1.0, []
    for axis, size in enumerate(dims):
        if axis % 3 == 0:
            steps.append((width, 0.0))
            width *= size + 1
        elif axis % 3 == 1:
            steps.append((0.0, height))
            height *= size + 1
        else:
            depth *= 0.8 / size
            steps.append((depth, depth / 2))
    return [(x, y) for x, y in (places @ np.array(steps).reshape(-1, 2)).tolist()]


def _layers(names: Sequence[str], pairs: Pairs) -> tuple[list[Point], Pairs]:
    """Put chips in a row and each switch as many rows higher as it is links away, above what it joins."""
    near: dict[int, set[int]] = defaultdict(set)
    for a, b in pairs:
        near[a].add(b)
    row = [node for node, name in enumerate(names) if _is_below(name)]
    points = {node: (float(place), 0.0) for place, node in enumerate(row)}
    width, level = len(row) - 1, 0
    while above := {switch for node in row for switch in near[node]} - points.keys():
        level += 1
        middle = {switch: np.mean([points[node][0] for node in near[switch] & points.keys()]) for switch in above}
        row = sorted(above, key=lambda switch: (middle[switch], switch))
        spots = [width / 2] if len(row) == 1 else np.linspace(0, width, 2 * len(row) + 1)[1::2].tolist()
        points |= {switch: (float(x), float(level)) for switch, x in zip(row, spots, strict=True)}
    bent = {(a, b) for a, b in pairs if points[a][1] == points[b][1] and abs(points[a][0] - points[b][0]) > 1}
    return [points[node] for node in range(len(names))], bent


def _refused(network: Network, message: str) -> InputError:
    return InputError([Problem("", message)], file=network.name)
