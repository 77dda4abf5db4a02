"""A graph of chips and switches made ready for routing: idle switches out, twins as one, and all in one piece."""

from __future__ import annotations

import re
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from trnsim.errors import InputError, Problem
from trnsim.topology.network import Network
from trnsim.topology.shortest import ShortestPaths, is_chip

if TYPE_CHECKING:
    from collections.abc import Mapping

    import networkx as nx
    from numpy.typing import NDArray

    from trnsim.hardware import LinkClass

__all__ = ["MOST_TRIED", "graph_network"]


MOST_TRIED = 256
"""Chips of a graph, at most, all of whose routes are looked at when it is read."""


def graph_network(name: str, graph: nx.Graph[str], kinds: Mapping[str, LinkClass], *, reduces: bool = False) -> Network:
    """Make a network of any graph.

    Bytes take the path of least latency, of equal ones that with the fewest links, and are cut into equal parts over
    all that remain. Switches of one name that are joined to the same neighbours by the same cables act as one, which
    has the bandwidth of all of them. A switch that lies on no path is left out, with a warning; in graphs of up to
    :data:`MOST_TRIED` chips, one that lies on no shortest path is warned about too.

    Parameters
    ----------
    name
        Of the network.
    graph
        Nodes ``chip 0``, ``chip 1``, ... first, then switches; edges with ``kind``, and ``count`` of parallel cables.
    kinds
        What one cable of each kind carries per direction, and its latency.
    reduces
        Whether the switches can add up what their chips send.

    Raises
    ------
    InputError
        If two chips have no path, naming them; or if the switches reduce and no switch is joined to every chip.

    References
    ----------
    Casanova et al., J. Parallel and Distributed Computing 74(10), 2014, doi:10.1016/j.jpdc.2014.06.008

    Examples
    --------
    >>> import networkx as nx
    >>> from trnsim.hardware import load_server
    >>> graph = nx.Graph()
    >>> graph.add_nodes_from(["chip 0", "chip 1", "leaf 0", "leaf 1"])
    >>> for leaf in ("leaf 0", "leaf 1"):
    ...     graph.add_edges_from([("chip 0", leaf), ("chip 1", leaf)], kind="efa", count=1)
    >>> network = graph_network("two leaves", graph, {"efa": load_server("trn2.48xlarge").scale_out})
    >>> [network.link_name(link) for link in network.routes([0], [1]).link]
    ['chip 0 -> leaf 0-1', 'leaf 0-1 -> chip 1']
    """
    chips = sum(map(is_chip, graph))
    _refuse_apart(name, graph)
    kept = _without_idle_switches(graph)
    idle = [node for node in graph if node not in kept]
    merged = _with_twins_merged(kept)
    for _, _, edge in merged.edges(data=True):
        edge["cost"] = round(kinds[edge["kind"]].latency_s.value * 1e12) * len(merged) + 1
    paths = ShortestPaths(merged, chips)
    if reduces and paths.hub is None:
        raise InputError([Problem("reduces", "no switch is joined to every chip, so none can reduce")], file=name)
    edges = [edge for _, _, edge in merged.edges(data=True) for _ in range(2)]
    rates = [kinds[edge["kind"]].effective_bytes_per_s * edge["count"] for edge in edges]
    return Network(
        name=name,
        endpoints=chips,
        kinds=tuple(kinds),
        kind=np.array([list(kinds).index(edge["kind"]) for edge in edges], dtype=np.int16),
        bytes_per_s=np.rint(np.array(rates, dtype=np.float64)).astype(np.int64),
        latency_s=np.array([kinds[edge["kind"]].latency_s.value for edge in edges], dtype=np.float64),
        orbit=None,
        reduces=reduces,
        uplinks=_uplinks(paths.ends),
        router=paths.routes,
        namer=lambda link: " -> ".join(paths.ends[link]),
        warnings=(
            *_warning("on no path between chips, left out", idle),
            *_warning("on no shortest path", _unused(paths)),
        ),
    )


def _refuse_apart(name: str, graph: nx.Graph[str]) -> None:
    """Refuse a graph in which two chips have no path, naming them."""
    import networkx as nx

    reached = nx.node_connected_component(graph, "chip 0")
    if (lost := next((node for node in graph if is_chip(node) and node not in reached), None)) is not None:
        raise InputError([Problem("links", f"chip 0 and {lost} have no path")], file=name)


def _unused(paths: ShortestPaths) -> list[str]:
    """Return the switches that no route between chips takes; none of a graph that is too large to look at all."""
    if paths.chips > MOST_TRIED:
        return []
    chips = np.arange(paths.chips)
    routes = paths.routes(np.repeat(chips, len(chips)), np.tile(chips, len(chips)))
    used = {end for link in np.unique(routes.link) for end in paths.ends[link]}
    return [node for node in paths.graph if not is_chip(node) and node not in used]


def _warning(reason: str, switches: list[str]) -> tuple[str, ...]:
    return (f"{reason}: {', '.join(switches)}",) if switches else ()


def _without_idle_switches(graph: nx.Graph[str]) -> nx.Graph[str]:
    """Return the part of a graph that paths between chips can use: no dead ends, and nothing that stands apart."""
    import networkx as nx

    kept = graph.copy()
    reached = nx.node_connected_component(graph, "chip 0")
    kept.remove_nodes_from([node for node in graph if node not in reached])
    while ends := [node for node in kept if not is_chip(node) and kept.degree(node) < 2]:
        kept.remove_nodes_from(ends)
    return kept


def _with_twins_merged(graph: nx.Graph[str]) -> nx.Graph[str]:
    """Return the graph with switches of one name and the same cables as one, until no two are left."""
    import networkx as nx

    while True:
        alike: dict[object, list[str]] = {}
        for node in graph:
            cables = frozenset((other, edge["kind"], edge["count"]) for other, edge in graph[node].items())
            alike.setdefault(node if is_chip(node) else (node.split()[0], cables), []).append(node)
        if len(alike) == len(graph):
            return graph
        names = {twins[0]: _name(twins) for twins in alike.values() if len(twins) > 1}
        for twins in alike.values():
            for _, _, edge in graph.edges(twins[0], data=True):
                edge["count"] *= len(twins)
            graph.remove_nodes_from(twins[1:])
        graph = nx.relabel_nodes(graph, names)


def _name(twins: list[str]) -> str:
    """Write ``leaf 0-2,5`` for leaf 0, leaf 1, leaf 2 and leaf 5."""
    word = twins[0].split()[0]
    numbers = sorted(number for twin in twins for number in _numbers(twin))
    runs = [[number for _, number in run] for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])]
    return f"{word} " + ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs)


def _numbers(switch: str) -> list[int]:
    found = re.findall(r"(\d+)(?:-(\d+))?", switch.split()[1])
    return [number for first, last in found for number in range(int(first), int(last or first) + 1)]


def _uplinks(ends: tuple[tuple[str, str], ...]) -> NDArray[np.int64]:
    """Return the links from chips to switches, or, without switches, all that leave chips."""
    leaving = [link for link, (source, _) in enumerate(ends) if is_chip(source)]
    to_switch = [link for link in leaving if not is_chip(ends[link][1])]
    return np.array(to_switch or leaving, dtype=np.int64)
