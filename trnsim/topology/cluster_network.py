"""A cluster of catalog servers as a network: one template of links and routes per server, formulas between them."""

from __future__ import annotations

from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnsim.hardware import TorusScaleUp
from trnsim.record import Record
from trnsim.topology.bisections import torus_bisection
from trnsim.topology.links import CORE_LINK
from trnsim.topology.network import Bisection, Network, Routes
from trnsim.topology.torus import torus_coordinates

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from numpy.typing import NDArray

    from trnsim.topology.cluster import ClusterTopology
    from trnsim.topology.fabric import FabricTopology

    Whole = NDArray[np.int64]

__all__ = ["cluster_network"]


class Block(NamedTuple):
    """Links that stand in a row and are alike."""

    kind: str
    links: int
    bytes_per_s: float
    latency_s: float
    symmetry: Hashable


class Wiring(Record, eq=False, dict=True):
    """Where the links of a cluster stand in a row.

    First every wire of the server's template, each for all servers; then the links between logical cores of every
    chip; then the NICs out and in; then, tier by tier, the trunks up and down, one per switch group.

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
    def blocks(self) -> tuple[Block, ...]:
        """All links, in blocks."""
        return (*self._inside(), *self._cores(), *self._between())

    @cached_property
    def starts(self) -> Whole:
        """Where each block starts, and the end."""
        return np.array([0, *accumulate(block.links for block in self.blocks)])

    @cached_property
    def wires(self) -> dict[tuple[str, str], int]:
        """Number of each wire of the template."""
        return {ends: wire for wire, ends in enumerate(self.cluster.server_topology.graph.edges)}

    @cached_property
    def joined(self) -> FabricTopology | None:
        """The fabric, where there are several servers for it to join."""
        return self.cluster.fabric if self.cluster.servers > 1 else None

    @property
    def peers(self) -> int:
        """Logical cores beside one in its chip."""
        return self.ranks_per_chip - 1

    def _inside(self) -> Iterator[Block]:
        servers, scale_up = self.cluster.servers, self.cluster.server_topology.server.scale_up
        for source, target, edge in self.cluster.server_topology.graph.edges(data=True):
            symmetry: Hashable = source.partition(" ")[0], edge["kind"]
            if isinstance(scale_up, TorusScaleUp):
                ends = (torus_coordinates(int(node.split()[1]), scale_up.dims) for node in (source, target))
                symmetry = tuple((b - a) % size for a, b, size in zip(*ends, scale_up.dims, strict=True))
            yield Block(
                edge["kind"], servers, edge["bandwidth_bytes_per_s"] * edge["count"], edge["latency_s"], symmetry
            )

    def _cores(self) -> Iterator[Block]:
        cores, links = (
            self.cluster.server_topology.server.chip.neuron_cores,
            self.cluster.chips * self.ranks_per_chip * self.peers,
        )
        if cores is None:
            yield Block(CORE_LINK, 0, 0.0, 0.0, CORE_LINK)
        else:
            rate = cores.link_bytes_per_s(self.ranks_per_chip)
            yield Block(CORE_LINK, links, rate, cores.link_latency_s.value, CORE_LINK)

    def _between(self) -> Iterator[Block]:
        if (fabric := self.joined) is None:
            return
        kinds, rates = fabric.path_kinds(fabric.tiers_used - 1), fabric.link_rates()
        for way in ("out", "in"):
            yield Block(kinds[0], fabric.endpoints, rates[kinds[0]], fabric.path_latency_s(0) / 2, way)
        for tier in range(fabric.tiers_used - 1):
            latency_s = (fabric.path_latency_s(tier + 1) - fabric.path_latency_s(tier)) / 2
            rate = fabric.trunk_bandwidth_bytes_per_s(tier)
            for way in ("up", "down"):
                yield Block(kinds[tier + 1], fabric.groups(tier), rate, latency_s, (way, tier))

    @property
    def is_symmetric(self) -> bool:
        """Whether every chip sees the same machine: whole servers under each switch group, and all groups full."""
        if (fabric := self.joined) is None:
            return True
        below = [fabric.chips_below(tier) for tier in range(fabric.tiers_used - 1)]
        return all(block % fabric.server.chips == 0 and fabric.endpoints % block == 0 for block in below)

    def bisection(self) -> Bisection | None:
        """Return the formula's cut of a torus, or the narrowest one that parts the first half of the servers."""
        if (fabric := self.joined) is not None:
            return _between_halves(fabric)
        server = self.cluster.server_topology.server
        if not isinstance(server.scale_up, TorusScaleUp):
            return None
        return torus_bisection(server.scale_up.dims, [link.effective_bytes_per_s for link in server.scale_up.links])

    def uplinks(self) -> Whole:
        """Return the links that leave a chip: NICs, or links to switches, or, without either, all."""
        wires = list(self.wires)
        start = len(wires) + 1
        if self.joined is not None:
            return np.arange(self.starts[start], self.starts[start + 1])
        to_switch = [wire for wire, (source, target) in enumerate(wires) if source[:4] == "chip" != target[:4]]
        return np.array(to_switch or range(len(wires)), dtype=np.int64)

    def columns(self, sources: Whole, targets: Whole) -> Whole:
        """Return the links that transfers cross, a row each, -1 where a row is shorter."""
        from_chip, to_chip = sources // self.ranks_per_chip, targets // self.ranks_per_chip
        chips = self.cluster.server_topology.chips
        apart = from_chip // chips != to_chip // chips
        within = np.flatnonzero(~apart)
        inner = self._columns_inside(from_chip[within], to_chip[within])
        outer = self._columns_between(from_chip[apart], to_chip[apart])
        rows = np.full((len(sources), max(inner.shape[1], outer.shape[1], 1)), -1, dtype=np.int64)
        rows[within, : inner.shape[1]] = inner
        rows[np.flatnonzero(apart), : outer.shape[1]] = outer
        cores = np.flatnonzero((from_chip == to_chip) & (sources != targets))
        rows[cores, 0] = self._core_links(sources[cores], targets[cores])
        return rows

    def _columns_inside(self, from_chip: Whole, to_chip: Whole) -> Whole:
        """Route each pair of places once, and move the route to the server of each transfer."""
        template = self.cluster.server_topology
        pairs, which = np.unique(
            from_chip % template.chips * template.chips + to_chip % template.chips, return_inverse=True
        )
        routes = [template.route(*divmod(int(pair), template.chips)) for pair in pairs]
        table = np.full((len(routes), max(map(len, routes), default=0)), -1, dtype=np.int64)
        for row, route in zip(table, routes, strict=True):
            row[: len(route)] = [self.wires[link.source, link.target] for link in route]
        rows = table[which]
        return np.where(rows < 0, -1, rows * self.cluster.servers + (from_chip // template.chips)[:, None])

    def _columns_between(self, from_chip: Whole, to_chip: Whole) -> Whole:
        """Go up to the first tier that serves both chips, and down again."""
        if (fabric := self.joined) is None:
            return np.empty((0, 0), dtype=np.int64)
        block = len(self.wires) + 1
        up, down = [self.starts[block] + from_chip], [self.starts[block + 1] + to_chip]
        for tier in range(fabric.tiers_used - 1):
            block, below = block + 2, fabric.chips_below(tier)
            climbs = from_chip // below != to_chip // below
            up.append(np.where(climbs, self.starts[block] + from_chip // below, -1))
            down.append(np.where(climbs, self.starts[block + 1] + to_chip // below, -1))
        return np.stack([*up, *reversed(down)], axis=1)

    def _core_links(self, sources: Whole, targets: Whole) -> Whole:
        core, other = sources % self.ranks_per_chip, targets % self.ranks_per_chip
        return np.asarray(self.starts[len(self.wires)] + sources * self.peers + other - (other > core))

    def link_name(self, link: int) -> str:
        """Return the two ends of a link."""
        block = int(np.searchsorted(self.starts, link, side="right")) - 1
        place = int(link - self.starts[block])
        if block < len(self.wires):
            return " -> ".join(self._node(place, node) for node in list(self.wires)[block])
        if block == len(self.wires):
            rank, peer = divmod(place, self.peers)
            chip, core = divmod(rank, self.ranks_per_chip)
            return f"{self._chip(chip)}/core {core} -> core {peer + (peer >= core)}"
        ends = self._ends_between(*divmod(block - len(self.wires) - 1, 2), place)
        return " -> ".join(ends)

    def _ends_between(self, level: int, downward: int, place: int) -> tuple[str, str]:
        if (fabric := self.joined) is None:
            raise ValueError(f"a single {self.cluster.server_topology.server.name} has no links between servers")
        below = [1, *(fabric.chips_below(tier) for tier in range(fabric.tiers_used))]
        names = [tier.name for tier in fabric.spec.tiers]
        lower = self._chip(place) if level == 0 else f"{names[level - 1]} {place}"
        upper = f"{names[level]} {place * below[level] // below[level + 1]}"
        return (upper, lower) if downward else (lower, upper)

    def _chip(self, chip: int) -> str:
        server, place = divmod(chip, self.cluster.server_topology.chips)
        return self._node(server, f"chip {place}")

    def _node(self, server: int, node: str) -> str:
        return node if self.cluster.servers == 1 else f"server {server}/{node}"


def cluster_network(cluster: ClusterTopology, ranks_per_chip: int = 1) -> Network:
    """Make a network of a cluster of catalog servers.

    Parallel trunks between two switch groups, over which packets are sprayed, are one link with what they carry
    together. Endpoint ``chip * ranks_per_chip + core``; logical cores of one chip are joined directly, and share the
    links of their chip.

    Parameters
    ----------
    cluster
        The machine.
    ranks_per_chip
        Logical cores into which a chip is divided. >= 1.

    Raises
    ------
    ValueError
        If a chip has less than one rank.

    Examples
    --------
    >>> from trnsim.hardware import load_server
    >>> from trnsim.topology import cluster_topology, load_fabric
    >>> network = cluster_network(cluster_topology(load_server("trn2.48xlarge"), 8, load_fabric("ultracluster")))
    >>> network.endpoints, network.counts()
    (128, {'neuronlink-xy': 512, 'efa': 256})
    >>> [network.link_name(link) for link in network.routes([0], [127]).link]
    ['server 0/chip 0 -> tor 0', 'tor 0 -> server 7/chip 15']
    """
    if ranks_per_chip < 1:
        raise ValueError(f"a chip has at least 1 rank, not {ranks_per_chip}")
    wiring = Wiring(cluster, ranks_per_chip)
    blocks, server = wiring.blocks, cluster.server_topology.server
    kinds, classes = (
        tuple(dict.fromkeys(values)) for values in zip(*((b.kind, b.symmetry) for b in blocks), strict=True)
    )
    links = np.diff(wiring.starts)
    return Network(
        name=server.name if cluster.servers == 1 else f"{cluster.servers} x {server.name}",
        endpoints=cluster.chips * ranks_per_chip,
        kinds=kinds,
        kind=np.repeat(np.array([kinds.index(block.kind) for block in blocks], dtype=np.int16), links),
        bytes_per_s=np.repeat(np.array([round(block.bytes_per_s) for block in blocks]), links),
        latency_s=np.repeat(np.array([block.latency_s for block in blocks]), links),
        orbit=np.repeat(np.array([classes.index(b.symmetry) for b in blocks]), links) if wiring.is_symmetric else None,
        reduces=False,
        uplinks=wiring.uplinks(),
        router=lambda sources, targets: Routes.from_columns(wiring.columns(sources, targets)),
        namer=wiring.link_name,
        bisection=wiring.bisection(),
    )


def _between_halves(fabric: FabricTopology) -> Bisection:
    """Cut between the first half of the servers and the rest, each switch group on the side where that costs less."""
    chips, below = fabric.servers // 2 * fabric.server.chips, fabric.chips_below(0)
    starts = np.arange(fabric.groups(0)) * below
    ends = np.minimum(starts + below, fabric.endpoints)
    first = np.clip(chips - starts, 0, ends - starts)
    nic = fabric.link_rates()[fabric.path_kinds(0)[0]]
    costs = np.stack([(ends - starts - first) * nic, first * nic])  # of a group on the side of the first half, or not
    for tier in range(fabric.tiers_used - 1):
        cut = np.minimum(costs, costs[::-1] + fabric.trunk_bandwidth_bytes_per_s(tier))
        siblings = fabric.chips_below(tier + 1) // fabric.chips_below(tier)
        costs = np.add.reduceat(cut, np.arange(0, cut.shape[1], siblings), axis=1)
    return Bisection(
        float(costs.min(axis=0).sum()), "between the first half of the servers and the rest", is_exact=False
    )
