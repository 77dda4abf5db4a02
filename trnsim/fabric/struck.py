"""Servers with impaired links: what transfers cost there that cost the same on all others."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from trnsim.fabric.paths import NIC
from trnsim.record import Record
from trnsim.topology.detours import detour, without
from trnsim.topology.links import CORE_LINK
from trnsim.topology.places import Trunk

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from trnsim.fabric.layout import Layout
    from trnsim.fabric.paths import Paths, Wire
    from trnsim.fabric.traffic import Traffic
    from trnsim.parallel import Group, Placement, Slot
    from trnsim.topology import FabricTopology
    from trnsim.topology.perturbations import Impairments

    Route = tuple[tuple[Wire, ...], float]

__all__ = ["Struck", "StruckServer"]


class StruckServer(NamedTuple):
    """A server with impaired links as a group has it: its number, the first member there, and its chips.

    Each chip comes as a layout that costs the same has it, and as it is.
    """

    number: int
    member: int
    chips: tuple[tuple[int, int], ...]


class Struck(Record, eq=False, dict=True):
    """The servers of a cluster whose links are impaired.

    Parameters
    ----------
    paths
        The ways of healthy servers.
    placement
        Which rank is where.
    impairments
        What is wrong.

    Notes
    -----
    Bytes go round a cable that has failed on the way of fewest latency, which may lead through other chips. A chip whose
    NIC has failed uses that of the nearest chip that has one. Below a degraded trunk every chip has its share of what is
    left, as if all sent at once. Detours are not counted in the bytes on links.
    """

    paths: Paths
    placement: Placement
    impairments: Impairments

    @cached_property
    def _detours(self) -> dict[tuple[frozenset[tuple[str, str]], int, int], Route]:
        return {}

    @cached_property
    def _outside(self) -> dict[int, defaultdict[int, list[int]]]:
        return {}

    @cached_property
    def inside(self) -> frozenset[int]:
        """Servers whose chips use each other's links: one inside is impaired, or a NIC has failed."""
        failed = {chip // self.paths.chips for chip, share in self.impairments.nics.items() if not share}
        return frozenset(failed | self.impairments.cables.keys())

    @cached_property
    def _chips_outside(self) -> frozenset[int]:
        """Chips whose way to other servers is impaired."""
        found = set(self.impairments.nics)
        fabric = self.paths.cluster.fabric
        for trunk in self.impairments.trunks if fabric else ():
            below = self.paths.blocks[trunk.tier]
            found.update(range(trunk.group * below, min((trunk.group + 1) * below, self.paths.cluster.chips)))
        return frozenset(found)

    @cached_property
    def _wrongs(self) -> dict[int, tuple[Hashable, ...]]:
        """What is wrong with each server, chips counted from its first."""
        chips = self.paths.chips
        found: defaultdict[int, list[Hashable]] = defaultdict(list)
        for server, cables in sorted(self.impairments.cables.items()):
            found[server].append(tuple(sorted(cables.items())))
        for chip, share in sorted(self.impairments.nics.items()):
            found[chip // chips].append((chip % chips, share))
        for trunk, share in sorted(self.impairments.trunks.items() if self.paths.cluster.fabric else ()):
            first, end = (group * self.paths.blocks[trunk.tier] for group in (trunk.group, trunk.group + 1))
            for server in range(first // chips, -(-min(end, self.paths.cluster.chips) // chips)):
                found[server].append(
                    (trunk.tier, max(first - server * chips, 0), min(end - server * chips, chips), share)
                )
        return {server: tuple(wrong) for server, wrong in found.items()}

    def wrongs(self, server: int) -> Hashable:
        """Return what is wrong with a struck server: where that is the same, everything costs the same."""
        return self._wrongs.get(server, ())

    def members(self, group: Group) -> dict[int, int]:
        """Return the struck servers of a group, each with its first member there."""
        per_server, last = self.placement.ranks_per_server, group.first + group.stride * (group.size - 1)
        if group.first // per_server == last // per_server:
            servers = self.inside & {group.first // per_server}
        else:
            ranks = self._ranks_outside(group.stride).get(group.first % group.stride, [])
            touched = ranks[bisect_left(ranks, group.first) : bisect_right(ranks, last)]
            servers = self.inside | {rank // per_server for rank in touched}
        found = {}
        for server in sorted(servers):
            member = max(0, -(-(server * per_server - group.first) // group.stride))
            rank = group.first + member * group.stride
            if member < group.size and rank // per_server == server:
                found[server] = member
        return found

    def servers_of(self, group: Group, layout: Layout) -> tuple[StruckServer, ...]:
        """Return the struck servers of a group that is priced in a layout."""
        return tuple(
            StruckServer(server, member, self._chips_of(server, group, member, layout))
            for server, member in self.members(group).items()
        )

    def _chips_of(self, server: int, group: Group, member: int, layout: Layout) -> tuple[tuple[int, int], ...]:
        """Pair the chips of a server, from that of a group's first member there on."""
        chips = {}
        for later in range(member, group.size):
            slot = self.placement.slot(group.first + later * group.stride)
            if slot.server != server:
                break
            chips[layout.slot(later).chip] = slot.chip
        return tuple(chips.items())

    def _ranks_outside(self, stride: int) -> Mapping[int, list[int]]:
        """Return the ranks whose way to other servers is impaired, in order, by what is left of their numbers over a stride."""
        if stride not in self._outside:
            found = self._outside[stride] = defaultdict(list)
            for rank in sorted(rank for chip in self._chips_outside for rank in self.placement.ranks_on(chip)):
                found[rank % stride].append(rank)
        return self._outside[stride]

    def bottleneck(
        self, traffic: Traffic, number: int, struck: StruckServer, groups_per_chip: int
    ) -> tuple[str, float, float]:
        """Return the kind of the slowest link of a struck server, its seconds per byte of a transfer, and a latency.

        Parameters
        ----------
        traffic
            Of a step, with its transfers by place.
        number
            The server of the traffic that is loaded as this one.
        struck
            The struck server.
        groups_per_chip
            Parallel groups that do the same on each chip.
        """
        server = struck.number
        loads, doors, latency_s = self._loads(traffic, number, server, dict(struck.chips))
        worst, slowest = 0.0, NIC
        shares = self._shares(server)
        for wire, transfers in loads.items():
            sharers = 1 if wire.kind == CORE_LINK else groups_per_chip
            seconds = transfers * sharers / (wire.bytes_per_s * shares.get(wire.ends, 1.0))
            if seconds > worst:
                worst, slowest = seconds, wire.kind
        for (chip, _), transfers in doors.items():
            kind, rate = self._nic_rate(server * self.paths.chips + chip, traffic.top)
            if (seconds := transfers * groups_per_chip / rate) > worst:
                worst, slowest = seconds, kind
        return slowest, worst, latency_s

    def _loads(
        self, traffic: Traffic, number: int, server: int, chips: Mapping[int, int]
    ) -> tuple[Counter[Wire], Counter[tuple[int, bool]], float]:
        """Lay the transfers of a server on the wires and NICs that are left to it."""
        loads: Counter[Wire] = Counter()
        doors: Counter[tuple[int, bool]] = Counter()
        latency_s = 0.0
        for (source, target), transfers in traffic.between.get(number, {}).items():
            here, there = (slot._replace(chip=chips[slot.chip]) for slot in (source, target))
            wires, way_s = self._route(server, here, there)
            latency_s = max(latency_s, way_s)
            for wire in wires:
                loads[wire] += transfers
        for (place, out), transfers in traffic.beyond.get(number, {}).items():
            chip = chips[place]
            door = self._door(server, chip)
            doors[door, out] += transfers
            if door != chip:
                wires, way_s = self._between_chips(server, *((chip, door) if out else (door, chip)))
                latency_s = max(latency_s, way_s + traffic.latency_s)
                for wire in wires:
                    loads[wire] += transfers
        return loads, doors, latency_s

    def _shares(self, server: int) -> Mapping[tuple[object, object], float]:
        cables = self.impairments.cables.get(server, {})
        return {ends: share for pair, share in cables.items() for ends in (pair, pair[::-1])}

    def _route(self, server: int, source: Slot, target: Slot) -> Route:
        if source.chip == target.chip:
            return self.paths.inside(source, target)
        return self._between_chips(server, source.chip, target.chip)

    def _between_chips(self, server: int, source: int, target: int) -> Route:
        cables = self.impairments.cables.get(server, {})
        failed = frozenset(pair for pair, share in cables.items() if not share)
        key = (failed, source, target)
        if key not in self._detours:
            self._detours[key] = self._way(*key)
        return self._detours[key]

    def _way(self, failed: frozenset[tuple[str, str]], source: int, target: int) -> Route:
        template = self.paths.cluster.server_topology
        links = template.route(source, target)
        if failed & {pair for link in links for pair in ((link.source, link.target), (link.target, link.source))}:
            links = template.links_along(detour(without(template, failed), f"chip {source}", f"chip {target}"))
        return self.paths.over(links)

    def _door(self, server: int, chip: int) -> int:
        """Return the chip whose NIC a chip uses."""
        first, nics = server * self.paths.chips, self.impairments.nics
        if nics.get(first + chip, 1.0):
            return chip
        others = [other for other in range(self.paths.chips) if nics.get(first + other, 1.0)]
        return min(others, key=lambda other: (self._between_chips(server, chip, other)[1], other))

    @cached_property
    def _trunk_rates(self) -> dict[int, float]:
        """What all trunks of a switch group carry, by the tiers at which some are impaired."""
        fabric = self.paths.cluster.fabric
        tiers = {trunk.tier for trunk in self.impairments.trunks}
        return {tier: fabric.trunk_bandwidth_bytes_per_s(tier) for tier in tiers} if fabric else {}

    def _nic_rate(self, chip: int, top: int | None) -> tuple[str, float]:
        """Return what limits the bytes of a chip up to a tier, and their rate."""
        fabric: FabricTopology | None = self.paths.cluster.fabric
        if fabric is None or top is None:
            raise ValueError("nothing leaves a server")
        tier = self.paths.tiers[top]
        nic = tier.kinds[0]
        found = [(tier.bytes_per_s, tier.limit)]
        if chip in self.impairments.nics:
            found.append((fabric.link_rates()[nic] * self.impairments.nics[chip], nic))
        for level, below in enumerate(self.paths.blocks[:top]):
            share = self.impairments.trunks.get(Trunk(level, chip // below))
            if share is not None:
                found.append((self._trunk_rates[level] * share / below, tier.kinds[level + 1]))
        rate, kind = min(found)
        return kind, rate
