"""Servers with impaired links: what transfers cost there that cost the same on all others."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct, field

from trnsim.fabric.paths import NIC
from trnsim.record import Record
from trnsim.topology.detours import detour, without
from trnsim.topology.links import CORE_LINK
from trnsim.topology.places import Cable, Trunk

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping

    from trnsim.fabric.layout import Layout
    from trnsim.fabric.paths import Paths, Wire
    from trnsim.fabric.traffic import Traffic
    from trnsim.parallel import Group, Placement, Slot
    from trnsim.topology.perturbations import Impairments

    Ends = tuple[str, str]
    Route = tuple[tuple[Wire, ...], float, Ends | None]
    """Wires, their latency, and the failed cable that they lead round."""
    Door = tuple[int, bool]
    """The NIC of a chip, and whether bytes leave by it."""
    Culprit = Cable | Trunk | int
    """What is wrong: cables, a trunk, or the NIC of a chip of the cluster."""

__all__ = ["Bottleneck", "Struck", "StruckServer"]


class Bottleneck(NamedTuple):
    """The slowest link of a step.

    Attributes
    ----------
    kind, seconds
        Its kind, and its seconds per byte of a transfer.
    latency_s
        The longest latency of a path.
    culprit, late_by
        The impaired link by which it is slower than it was to be, and that by which the longest path is longer; None where
        none is to blame.
    """

    kind: str
    seconds: float
    latency_s: float
    culprit: Culprit | None = None
    late_by: Culprit | None = None


class StruckServer(NamedTuple):
    """A server with impaired links as a group has it: its number, the first member there, and its chips.

    Each chip comes as a layout that costs the same has it, and as it is.
    """

    number: int
    member: int
    chips: tuple[tuple[int, int], ...]


class _Loads(Struct):
    """The transfers of a server by wire, chip and NIC; what leads round which failed link; the longest latency, and by which."""

    wires: Counter[Wire] = field(default_factory=Counter)
    beyond: list[tuple[int, int]] = field(default_factory=list)
    doors: Counter[Door] = field(default_factory=Counter)
    around: dict[Wire | Door, Culprit] = field(default_factory=dict)
    latency_s: float = 0.0
    late_by: Culprit | None = None

    def add(self, wires: Iterable[Wire], transfers: int, latency_s: float, failed: Culprit | None) -> None:
        """Lay transfers on a path, which may lead round a link that has failed."""
        for wire in wires:
            self.wires[wire] += transfers
            if failed is not None:
                self.around.setdefault(wire, failed)
        if latency_s > self.latency_s:
            self.latency_s, self.late_by = latency_s, failed


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
    NIC has failed uses that of the nearest chip that has one. What goes round shares the links of chips outside the group
    with what their own groups are taken to send there at once: as much as this one has on its busiest link of the kind, and of
    those that use a NIC for want of their own each as much. They are not slowed themselves, their detours inside the server are
    not seen, and detours are not counted in the bytes on links. Below a degraded trunk every chip has its share of what is
    left, as if all sent at once.
    """

    paths: Paths
    placement: Placement
    impairments: Impairments

    @cached_property
    def _detours(self) -> dict[tuple[frozenset[Ends], int, int], Route]:
        return {}

    @cached_property
    def _outside(self) -> dict[int, defaultdict[int, list[int]]]:
        return {}

    @cached_property
    def _users_of(self) -> dict[int, defaultdict[int, set[int]]]:
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

    def bottleneck(self, traffic: Traffic, number: int, struck: StruckServer, groups_per_chip: int) -> Bottleneck:
        """Return the slowest link of a struck server.

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
        server, first = struck.number, struck.number * self.paths.chips
        loads = self._loads(traffic, number, server, dict(struck.chips))
        others = self._others(traffic, number, loads, struck)
        worst, slowest = 0.0, NIC
        culprit: Culprit | None = None
        shares = self._shares(server)
        for wire, transfers in loads.wires.items():
            sharers = 1 if wire.kind == CORE_LINK else groups_per_chip
            rate = wire.bytes_per_s * shares.get(wire.ends, 1.0)
            if (seconds := (transfers + others[wire]) * sharers / rate) > worst:
                worst, slowest, culprit = seconds, wire.kind, self._cable(server, wire) or loads.around.get(wire)
        for chip, transfers in loads.beyond:
            kind, rate, wrong = self._share_above(first + chip, traffic.top)
            if (seconds := transfers * groups_per_chip / rate) > worst:
                worst, slowest, culprit = seconds, kind, wrong
        for (chip, out), transfers in loads.doors.items():
            kind, rate, wrong = self._nic(first + chip)
            if (seconds := (transfers + others[chip, out]) * groups_per_chip / rate) > worst:
                worst, slowest = seconds, kind
                culprit = loads.around.get((chip, out)) if wrong is None else wrong
        return Bottleneck(slowest, worst, loads.latency_s, culprit, loads.late_by)

    def _cable(self, server: int, wire: Wire) -> Cable | None:
        """Return the impaired cable that a wire is one way of."""
        cables = self.impairments.cables.get(server, {})
        return next((Cable(server, pair) for pair in cables if wire.ends in (pair, pair[::-1])), None)

    def _loads(self, traffic: Traffic, number: int, server: int, chips: Mapping[int, int]) -> _Loads:
        """Lay the transfers of a server on the wires and NICs that are left to it."""
        found, first = _Loads(), server * self.paths.chips
        for (source, target), transfers in traffic.between.get(number, {}).items():
            here, there = (slot._replace(chip=chips[slot.chip]) for slot in (source, target))
            wires, way_s, failed = self._route(server, here, there)
            found.add(wires, transfers, way_s, failed and Cable(server, failed))
        for (place, out), transfers in traffic.beyond.get(number, {}).items():
            chip = chips[place]
            door = self._door(server, chip)
            found.beyond.append((chip, transfers))
            found.doors[door, out] += transfers
            if door != chip:
                wires, way_s, _ = self._between_chips(server, *((chip, door) if out else (door, chip)))
                found.add(wires, transfers, way_s + traffic.latency_s, first + chip)
                found.around.setdefault((door, out), first + chip)
        return found

    def _others(self, traffic: Traffic, number: int, loads: _Loads, struck: StruckServer) -> Mapping[Wire | Door, int]:
        """Return what groups of other chips send over links that lead round failed ones."""
        found: Counter[Wire | Door] = Counter()
        if not loads.around:
            return found
        mine = {chip for _, chip in struck.chips}
        ends_of_mine = {f"chip {chip}" for chip in mine}
        busiest: Counter[str] = Counter()
        for (server, wire), transfers in traffic.loads.items():
            if server == number:
                busiest[wire.kind] = max(busiest[wire.kind], transfers)
        for link in loads.around:
            if isinstance(link, tuple):
                found[link] = busiest[NIC] * len(self._users(struck.number)[link[0]] - mine)
            elif any(str(end).startswith("chip ") and end not in ends_of_mine for end in link.ends):
                found[link] = busiest[link.kind]
        return found

    def _users(self, server: int) -> Mapping[int, set[int]]:
        """Return the chips that use each NIC of a server."""
        if server not in self._users_of:
            found = self._users_of[server] = defaultdict(set)
            for chip in range(self.paths.chips):
                found[self._door(server, chip)].add(chip)
        return self._users_of[server]

    def _shares(self, server: int) -> Mapping[tuple[object, object], float]:
        cables = self.impairments.cables.get(server, {})
        return {ends: share for pair, share in cables.items() for ends in (pair, pair[::-1])}

    def _route(self, server: int, source: Slot, target: Slot) -> Route:
        if source.chip == target.chip:
            return *self.paths.inside(source, target), None
        return self._between_chips(server, source.chip, target.chip)

    def _between_chips(self, server: int, source: int, target: int) -> Route:
        cables = self.impairments.cables.get(server, {})
        failed = frozenset(pair for pair, share in cables.items() if not share)
        key = (failed, source, target)
        if key not in self._detours:
            self._detours[key] = self._way(*key)
        return self._detours[key]

    def _way(self, failed: frozenset[Ends], source: int, target: int) -> Route:
        template = self.paths.cluster.server_topology
        links = template.route(source, target)
        ends = (pair for link in links for pair in ((link.source, link.target), (link.target, link.source)))
        cause = next((pair for pair in ends if pair in failed), None)
        if cause is None:
            return *self.paths.over(links), None
        around = detour(without(template, failed), f"chip {source}", f"chip {target}")
        return *self.paths.over(template.links_along(around)), cause

    def _door(self, server: int, chip: int) -> int:
        """Return the chip whose NIC a chip uses."""
        first, nics = server * self.paths.chips, self.impairments.nics
        if nics.get(first + chip, 1.0):
            return chip
        others = [other for other in range(self.paths.chips) if nics.get(first + other, 1.0)]
        return min(others, key=lambda other: (self._between_chips(server, chip, other)[1], other))

    @cached_property
    def _nic_rate(self) -> float:
        """What a healthy NIC carries."""
        fabric = self.paths.cluster.fabric
        return fabric.link_rates()[self.paths.tiers[0].kinds[0]] if fabric else 0.0

    @cached_property
    def _trunk_rates(self) -> dict[int, float]:
        """What all trunks of a switch group carry, by the tiers at which some are impaired."""
        fabric = self.paths.cluster.fabric
        tiers = {trunk.tier for trunk in self.impairments.trunks}
        return {tier: fabric.trunk_bandwidth_bytes_per_s(tier) for tier in tiers} if fabric else {}

    def _nic(self, chip: int) -> tuple[str, float, Culprit | None]:
        """Return the kind of the NIC of a chip, what it carries, and itself if it is impaired."""
        share = self.impairments.nics.get(chip)
        culprit, rate = (None, self._nic_rate) if share is None else (chip, self._nic_rate * share)
        return self.paths.tiers[0].kinds[0], rate, culprit

    def _share_above(self, chip: int, top: int | None) -> tuple[str, float, Culprit | None]:
        """Return what limits the bytes of a chip up to a tier, its share of that, and the impaired trunk that it is."""
        if top is None:
            raise ValueError("nothing leaves a server")
        tier = self.paths.tiers[top]
        found: list[tuple[float, str, Culprit | None]] = [(tier.bytes_per_s, tier.limit, None)]
        for level, below in enumerate(self.paths.blocks[:top]):
            trunk = Trunk(level, chip // below)
            share = self.impairments.trunks.get(trunk)
            if share is not None:
                found.append((self._trunk_rates[level] * share / below, tier.kinds[level + 1], trunk))
        rate, kind, culprit = min(found, key=itemgetter(0, 1))
        return kind, rate, culprit
