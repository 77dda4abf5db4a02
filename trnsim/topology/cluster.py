"""A cluster: one template for all its servers, and the fabric between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsim.errors import InputError, Problem
from trnsim.record import Record
from trnsim.topology.fabric import FabricTopology
from trnsim.topology.server import ServerTopology, server_topology

if TYPE_CHECKING:
    import networkx as nx

    from trnsim.hardware import Server
    from trnsim.topology.spec import FabricSpec

__all__ = ["ClusterTopology", "cluster_topology"]


class ClusterTopology(Record, eq=False):
    """Servers that are all alike, and what joins them; its size does not depend on their number.

    Parameters
    ----------
    server_topology
        The template.
    servers
        >= 1.
    fabric
        None for a single server.

    Raises
    ------
    ValueError
        If there are no servers, or the fabric is of another server or another number of servers.
    InputError
        If several servers have no fabric.
    """

    server_topology: ServerTopology
    servers: int
    fabric: FabricTopology | None = None

    def __post_init__(self) -> None:
        name = self.server_topology.server.name
        if self.servers < 1:
            raise ValueError(f"a cluster has at least 1 server, not {self.servers}")
        if self.fabric is None and self.servers > 1:
            message = f"server 0/chip 0 and server 1/chip 0 have no path: {self.servers:,} servers need a fabric"
            raise InputError([Problem("cluster.fabric", message)], file=name)
        if self.fabric is not None and (self.fabric.server.name, self.fabric.servers) != (name, self.servers):
            raise ValueError(
                f"a fabric of {self.fabric.servers} x {self.fabric.server.name} cannot join {self.servers} x {name}"
            )

    @property
    def chips(self) -> int:
        """Chips of all servers."""
        return self.servers * self.server_topology.chips

    def link_counts(self) -> dict[str, int]:
        """Count the directed links of each kind, inside the servers and between them: two per cable."""
        inside = {kind: links * self.servers for kind, links in self.server_topology.link_counts().items()}
        return inside | (self.fabric.link_counts() if self.fabric else {})

    def link_rates(self) -> dict[str, float]:
        """Return what one link of each kind carries in one direction, bytes/s."""
        return self.server_topology.link_rates() | (self.fabric.link_rates() if self.fabric else {})

    def expand(self) -> nx.DiGraph[str]:
        """Build the graph of every chip, switch and link.

        Returns
        -------
        networkx.DiGraph
            Nodes ``server 0/chip 0``, ``server 0/rack 1``, ``tor 0``, ``leaf 0``, ... with attribute ``kind``; edges
            in both directions with ``kind``, ``bandwidth_bytes_per_s``, ``latency_s`` and ``count``.

        Notes
        -----
        Meant for small clusters: a chip of a Trn3 UltraServer costs about 3 kB.
        """
        import networkx as nx

        graph: nx.DiGraph[str] = nx.DiGraph()
        template = self.server_topology.graph
        for server in range(self.servers):
            graph.add_nodes_from((f"server {server}/{node}", data) for node, data in template.nodes(data=True))
            graph.add_edges_from(
                (f"server {server}/{source}", f"server {server}/{target}", data)
                for source, target, data in template.edges(data=True)
            )
        if self.fabric is not None:
            self.fabric.add_switches(graph)
            chips, per_group = self.server_topology.chips, self.fabric.chips_below(0)
            places = ((*divmod(endpoint, chips), endpoint // per_group) for endpoint in range(self.chips))
            self.fabric.add_nics(graph, ((f"server {server}/chip {chip}", group, 1) for server, chip, group in places))
        return graph

    def facts(self) -> dict[str, int | str]:
        """Return counted facts, name to value, in reading order."""
        facts: dict[str, int | str] = {"servers": self.servers, "chips": self.chips}
        return facts | {f"{kind} cables": links // 2 for kind, links in self.link_counts().items()}


def cluster_topology(server: Server, servers: int, fabric: FabricSpec | None) -> ClusterTopology:
    """Wire a cluster.

    Parameters
    ----------
    server
        What it is made of.
    servers
        >= 1.
    fabric
        What joins the servers; a single server without scale-out links has none.

    Raises
    ------
    InputError
        If the servers cannot be joined: no fabric, no scale-out links, or more chips than the fabric holds.

    Examples
    --------
    >>> from trnsim.hardware import load_server
    >>> from trnsim.topology import cluster_topology, load_fabric
    >>> cluster = cluster_topology(load_server("trn3-gen2-ultraserver"), 6945, load_fabric("ultracluster"))
    >>> cluster.chips, cluster.fabric.tiers_used
    (1000080, 4)
    """
    alone = servers == 1 and server.scale_out is None
    joined = None if fabric is None or alone else FabricTopology(fabric, server, servers)
    return ClusterTopology(server_topology(server), servers, joined)
