"""The ways that bytes take through a cluster: wires inside a server, tiers between servers."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING

from trnsim.record import Record
from trnsim.topology.links import CORE_LINK

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from trnsim.parallel import Slot
    from trnsim.topology import ClusterTopology, FabricTopology, Link

__all__ = ["NIC", "Paths", "TierPath", "Wire"]

NIC = "nic"
"""Stands for the links between a chip and the fabric, whatever their kind."""


class Wire(Record, eq=False):
    """One directed link of a server; one object stands for it everywhere.

    Parameters
    ----------
    kind
        Class of the link.
    ends
        The two places that it joins.
    bytes_per_s
        What it carries. 0 for a NIC, whose rate depends on how far up the fabric its bytes go.
    """

    kind: str
    ends: tuple[Hashable, Hashable]
    bytes_per_s: float = 0.0


class TierPath(Record):
    """What paths have in common that turn round in one tier of the fabric.

    Parameters
    ----------
    block
        Consecutive endpoints that one switch group of the tier serves.
    latency_s
        From chip to chip.
    kinds
        Kinds of the links, in the order of travel.
    limit
        Kind of the link that limits what a chip sends so far.
    bytes_per_s
        That limit: the NIC, or where trunks are oversubscribed a chip's share of them when all chips send.
    """

    block: int
    latency_s: float
    kinds: tuple[str, ...]
    limit: str
    bytes_per_s: float


class Paths(Record, eq=False, dict=True):
    """Paths between places of a cluster; those inside a server are found once for all servers.

    Parameters
    ----------
    cluster
        The machine.
    ranks_per_chip
        Logical cores into which a chip is divided. >= 1.
    """

    cluster: ClusterTopology
    ranks_per_chip: int

    @cached_property
    def _wires(self) -> dict[tuple[Hashable, Hashable], Wire]:
        return {}

    @cached_property
    def _inside(self) -> dict[tuple[int, ...], tuple[tuple[Wire, ...], float]]:
        return {}

    @property
    def chips(self) -> int:
        """Chips of one server."""
        return self.cluster.server_topology.chips

    @cached_property
    def tiers(self) -> tuple[TierPath, ...]:
        """The tiers of the fabric, from the lowest.

        Raises
        ------
        ValueError
            If nothing joins the servers.
        """
        fabric = self.cluster.fabric
        if fabric is None:
            name = self.cluster.server_topology.server.name
            raise ValueError(
                f"no path leaves a server: the cluster is {self.cluster.servers} x {name} without a fabric"
            )
        return tuple(_tier_path(fabric, tier) for tier in range(fabric.tiers_used))

    @cached_property
    def blocks(self) -> tuple[int, ...]:
        """Endpoints that one switch group serves, for each tier from the lowest."""
        return tuple(tier.block for tier in self.tiers)

    def nic(self, chip: int, *, out: bool) -> Wire:
        """Return one direction of the NIC of a chip."""
        return self._wire((chip, NIC) if out else (NIC, chip), NIC)

    def inside(self, source: Slot, target: Slot) -> tuple[tuple[Wire, ...], float]:
        """Return the wires from one place of a server to another, and the latency of the path.

        Two logical cores of a chip are joined directly; bytes between chips take the chips' route.
        """
        same_chip = source.chip == target.chip
        key = (source.chip, source.core, target.core) if same_chip else (source.chip, target.chip)
        if (found := self._inside.get(key)) is None:
            found = self._inside[key] = self._between_cores(*key) if same_chip else self._between_chips(*key)
        return found

    def _between_cores(self, chip: int, core: int, other: int) -> tuple[tuple[Wire, ...], float]:
        facts = self.cluster.server_topology.server.chip
        if facts.neuron_cores is None:
            raise ValueError(f"{facts.name} is one rank and has no logical cores {core} and {other}")
        rate = facts.neuron_cores.link_bytes_per_s(self.ranks_per_chip)
        return (self._wire(((chip, core), (chip, other)), CORE_LINK, rate),), facts.neuron_cores.link_latency_s.value

    def _between_chips(self, chip: int, other: int) -> tuple[tuple[Wire, ...], float]:
        return self.over(self.cluster.server_topology.route(chip, other))

    def over(self, links: Iterable[Link]) -> tuple[tuple[Wire, ...], float]:
        """Return the wires of some links, and the latency of a path over them."""
        wires, latency_s = [], 0.0
        for link in links:
            rate = link.bandwidth_bytes_per_s * link.count
            wires.append(self._wire((link.source, link.target), link.kind, rate))
            latency_s += link.latency_s
        return tuple(wires), latency_s

    def _wire(self, ends: tuple[Hashable, Hashable], kind: str, bytes_per_s: float = 0.0) -> Wire:
        if (wire := self._wires.get(ends)) is None:
            wire = self._wires[ends] = Wire(kind, ends, bytes_per_s)
        return wire


def _tier_path(fabric: FabricTopology, tier: int) -> TierPath:
    kinds = fabric.path_kinds(tier)
    share = fabric.share_bytes_per_s(tier)
    shares = ((kinds[lower], fabric.share_bytes_per_s(lower)) for lower in range(tier + 1))
    limit = next(kind for kind, rate in shares if math.isclose(rate, share))
    return TierPath(fabric.chips_below(tier), fabric.path_latency_s(tier), kinds, limit, share)
