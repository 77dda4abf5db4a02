"""What one step of a program puts on the links, counted in transfers of equal size."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from msgspec import Struct, field

from trnsim.fabric.paths import NIC
from trnsim.topology.links import CORE_LINK

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from trnsim.fabric.paths import Paths, Wire
    from trnsim.parallel import Slot

__all__ = ["Traffic"]


class Traffic(Struct):
    """The transfers of one step, added up by link.

    Parameters
    ----------
    paths
        The ways that they take.

    Attributes
    ----------
    loads
        Transfers on each wire of each server that is looked at.
    copies
        How many servers of the group are loaded as each of these is; 1 if not given.
    by_tier
        Transfers between servers, over the whole group, by the tier of the fabric in which they turn round.
    inside_latency_s
        The longest latency of a path inside a server.
    numbers
        By member, the server under which its transfers are counted; repeats itself.
    between, beyond
        The same transfers by the places that they join, and by the chip whose NIC they take and whether they leave by it;
        kept where `is_kept`, for servers whose links are not as those of others.
    """

    paths: Paths
    is_kept: bool = False
    loads: Counter[tuple[int, Wire]] = field(default_factory=Counter)
    copies: dict[int, int] = field(default_factory=dict)
    by_tier: Counter[int] = field(default_factory=Counter)
    inside_latency_s: float = 0.0
    numbers: list[int] = field(default_factory=lambda: [0])
    between: dict[int, Counter[tuple[Slot, Slot]]] = field(default_factory=dict)
    beyond: dict[int, Counter[tuple[int, bool]]] = field(default_factory=dict)

    def inside(self, server: int, source: Slot, target: Slot, transfers: int = 1) -> None:
        """Add transfers between two places of a server."""
        wires, latency_s = self.paths.inside(source, target)
        self.inside_latency_s = max(self.inside_latency_s, latency_s)
        for wire in wires:
            self.loads[server, wire] += transfers
        if self.is_kept:
            self.between.setdefault(server, Counter())[source, target] += transfers

    def leave(self, slots: Iterable[Slot], times: int = 1) -> None:
        """Add transfers that go out through the NICs of the chips at some places, from each so many times."""
        self._over_nics(slots, times, out=True)

    def arrive(self, slots: Iterable[Slot], times: int = 1) -> None:
        """Add transfers that come in through the NICs of the chips at some places, to each so many times."""
        self._over_nics(slots, times, out=False)

    def _over_nics(self, slots: Iterable[Slot], times: int, *, out: bool) -> None:
        counted = Counter((slot.server, slot.chip) for slot in slots)
        nics = {chip: self.paths.nic(chip, out=out) for chip in {chip for _, chip in counted}}
        for (server, chip), transfers in counted.items():
            self.loads[server, nics[chip]] += transfers * times
            if self.is_kept:
                self.beyond.setdefault(server, Counter())[chip, out] += transfers * times

    @property
    def latency_s(self) -> float:
        """The longest latency of a path."""
        return max([self.inside_latency_s, *(self.paths.tiers[tier].latency_s for tier in self.by_tier)])

    def way_s(self, rings: int, hops: int) -> float:
        """Return the latency of so many transfers one after the other along one of several rings that are alike.

        All transfers between servers that a ring has are among them; inside a server the longest path counts.
        """
        crossings = sum(self.by_tier.values())
        crossing_s = sum(count * self.paths.tiers[tier].latency_s for tier, count in self.by_tier.items())
        outside = min(hops, crossings / rings)
        return outside * (crossing_s / crossings if crossings else 0.0) + (hops - outside) * self.inside_latency_s

    def carried(self) -> Mapping[str, int]:
        """Return transfers times links by kind of link, over the whole group."""
        carried: Counter[str] = Counter()
        for (server, wire), transfers in self.loads.items():
            if wire.kind != NIC:
                carried[wire.kind] += transfers * self.copies.get(server, 1)
        for tier, transfers in self.by_tier.items():
            for kind in self.paths.tiers[tier].kinds:
                carried[kind] += transfers
        return carried

    @property
    def top(self) -> int | None:
        """The highest tier that a transfer reaches; None if all stay in their servers."""
        return max(self.by_tier) if self.by_tier else None

    def bottleneck(self, groups_per_chip: int, struck: Mapping[int, int] | None = None) -> tuple[str, float]:
        """Return the kind of the slowest link, and its seconds per byte of a transfer.

        What goes to other servers has the rate of the highest tier that any of it reaches.

        Parameters
        ----------
        groups_per_chip
            Parallel groups that do the same on each chip: they share its links to other chips and its NIC.
        struck
            How many of the servers that are counted as one have impaired links and are looked at by themselves.
        """
        worst, slowest = 0.0, NIC
        outside = None if self.top is None else self.paths.tiers[self.top]
        without = {number for number, count in (struck or {}).items() if self.copies.get(number, 1) <= count}
        for (server, wire), transfers in self.loads.items():
            if server in without:
                continue
            kind, rate = wire.kind, wire.bytes_per_s
            if kind == NIC and outside:
                kind, rate = outside.limit, outside.bytes_per_s
            sharers = 1 if kind == CORE_LINK else groups_per_chip
            if (seconds := transfers * sharers / rate) > worst:
                worst, slowest = seconds, kind
        return slowest, worst
