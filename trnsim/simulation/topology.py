"""What can be counted of a network, and a picture of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trnsim.results.topology_facts import LinkKind, TopologyFacts
from trnsim.simulation.problems import Report
from trnsim.simulation.question import is_fabric, read_place
from trnsim.simulation.sites import Site, find_site
from trnsim.topology.network_facts import bisection, diameter

if TYPE_CHECKING:
    from trnsim.topology.network import Network
    from trnsim.topology.picture import Picture

__all__ = ["find_topology", "topology_facts", "topology_picture"]

FABRIC_SERVER = "trn2-ultraserver"
FABRIC_SERVERS = 16
"""What a fabric is shown with when nobody says what it joins: 1,024 chips, more than one leaf switch holds."""


def find_topology(
    name: str,
    *,
    server: str | None = None,
    servers: int | None = None,
    fabric: str | None = None,
    ranks: int | None = None,
    rank: str = "chip",
    link_bandwidth: str | None = None,
    link_latency: str | None = None,
) -> Site:
    """Return the network that a user names, texts as on the command line.

    Parameters
    ----------
    name
        A generic machine, a server, a network or a fabric of ``topologies/``, or a file.
    server
        What a fabric joins.
    servers, fabric, ranks, rank, link_bandwidth, link_latency
        As for `trnsim.collective`; ranks are the size of a machine without a shape.

    Raises
    ------
    InputError
        With everything that is wrong.

    Examples
    --------
    >>> find_topology("trn2-ultraserver").network.endpoints
    64
    """
    report = Report("topology")
    report.count("ranks", ranks)
    joined = is_fabric(name)
    if server is not None and not joined:
        report.add("server", f"{name} is no fabric; only a fabric joins servers of another name", server)
    place = read_place(
        report,
        (server or FABRIC_SERVER) if joined else name,
        servers=(FABRIC_SERVERS if joined else 1) if servers is None else servers,
        fabric=name if joined else fabric,
        rank=rank,
        link_bandwidth=link_bandwidth,
        link_latency=link_latency,
    )
    report.close()
    return find_site(place, ranks)


def topology_facts(name: str, site: Site) -> TopologyFacts:
    """Count what can be counted of a network.

    Parameters
    ----------
    name
        As the user wrote it.
    site
        The network.

    Examples
    --------
    A 4 x 4 x 4 torus has 64 chips and 192 cables.

    >>> facts = topology_facts("torus", find_topology("torus:4x4x4", link_bandwidth="50 GB/s"))
    >>> facts.endpoints, facts.links["link"].links // 2, facts.diameter_links
    (64, 192, 6)
    """
    network = site.network
    longest, cut = diameter(network), bisection(network)
    return TopologyFacts(
        name=name,
        described=site.described,
        endpoints=network.endpoints,
        links={kind: each for index, kind in enumerate(network.kinds) if (each := _kind(network, index))},
        diameter_links=longest.links,
        diameter_latency_s=longest.latency_s,
        diameter_is_exact=longest.is_exact,
        bisection_bytes_per_s=cut.bytes_per_s if cut else None,
        bisection_cut=cut.cut if cut else "",
        bisection_is_exact=cut is not None and cut.is_exact,
        reduces=network.reduces,
        counted=site.counted,
        notes=(),
        warnings=network.warnings,
    )


def _kind(network: Network, index: int) -> LinkKind | None:
    """Return the links of one kind; None if there are none."""
    links = np.flatnonzero(network.kind == index)
    if not len(links):
        return None
    rates, latencies_s = network.bytes_per_s[links], network.latency_s[links]
    return LinkKind(len(links), int(rates.min()), int(rates.max()), float(latencies_s.max()))


def topology_picture(site: Site) -> Picture:
    """Return where to draw the chips and switches of a network, and what joins them.

    Raises
    ------
    InputError
        If it is too large to be drawn.
    """
    from trnsim.topology.picture import picture

    return picture(site.network)
