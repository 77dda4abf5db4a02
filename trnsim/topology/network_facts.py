"""Counted facts of a network: its links, its diameter, and what crosses it from half to half."""

from __future__ import annotations

import math
import re
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from trnsim.record import Record
from trnsim.topology.network import Bisection, Touches
from trnsim.units import format_bandwidth, format_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    import networkx as nx
    from numpy.typing import NDArray

    from trnsim.topology.network import Network

__all__ = ["Diameter", "bisection", "diameter", "network_facts"]

MOST_PAIRS = 1 << 18
MOST_CUTS = 1 << 20
MOST_LINKS = 20_000
BATCH = 1 << 14


class Diameter(Record):
    """The longest route between two endpoints.

    Parameters
    ----------
    links
        On the route with the most of them.
    latency_s
        Of the route with the highest.
    is_exact
        False where only some pairs were tried, so that a longer route may exist.
    """

    links: int
    latency_s: float
    is_exact: bool


def network_facts(network: Network) -> dict[str, int | str]:
    """Return counted facts of a network, name to value, in reading order.

    Examples
    --------
    >>> from trnsim.topology.machines import machine
    >>> torus = machine("torus:4x4x4", bandwidth_bytes_per_s=50e9, latency_s=500e-9)
    >>> for name, value in network_facts(torus).items():
    ...     print(f"{name}: {value}")
    endpoints: 64
    links: 384
    links on the longest route: 6
    highest latency of a route: 3.00 us
    bisection bandwidth, one direction: 1.60 TB/s (across axis 1)
    """
    longest, cut = diameter(network), bisection(network)
    at_least = "" if longest.is_exact else "at least "
    facts: dict[str, int | str] = {"endpoints": network.endpoints, "links": network.links}
    if len(counts := network.counts()) > 1:
        facts |= {f"{kind} links": count for kind, count in counts.items()}
    facts["links on the longest route"] = f"{at_least}{longest.links}" if at_least else longest.links
    facts["highest latency of a route"] = f"{at_least}{format_time(longest.latency_s)}"
    if cut is not None:
        at_most = "" if cut.is_exact else "at most "
        facts["bisection bandwidth, one direction"] = f"{at_most}{format_bandwidth(cut.bytes_per_s)} ({cut.cut})"
    return facts


def diameter(network: Network) -> Diameter:
    """Return the length of the longest route; memories of chips do not count.

    Of a symmetric network from one endpoint, of a small one from all; else from some, evenly spaced.
    """
    size = network.endpoints
    targets = _spread(size, min(size, MOST_PAIRS))
    wanted = 1 if network.orbit is not None else min(size, max(1, MOST_PAIRS // len(targets)))
    sources = _spread(size, wanted)
    links, latency_s, pairs = 0, 0.0, len(sources) * len(targets)
    for start in range(0, pairs, BATCH):
        pair = np.arange(start, min(start + BATCH, pairs))
        routes = network.routes(sources[pair // len(targets)], targets[pair % len(targets)], Touches(0, 0))
        links = max(links, int(routes.lengths.max()))
        latency_s = max(latency_s, float(network.latencies_s(routes).max()))
    return Diameter(links, latency_s, network.orbit is not None or len(sources) == size)


def _spread(size: int, count: int) -> NDArray[np.int64]:
    """Return so many of the endpoints, evenly spaced, the first among them and, of several, the last."""
    return np.arange(count) * (size - 1) // max(1, count - 1)


def bisection(network: Network) -> Bisection | None:
    """Return the narrowest known cut between two halves of the endpoints.

    By formula where there is one; of up to about 16 chips by trying all cuts; else the narrowest cut that parts the
    first half of the chips from the rest. None for a network of more than 20,000 links without a formula.

    References
    ----------
    Ford and Fulkerson, Canadian J. Mathematics 8, 1956, doi:10.4153/CJM-1956-045-5 (least cut is greatest flow)
    """
    if network.bisection is not None:
        return network.bisection
    if network.links > MOST_LINKS:
        return None
    graph = _graph(network)
    chips = sorted((node for node in graph if _place(node)), key=_place)
    if len(chips) < 2:
        return Bisection(0.0, "nothing to cut", is_exact=True)
    switches = [node for node in graph if node not in set(chips)]
    if math.comb(len(chips), len(chips) // 2) << len(switches) <= MOST_CUTS:
        return Bisection(_narrowest(graph, chips, switches), "the narrowest of all cuts", is_exact=True)
    return Bisection(_between_halves(graph, chips), "between the first half of the chips and the rest", is_exact=False)


def _graph(network: Network) -> nx.DiGraph[str]:
    """Return the nodes that links join, with what they carry; what stays inside a chip is left out."""
    import networkx as nx

    graph: nx.DiGraph[str] = nx.DiGraph()
    for link in range(network.links):
        source, arrow, target = network.link_name(link).partition(" -> ")
        if arrow and "/core " not in source:
            graph.add_edge(source, target, capacity=int(network.bytes_per_s[link]))
    return graph


def _place(node: str) -> tuple[int, ...]:
    """Return the numbers of a chip, and of its server; nothing of a switch."""
    return tuple(map(int, re.findall(r"\d+", node))) if re.search(r"(^|/)chip \d+$", node) else ()


def _narrowest(graph: nx.DiGraph[str], chips: list[str], switches: list[str]) -> float:
    """Try every balanced cut, with the switches on either side."""
    bit = {node: place for place, node in enumerate([*chips, *switches])}
    sides = np.array([*_halves(len(chips))], dtype=np.int64)
    sides = (sides[:, None] | np.arange(1 << len(switches)) << len(chips)).ravel()
    cut = np.zeros(len(sides), dtype=np.int64)
    for source, target, link in graph.edges(data=True):
        cut += link["capacity"] * (sides >> bit[source] & ~(sides >> bit[target]) & 1)
    return float(cut.min())


def _halves(chips: int) -> Iterator[int]:
    for half in {chips // 2, -(-chips // 2)}:
        for members in combinations(range(chips), half):
            yield sum(1 << chip for chip in members)


def _between_halves(graph: nx.DiGraph[str], chips: list[str]) -> float:
    import networkx as nx

    half = len(chips) // 2
    graph.add_edges_from(("first half", chip) for chip in chips[:half])
    graph.add_edges_from((chip, "second half") for chip in chips[half:])
    return float(nx.minimum_cut_value(graph, "first half", "second half"))
