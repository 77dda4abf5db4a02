"""A tiered fabric as a specification: what each tier is made of and how many chips it holds."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from trnsim.errors import Problem
from trnsim.record import Record
from trnsim.units import format_time

if TYPE_CHECKING:
    from trnsim.hardware import Sourced

__all__ = ["FabricSpec", "Tier"]


class Tier(Record):
    """One tier of switches; all switches of a tier are alike.

    Parameters
    ----------
    name
        ``tor``, ``leaf``, ``spine``, ``building``.
    radix
        Ports of one switch. >= 2.
    oversubscription
        Ports down over ports up while a tier above is in use. >= 1; 1 is non-blocking. The top tier in use has
        no ports up.
    latency_s
        What a path that turns round in this tier takes longer than one that turns round in the tier below; in the
        first tier, longer than the latency of the server's scale-out link, which is that of a path over one switch.

    Notes
    -----
    Ports up are radix / (1 + oversubscription), rounded down; ports down are that times the oversubscription, rounded
    down; ports that are left over stay empty.

    Examples
    --------
    >>> from trnsim.topology import load_fabric
    >>> tor = load_fabric("ultracluster-2to1").tiers[0]
    >>> tor.down_ports, tor.up_ports
    (84, 42)
    """

    name: str
    radix: Sourced[int]
    oversubscription: Sourced[float]
    latency_s: Sourced[float]

    @property
    def kind(self) -> str:
        """Kind of its nodes in a graph: its name."""
        return self.name

    @property
    def up_ports(self) -> int:
        """Ports of one switch towards the tier above."""
        return math.floor(self.radix.value / (1 + self._ratio))

    @property
    def down_ports(self) -> int:
        """Ports of one switch towards the chips, while a tier above is in use."""
        return math.floor(self.up_ports * self._ratio)

    @property
    def _ratio(self) -> Fraction:
        return Fraction(str(self.oversubscription.value))


class FabricSpec(Record):
    """A fabric of tiers, independent of the servers that hang on it.

    Parameters
    ----------
    name
        As in ``topologies/``.
    description
        One sentence.
    planes
        Complete copies of all tiers side by side; a chip has one port in each, and spreads its bytes over them. >= 1.
    tiers
        From the chips upward. At least one.
    notes
        What a reader of the numbers should know.

    Notes
    -----
    Not modelled: rails (neighbouring chips of a server on different top-of-rack switches), dragonflies, links that
    skip a tier.
    """

    name: str
    description: str
    planes: Sourced[int]
    tiers: tuple[Tier, ...]
    notes: tuple[str, ...] = ()

    def capacity(self, tiers: int) -> int:
        r"""Return the most chips that the first `tiers` tiers can join.

        .. math:: C_k = r_k \prod_{i<k} d_i

        with :math:`r` ports and :math:`d` ports down per switch; without oversubscription and with one radix that is
        the fat tree's :math:`2 (r/2)^k`. Planes do not change it: a chip has a port in each.

        Parameters
        ----------
        tiers
            1 <= tiers <= number of tiers.

        References
        ----------
        Al-Fares, Loukissas, Vahdat, SIGCOMM 2008, doi:10.1145/1402958.1402967
        """
        return self.chips_below(tiers - 1, tiers)

    def chips_below(self, tier: int, tiers_used: int) -> int:
        """Return how many chips hang below one switch group of a tier (from 0) with `tiers_used` tiers in use."""
        down = math.prod(level.down_ports for level in self.tiers[: min(tier + 1, tiers_used - 1)])
        return down * (self.tiers[tier].radix.value if tier == tiers_used - 1 else 1)

    def tiers_for(self, chips: int) -> int | None:
        """Return the fewest tiers that hold `chips` chips; None when all of them hold fewer."""
        counts = range(1, len(self.tiers) + 1)
        return next((count for count in counts if chips <= self.capacity(count)), None)

    def problem(self, chips_per_server: int, servers: int) -> Problem | None:
        """Return what is wrong with hanging so many servers on this fabric; None when they fit.

        The problem is one of input, not of capacity: no fabric of these tiers exists, however many switches are bought.
        """
        chips = chips_per_server * servers
        if self.tiers_for(chips) is not None:
            return None
        tiers = len(self.tiers)
        held = self.capacity(tiers)
        factors = [str(tier.down_ports) for tier in self.tiers[:-1]] + [str(self.tiers[-1].radix.value)]
        return Problem(
            key="cluster.servers",
            value=f"{servers}",
            message=(
                f"{servers:,} servers x {chips_per_server} chips = {chips:,} chips; the {tiers} tiers of fabric "
                f"{self.name} hold {' x '.join(factors)} = {held:,}; "
                f"at most {held // chips_per_server:,} servers of {chips_per_server} chips fit"
            ),
        )

    def facts(self) -> dict[str, int | str]:
        """Return counted facts, name to value, in reading order."""
        facts: dict[str, int | str] = {"planes": self.planes.value}
        for count, tier in enumerate(self.tiers, start=1):
            facts[f"{tier.name}: ports down + up"] = f"{tier.down_ports} + {tier.up_ports} of {tier.radix.value}"
            facts[f"{tier.name}: added latency"] = format_time(tier.latency_s.value)
            facts[f"chips in {count} tier{'s' if count > 1 else ''}"] = self.capacity(count)
        return facts
