"""One directed edge of a topology, and how a cable becomes two of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsim.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterable

    import networkx as nx

__all__ = ["CORE_LINK", "Link", "add_cables", "count_links", "link_between"]

CORE_LINK = "core-link"
"""Kind of the links between logical cores of one chip."""


class Link(Record):
    """A directed edge between two nodes of a topology.

    Parameters
    ----------
    source, target
        Names of the nodes, as in the graph: ``chip 3``, ``rack 1``, ``tor 7``.
    kind
        Class of the link, as the catalog names it: ``neuronlink-xy``, ``rack-switch``, ``efa``, ``tor-leaf``.
    bandwidth_bytes_per_s
        What one cable carries in this direction: the datasheet's figure times the achieved fraction. > 0.
    latency_s
        Time that the first byte takes from source to target. >= 0.
    count
        Parallel cables between the two nodes. >= 1.

    Examples
    --------
    >>> Link("chip 0", "chip 1", "neuronlink-xy", 87e9, 1.5e-6).count
    1
    """

    source: str
    target: str
    kind: str
    bandwidth_bytes_per_s: float
    latency_s: float
    count: int = 1


def add_cables(
    graph: nx.DiGraph[str],
    cables: Iterable[tuple[str, str, int]],
    kind: str,
    bandwidth_bytes_per_s: float,
    latency_s: float,
) -> None:
    """Join pairs of nodes, each by a number of parallel cables, in both directions.

    Parameters
    ----------
    graph
        Gets the edges.
    cables
        Two nodes, and the number of cables between them.
    kind, bandwidth_bytes_per_s, latency_s
        Of each cable in each direction, as in :class:`Link`.
    """
    graph.add_edges_from(
        ((*ends, {"count": count}) for a, b, count in cables for ends in ((a, b), (b, a))),
        kind=kind,
        bandwidth_bytes_per_s=bandwidth_bytes_per_s,
        latency_s=latency_s,
    )


def link_between(graph: nx.DiGraph[str], source: str, target: str) -> Link:
    """Return the edge of a graph as a link."""
    return Link(source, target, **graph.edges[source, target])


def count_links(graph: nx.DiGraph[str]) -> dict[str, int]:
    """Count the directed links of each kind, in the order in which the kinds first appear."""
    counts: dict[str, int] = {}
    for _, _, edge in graph.edges(data=True):
        counts[edge["kind"]] = counts.get(edge["kind"], 0) + edge["count"]
    return counts
