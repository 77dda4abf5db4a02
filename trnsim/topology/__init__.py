"""Who is wired to whom: servers as templates, the fabric between them, and the cluster they make.

A server (:class:`ServerTopology`) is a networkx graph of chips and switches that all servers of a cluster share; the
fabric (:class:`FabricTopology`) is arithmetic on tiers, with a graph of servers and switches when asked for; a cluster
(:class:`ClusterTopology`) is a number of the one on the other, and :meth:`ClusterTopology.expand` is the whole graph.
networkx is imported when the first graph is built.
"""

from trnsim.topology.cluster import ClusterTopology, cluster_topology
from trnsim.topology.fabric import FabricTopology
from trnsim.topology.links import Link
from trnsim.topology.loading import load_fabric
from trnsim.topology.server import ServerTopology, server_topology
from trnsim.topology.spec import FabricSpec, Tier

__all__ = [
    "ClusterTopology",
    "FabricSpec",
    "FabricTopology",
    "Link",
    "ServerTopology",
    "Tier",
    "cluster_topology",
    "load_fabric",
    "server_topology",
]
