"""Ways round links that have failed, and who has none left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsim.topology.server import server_topology

if TYPE_CHECKING:
    from collections.abc import Iterator

    import networkx as nx

    from trnsim.topology.perturbations import Impairments
    from trnsim.topology.places import Places
    from trnsim.topology.server import ServerTopology

__all__ = ["cut_off", "detour", "without"]


def without(template: ServerTopology, failed: frozenset[tuple[str, str]]) -> nx.DiGraph[str]:
    """Return the graph of a server without the cables between some pairs of nodes."""
    graph = template.graph.copy()
    graph.remove_edges_from([*failed, *((other, one) for one, other in failed)])
    return graph


def detour(graph: nx.DiGraph[str], source: str, target: str) -> list[str]:
    """Return the nodes on the way of fewest latency; of equal ones that over fewer links, then of lower numbers.

    Raises
    ------
    ValueError
        If there is no way.
    """
    import networkx as nx

    try:
        ways = nx.all_shortest_paths(graph, source, target, weight=lambda _a, _b, data: data["latency_s"] + 1e-12)
        return min(ways, key=lambda nodes: (len(nodes), nodes))
    except nx.NetworkXNoPath:
        raise ValueError(f"{source} and {target} have no path") from None


def cut_off(found: Impairments, places: Places) -> str:
    """Say who has no way to the others once failed links carry nothing; empty if everybody has one."""
    return next(_lost(found, places), "")


def _lost(found: Impairments, places: Places) -> Iterator[str]:
    import networkx as nx

    yield from (
        f"the chips of {places.name(kind, trunk.group)} have no way up"
        for trunk, share in found.trunks.items()
        for kind, tier in places.trunks.items()
        if tier == trunk.tier and not share
    )
    template = server_topology(places.server)
    for server, shares in found.cables.items():
        failed = frozenset(ends for ends, share in shares.items() if not share)
        graph = nx.Graph(without(template, failed))
        for part in sorted(nx.connected_components(graph), key=len)[:-1]:
            chips = sorted((node for node in part if node.startswith("chip ")), key=lambda name: int(name[5:]))
            if chips:
                yield f"server {server}/{chips[0]}{' and others' if len(chips) > 1 else ''} cannot reach the rest of server {server}"
    per_server = places.server.chips
    for server in dict.fromkeys(nic // per_server for nic in found.nics):
        if not any(found.nics.get(chip, 1.0) for chip in range(server * per_server, (server + 1) * per_server)):
            yield f"server {server} has no link to the fabric left"
