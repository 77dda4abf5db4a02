"""The scale-out fabric of one cluster: where two chips meet, what that costs, and how many cables there are."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING

from trnsim.errors import InputError, Problem
from trnsim.record import Record
from trnsim.topology.links import add_cables
from trnsim.units import format_bandwidth, format_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import networkx as nx

    from trnsim.hardware import LinkClass, Server
    from trnsim.topology.spec import FabricSpec

__all__ = ["FabricTopology"]


class FabricTopology(Record, eq=False, dict=True):
    """A fabric sized for a cluster: the fewest tiers of a specification that hold all its chips.

    Chips fill the top-of-rack switches one after the other: the chip with endpoint number ``server * chips + chip``
    hangs on switch group ``endpoint // chips_below(0)``. A *switch group* stands for all switches of a tier, over all
    planes, that serve the same chips; packets are sprayed over them, so it acts as one switch. Every group is built
    whole, also the last one, which may have fewer chips. Tiers are numbered from 0.

    Parameters
    ----------
    spec
        The tiers to choose from.
    server
        What hangs on the fabric: each of its chips is an endpoint.
    servers
        >= 1.

    Raises
    ------
    ValueError
        If there are no servers.
    InputError
        If the servers have no scale-out links, or no number of tiers holds their chips.

    Examples
    --------
    >>> from trnsim.hardware import load_server
    >>> from trnsim.topology import FabricTopology, load_fabric
    >>> fabric = FabricTopology(load_fabric("ultracluster"), load_server("trn3-gen2-ultraserver"), servers=64)
    >>> fabric.endpoints, fabric.tiers_used, fabric.chips_below(0)
    (9216, 3, 64)
    >>> [fabric.meeting_tier(0, endpoint) for endpoint in (63, 64, 8192)]
    [0, 1, 2]
    """

    spec: FabricSpec
    server: Server
    servers: int

    def __post_init__(self) -> None:
        if self.servers < 1:
            raise ValueError(f"a fabric joins at least 1 server, not {self.servers}")
        if self.server.scale_out is None:
            message = (
                f"server {self.server.name} has no scale-out links, so it cannot be one of several; use servers: 1"
            )
            raise InputError([Problem("cluster.server", message, value=self.server.name)], file=self.spec.name)
        if (problem := self.spec.problem(self.server.chips, self.servers)) is not None:
            raise InputError([problem], file=self.spec.name)

    @property
    def endpoints(self) -> int:
        """Chips with a NIC: all chips of all servers."""
        return self.servers * self.server.chips

    @cached_property
    def tiers_used(self) -> int:
        """Number of tiers in use. >= 1."""
        return self.spec.tiers_for(self.endpoints) or len(self.spec.tiers)

    @cached_property
    def _chips_below(self) -> tuple[int, ...]:
        return tuple(self.spec.chips_below(tier, self.tiers_used) for tier in range(self.tiers_used))

    def chips_below(self, tier: int) -> int:
        """Return how many chips one full switch group of a tier serves."""
        return self._chips_below[tier]

    def groups(self, tier: int) -> int:
        """Return the number of switch groups of a tier."""
        return math.ceil(self.endpoints / self._chips_below[tier])

    def meeting_tier(self, a: int, b: int) -> int:
        """Return the lowest tier that serves both endpoints: 0 is the same top-of-rack switch.

        Parameters
        ----------
        a, b
            Endpoint numbers. Each 0 <= number < `endpoints`.
        """
        return next(tier for tier, below in enumerate(self._chips_below) if a // below == b // below)

    def path_latency_s(self, tier: int) -> float:
        """Return the latency from chip to chip over a path that turns round in `tier`."""
        return self._nic.latency_s.value + sum(level.latency_s.value for level in self.spec.tiers[: tier + 1])

    def path_kinds(self, tier: int) -> tuple[str, ...]:
        """Return the kinds of the links on a path that turns round in `tier`, in the order of travel."""
        up = (self._nic.kind, *(self._kind(level) for level in range(tier)))
        return up + up[::-1]

    def trunk_cables(self, tier: int) -> int:
        """Return the cables from one switch group of `tier` to its group in the tier above, over all planes.

        Parameters
        ----------
        tier
            0 <= tier < `tiers_used` - 1.
        """
        return self.spec.planes.value * math.prod(level.up_ports for level in self.spec.tiers[: tier + 1])

    @property
    def cable_bytes_per_s(self) -> float:
        """What one cable between switches carries per direction: one plane's share of a NIC."""
        return self._nic.effective_bytes_per_s / self.spec.planes.value

    def trunk_bandwidth_bytes_per_s(self, tier: int) -> float:
        """Return what one switch group of `tier` can send to the tier above at once, per direction."""
        return self.trunk_cables(tier) * self.cable_bytes_per_s

    def share_bytes_per_s(self, tier: int) -> float:
        """Return what each chip keeps, per direction, when all send at once over paths that turn round in `tier`."""
        shares = [self.trunk_bandwidth_bytes_per_s(level) / self._chips_below[level] for level in range(tier)]
        return min([self._nic.effective_bytes_per_s, *shares])

    def link_counts(self) -> dict[str, int]:
        """Count the directed links of each kind: two per cable."""
        trunks = {self._kind(tier): self.groups(tier) * self.trunk_cables(tier) for tier in range(self.tiers_used - 1)}
        return {kind: 2 * cables for kind, cables in {self._nic.kind: self.endpoints, **trunks}.items()}

    def link_rates(self) -> dict[str, float]:
        """Return what one link of each kind carries in one direction, bytes/s."""
        trunks = {self._kind(tier): self.cable_bytes_per_s for tier in range(self.tiers_used - 1)}
        return {self._nic.kind: self._nic.effective_bytes_per_s, **trunks}

    @cached_property
    def graph(self) -> nx.DiGraph[str]:
        """Servers and switch groups as a graph; parallel cables are one edge with their count.

        Nodes ``server 0`` and ``tor 0``, ``leaf 0``, ... with attribute ``kind``; edges in both directions with
        ``kind``, ``bandwidth_bytes_per_s`` (of one cable), ``latency_s`` and ``count``. Its size follows the number
        of servers and not of chips. Built when first asked for; not to be changed.
        """
        import networkx as nx

        graph: nx.DiGraph[str] = nx.DiGraph()
        graph.add_nodes_from((f"server {server}" for server in range(self.servers)), kind="server")
        self.add_switches(graph)
        self.add_nics(graph, ((f"server {server}", group, chips) for server, group, chips in self._attachments()))
        return graph

    def add_switches(self, graph: nx.DiGraph[str]) -> None:
        """Add the switch groups and the cables between them to a graph."""
        for tier in range(self.tiers_used):
            kind = self.spec.tiers[tier].kind
            graph.add_nodes_from((f"{kind} {group}" for group in range(self.groups(tier))), kind=kind)
        for tier in range(self.tiers_used - 1):
            lower, upper = self.spec.tiers[tier : tier + 2]
            siblings, count = self._chips_below[tier + 1] // self._chips_below[tier], self.trunk_cables(tier)
            trunks = [
                (f"{lower.name} {group}", f"{upper.name} {group // siblings}", count)
                for group in range(self.groups(tier))
            ]
            add_cables(graph, trunks, self._kind(tier), self.cable_bytes_per_s, upper.latency_s.value / 2)

    def add_nics(self, graph: nx.DiGraph[str], nics: Iterable[tuple[str, int, int]]) -> None:
        """Hang nodes on the first tier of a graph.

        Parameters
        ----------
        graph
            Has the switch groups.
        nics
            A node, the switch group it hangs on, and how many of its chips do.
        """
        cables = ((node, f"{self.spec.tiers[0].name} {group}", chips) for node, group, chips in nics)
        add_cables(graph, cables, self._nic.kind, self._nic.effective_bytes_per_s, self.path_latency_s(0) / 2)

    def facts(self) -> dict[str, int | str]:
        """Return counted facts, name to value, in reading order."""
        names = [tier.name for tier in self.spec.tiers[: self.tiers_used]]
        facts: dict[str, int | str] = {"chips": self.endpoints, "tiers in use": ", ".join(names)}
        for tier, name in enumerate(names):
            facts[f"{name}: switch groups"] = self.groups(tier)
            facts[f"{name}: latency of a path"] = format_time(self.path_latency_s(tier))
            facts[f"{name}: bandwidth per chip when all send"] = format_bandwidth(self.share_bytes_per_s(tier))
        return facts | {f"{kind} cables": links // 2 for kind, links in self.link_counts().items()}

    @property
    def _nic(self) -> LinkClass:
        if self.server.scale_out is None:  # refused in __post_init__
            raise ValueError(f"server {self.server.name} has no scale-out links")
        return self.server.scale_out

    def _kind(self, tier: int) -> str:
        return f"{self.spec.tiers[tier].name}-{self.spec.tiers[tier + 1].name}"

    def _attachments(self) -> Iterator[tuple[int, int, int]]:
        """Yield server, top-of-rack group and the number of the server's chips there."""
        chips, below = self.server.chips, self._chips_below[0]
        for server in range(self.servers):
            first, end = server * chips, (server + 1) * chips
            for group in range(first // below, (end - 1) // below + 1):
                yield server, group, min(end, (group + 1) * below) - max(first, group * below)
