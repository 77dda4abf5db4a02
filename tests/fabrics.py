"""Closed-form prices by their definition, for tests: every transfer of every step on every link of its path."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import islice
from statistics import fmean
from typing import TYPE_CHECKING

from machines import fabric_spec, single_chip_server, sourced, torus_server
from msgspec import Struct, field
from msgspec.structs import replace

from trnsim.collectives import algorithm_names, op_names, program
from trnsim.fabric import ClosedFormFabric
from trnsim.fabric.layout import arrange, lay_out
from trnsim.hardware import LinkClass, StarScaleUp, SwitchedScaleUp, TorusScaleUp
from trnsim.parallel import Placement
from trnsim.topology import cluster_topology

if TYPE_CHECKING:
    from trnsim.collectives import Phase
    from trnsim.hardware import Chip, NeuronCores, Server
    from trnsim.parallel import Group, Slot
    from trnsim.topology import FabricSpec, FabricTopology


def make_fabric(
    server: Server, servers: int = 1, ranks_per_chip: int = 1, spec: FabricSpec | None = None
) -> ClosedFormFabric:
    """Return a fabric of servers under one large switch, or under the tiers that are given."""
    joined = spec or fabric_spec([2**20], [1], planes=1)
    cluster = cluster_topology(server, servers, joined if servers > 1 else None)
    return ClosedFormFabric(cluster, Placement(ranks_per_chip, server.chips))


def possible(fabric: ClosedFormFabric, group: Group, op: str) -> tuple[str, ...]:
    """Return the algorithms of an operation that a group can have."""
    return algorithm_names(op, arrange(lay_out(group, fabric.placement), fabric.cluster.server_topology.server))


OPERATIONS = [(op, name) for op in op_names() for name in algorithm_names(op) if name != "in-network"]
"""Operations and algorithms; without those of switches that reduce, which a cluster does not have."""


class Definition(Struct):
    """Time and bytes of a group's operation, transfer by transfer."""

    fabric: ClosedFormFabric
    group: Group
    bytes_by_kind: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def time_s(self, op: str, algorithm: str, size_bytes: float) -> float:
        slots = [self.fabric.placement.slot(rank) for rank in self.group.members()]
        known = arrange(lay_out(self.group, self.fabric.placement), self.fabric.cluster.server_topology.server)
        plan = program(op, algorithm, known)
        cell_bytes = size_bytes / plan.buffer_cells
        steps = (
            [(slots[each.source], slots[each.target], len(each.cells) * cell_bytes) for each in step]
            for step in plan.transfers()
        )
        return sum(self._phase_s(phase, list(islice(steps, phase.steps))) for phase in plan.phases)

    def _phase_s(self, phase: Phase, steps: list[list[tuple[Slot, Slot, float]]]) -> float:
        moving_s = sum(self._moving_s(step) for step in steps)
        if phase.keeps_step:
            return moving_s + sum(max(self._latency_s(here, there) for here, there, _ in step) for step in steps)
        return moving_s + self._way_s(steps[0], rings=len(phase.moves), hops=len(steps))

    def _way_s(self, transfers: list[tuple[Slot, Slot, float]], *, rings: int, hops: int) -> float:
        """Latency of the longest way along one ring: what it has between servers, and else the longest inside."""
        pairs = [(here, there) for here, there, _ in transfers]
        outside = [self._latency_s(*pair) for pair in pairs if pair[0].server != pair[1].server]
        inside = [self._latency_s(*pair) for pair in pairs if pair[0].server == pair[1].server]
        crossings = min(hops, len(outside) / rings)
        return crossings * fmean(outside or [0.0]) + (hops - crossings) * max(inside, default=0.0)

    def _moving_s(self, transfers: list[tuple[Slot, Slot, float]]) -> float:
        sharers = self._groups_per_chip()
        highest = max(self._tier(here, there) for here, there, _ in transfers)
        seconds: dict[str, float] = defaultdict(float)
        for here, there, moved in transfers:
            for link, kind, rate in self._path(here, there, highest):
                seconds[link] += moved / rate * (1 if kind == "core-link" else sharers)
                self.bytes_by_kind[kind] += moved
            if (tier := self._tier(here, there)) > 0:
                for kind in self._joined().path_kinds(tier)[1:-1]:
                    self.bytes_by_kind[kind] += moved
        return max(seconds.values())

    def _path(self, here: Slot, there: Slot, highest: int) -> list[tuple[str, str, float]]:
        """Return the links of a transfer: where they are, kind, rate."""
        if here.server != there.server:
            rate = self._joined().share_bytes_per_s(highest)
            return [
                (f"out of {here.server} {here.chip}", "efa", rate),
                (f"into {there.server} {there.chip}", "efa", rate),
            ]
        if here.chip != there.chip:
            route = self.fabric.cluster.server_topology.route(here.chip, there.chip)
            return [
                (f"{here.server} {link.source} {link.target}", link.kind, link.bandwidth_bytes_per_s * link.count)
                for link in route
            ]
        cores = cores_of(self.fabric.cluster.server_topology.server.chip)
        rate = cores.link_bytes_per_s(self.fabric.placement.ranks_per_chip)
        return [(f"{here} {there}", "core-link", rate)]

    def _latency_s(self, here: Slot, there: Slot) -> float:
        template = self.fabric.cluster.server_topology
        if here.server != there.server:
            return self._joined().path_latency_s(self._tier(here, there))
        if here.chip == there.chip:
            return cores_of(template.server.chip).link_latency_s.value
        return sum(link.latency_s for link in template.route(here.chip, there.chip))

    def _tier(self, here: Slot, there: Slot) -> int:
        chips = self.fabric.cluster.server_topology.chips
        if here.server == there.server:
            return -1
        return self._joined().meeting_tier(here.server * chips + here.chip, there.server * chips + there.chip)

    def _groups_per_chip(self) -> int:
        slots = [self.fabric.placement.slot(rank) for rank in self.group.members()]
        return -(-self.fabric.placement.ranks_per_chip // max(Counter((s.server, s.chip) for s in slots).values()))

    def _joined(self) -> FabricTopology:
        assert self.fabric.cluster.fabric is not None
        return self.fabric.cluster.fabric


def cores_of(chip: Chip) -> NeuronCores:
    """Return the NeuronCores of a chip that has some."""
    assert chip.neuron_cores is not None
    return chip.neuron_cores


def exact_link(kind: str, latency_s: float, bandwidth_bytes_per_s: float) -> LinkClass:
    """Return a link that achieves its datasheet bandwidth."""
    return LinkClass(kind, sourced(bandwidth_bytes_per_s), sourced(latency_s), sourced(1.0))


def star_server(latency_s: float, bandwidth_bytes_per_s: float) -> Server:
    """Return a server of one chip with one NIC."""
    return replace(single_chip_server(), scale_out=exact_link("efa", latency_s, bandwidth_bytes_per_s))


def exact_torus(dims: tuple[int, ...], latency_s: float, bandwidth_bytes_per_s: float) -> Server:
    """Return a torus of one class of links that achieve their bandwidth."""
    link = exact_link("torus", latency_s, bandwidth_bytes_per_s)
    return replace(torus_server(dims), scale_up=TorusScaleUp(dims, (link,) * len(dims)))


def scaled_server(server: Server, *, latency: float = 1.0, bandwidth: float = 1.0) -> Server:
    """Return the server with all its latencies and bandwidths times a factor, core links and NIC included."""

    def scaled(link: LinkClass) -> LinkClass:
        rate, delay = link.bandwidth_bytes_per_s.value * bandwidth, link.latency_s.value * latency
        return replace(link, bandwidth_bytes_per_s=sourced(rate), latency_s=sourced(delay))

    scale_up, chip, scale_out = server.scale_up, server.chip, server.scale_out
    if isinstance(scale_up, TorusScaleUp):
        scale_up = replace(scale_up, links=tuple(map(scaled, scale_up.links)))
    elif isinstance(scale_up, SwitchedScaleUp):
        sled, rack, cross = (scaled(link) for link in (scale_up.sled, scale_up.rack, scale_up.cross))
        scale_up = replace(scale_up, sled=sled, rack=rack, cross=cross)
    elif isinstance(scale_up, StarScaleUp):
        scale_up = replace(scale_up, switch=scaled(scale_up.switch))
    cores = cores_of(chip)
    cores = replace(
        cores,
        link_bandwidth_bytes_per_s=sourced(cores.link_bandwidth_bytes_per_s.value * bandwidth),
        link_latency_s=sourced(cores.link_latency_s.value * latency),
    )
    chip = replace(chip, neuron_cores=cores)
    return replace(server, chip=chip, scale_up=scale_up, scale_out=scale_out and scaled(scale_out))
