"""Shortest paths between the chips of any graph, with equal parts over all that cost the same."""

from __future__ import annotations

from functools import cached_property
from itertools import islice, pairwise
from typing import TYPE_CHECKING

import numpy as np

from trnsim.record import Record
from trnsim.topology.network import Routes

if TYPE_CHECKING:
    from collections.abc import Iterator

    import networkx as nx
    from numpy.typing import NDArray

    Whole = NDArray[np.int64]

__all__ = ["MOST_PATHS", "ShortestPaths"]

MOST_PATHS = 64
"""Equal paths over which one transfer is cut at most: where there are more, the first ones are taken."""


class ShortestPaths(Record, eq=False, dict=True):
    """Routes over the paths of least cost.

    A chip that hangs on a single switch is routed from there, so that a search serves all chips of the switch.

    Parameters
    ----------
    graph
        Connected; the first nodes are the chips, ``chip 0``, ``chip 1``, .... Each edge has a whole ``cost`` > 0.
    chips
        Number of chips.

    References
    ----------
    Dijkstra, Numerische Mathematik 1, 1959, doi:10.1007/BF01386390
    Hopps, RFC 2992, 2000 (multipath of equal cost)
    """

    graph: nx.Graph[str]
    chips: int

    @cached_property
    def _before(self) -> dict[str, dict[str, list[str]]]:
        return {}

    @cached_property
    def _paths(self) -> dict[tuple[str, str], list[list[int]]]:
        return {}

    @cached_property
    def ends(self) -> tuple[tuple[str, str], ...]:
        """The two ends of each directed link: of every edge one there and one back."""
        return tuple(ends for a, b in self.graph.edges for ends in ((a, b), (b, a)))

    @cached_property
    def hub(self) -> str | None:
        """The switch on which every chip hangs; None if there is none."""
        shared = set.intersection(*(set(self.graph[chip]) for chip in self._chips))
        return min((node for node in shared if not is_chip(node)), default=None)

    def routes(self, sources: Whole, targets: Whole) -> Routes:
        """Return the routes of transfers; -1 stands for the hub."""
        same = sources == targets
        nodes = list(self.graph)
        keys = np.where(same, -1, self._anchor[sources] * len(nodes) + self._anchor[targets])
        pairs, which = np.unique(keys, return_inverse=True)
        found: list[list[list[int]]] = [
            self._between(*(nodes[end] for end in divmod(key, len(nodes)))) if key >= 0 else [[]] for key in pairs
        ]
        counts = np.array([len(paths) for paths in found], dtype=np.int64)
        table = _padded([path for paths in found for path in paths])
        parts = counts[which]
        transfer = np.repeat(np.arange(len(sources)), parts)
        skipped = np.cumsum(parts) - parts - (np.cumsum(counts) - counts)[which]
        up, down = (np.where(same, -1, ports) for ports in (self._up[sources], self._down[targets]))
        row = np.arange(len(transfer)) - skipped[transfer]
        columns = np.column_stack([up[transfer], table[row], down[transfer]])
        crossed = columns >= 0
        return Routes.from_lengths(transfer, parts[transfer], crossed.sum(axis=1), columns[crossed])

    @property
    def _chips(self) -> list[str]:
        return list(islice(self.graph, self.chips))

    @cached_property
    def _link(self) -> dict[tuple[str, str], int]:
        return {ends: link for link, ends in enumerate(self.ends)}

    @cached_property
    def _switches(self) -> tuple[str, ...]:
        """Per chip the single switch on which it hangs, or else itself."""
        hangs = (list(self.graph[chip]) for chip in self._chips)
        return tuple(
            near[0] if len(near) == 1 and not is_chip(near[0]) else chip
            for chip, near in zip(self._chips, hangs, strict=True)
        )

    @cached_property
    def _anchor(self) -> Whole:
        """Number of the node from which each chip is routed, and last that of the hub."""
        number = {node: place for place, node in enumerate(self.graph)}
        return np.array([*(number[node] for node in self._switches), number.get(self.hub or "", -1)])

    @cached_property
    def _up(self) -> Whole:
        """Link from each chip to its anchor, and one for the hub; -1 where there is none."""
        return np.array([*(self._link.get(ends, -1) for ends in zip(self._chips, self._switches, strict=True)), -1])

    @cached_property
    def _down(self) -> Whole:
        return np.array([*(self._link.get(ends, -1) for ends in zip(self._switches, self._chips, strict=True)), -1])

    def _between(self, source: str, target: str) -> list[list[int]]:
        """Return the paths of least cost, as links; searched once per start."""
        import networkx as nx

        if (paths := self._paths.get((source, target))) is None:
            if source not in self._before:
                found = nx.dijkstra_predecessor_and_distance(self.graph, source, weight="cost")
                self._before[source] = found[0]
            walks = islice(_walks(self._before[source], target), MOST_PATHS)
            paths = [[self._link[ends] for ends in pairwise(walk)] for walk in walks]
            self._paths[source, target] = paths
        return paths


def is_chip(node: str) -> bool:
    """Say whether a node is a chip and no switch."""
    return node.startswith("chip ")


def _walks(before: dict[str, list[str]], node: str) -> Iterator[tuple[str, ...]]:
    """Yield every way from the start of a search to a node."""
    if not before[node]:
        yield (node,)
    for previous in before[node]:
        for walk in _walks(before, previous):
            yield (*walk, node)


def _padded(paths: list[list[int]]) -> Whole:
    table = np.full((len(paths), max(map(len, paths), default=0)), -1, dtype=np.int64)
    for row, path in zip(table, paths, strict=True):
        row[: len(path)] = path
    return table
