"""How long a collective must take at least on a network, whatever the algorithm."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trnsim.record import Record
from trnsim.topology.network import SWITCH

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from trnsim.topology.network import Network, Routes

    Integers = NDArray[np.int64]
    Floats = NDArray[np.float64]

__all__ = ["Bounds", "LowerBounds"]

_MOST_CROSSINGS = 1 << 22
_MOST_RELAYS = 512


class Bounds(Record):
    """Times that no algorithm can beat.

    Parameters
    ----------
    endpoint_s
        What a member has to send or receive, over all its links at once.
    bisection_s
        What has to pass between two halves of the network, over the links between them; 0 where the narrowest cut is
        not known or the group is not the whole network.
    latency_s
        The way of the first byte between the two members that are furthest apart.
    """

    endpoint_s: float
    bisection_s: float
    latency_s: float

    @property
    def largest_s(self) -> float:
        """The one that counts."""
        return max(self.endpoint_s, self.bisection_s, self.latency_s)


class Demand(NamedTuple):
    """What an operation asks of any algorithm, in buffers, with `n` members.

    Attributes
    ----------
    root
        What member 0 has to send, and to receive.
    other
        The same for each other member.
    together
        What all members together have to send if no switch adds or copies for them.
    across
        What has to pass one way between a members and the n - a others, with a <= n - a.
    """

    root: tuple[float, float]
    other: tuple[float, float]
    together: float
    across: Callable[[int], float]


def _demand(op: str, n: int) -> Demand | None:
    """Return what an operation asks; None if that depends on more than the size, or is nothing."""
    part, rest = 1 / n, (n - 1) / n
    each = {
        "all-reduce": ((1.0, 1.0), 2.0 * (n - 1), lambda _: 1.0),
        "all-gather": ((part, rest), n - 1.0, lambda a: (n - a) / n),
        "reduce-scatter": ((rest, part), n - 1.0, lambda a: (n - a) / n),
        "all-to-all": ((rest, rest), n - 1.0, lambda a: a * (n - a) / n),
        "send-recv": ((part, part), 1.0, lambda _: 0.0),
    }
    if op in each:
        both, together, across = each[op]
        return Demand(both, both, together, across)
    if op == "broadcast":
        return Demand((1.0, 0.0), (0.0, 1.0), n - 1.0, lambda _: 1.0)
    if op == "reduce":
        return Demand((0.0, 1.0), (1.0, 0.0), n - 1.0, lambda _: 1.0)
    return None


class LowerBounds(Record, eq=False, dict=True):
    r"""The least times of the operations of a group on a network.

    The contribution of a member must leave it and results must reach it: with :math:`x S` bytes over links of
    :math:`B` together that takes :math:`x S / B`. Where no switch adds, n members send at least :math:`2 (n - 1) S` for
    an all-reduce, as many messages as it takes until each of n people knows what all know. The same holds for halves
    of the network and the links between them. No byte is there before its latency has passed, by whatever members.

    Parameters
    ----------
    network
        Links and routes.
    members
        The endpoint at which each member of the group sits.

    Notes
    -----
    Where the routes between all members cross more than four million links, only some members' ports are looked at,
    unless a symmetry makes all alike; there, and among more than 512 members, the latency counts two hops at most.
    These bounds are lower than they could be. An all-to-all-v has no bounds but the latency of a link: its sizes are not known here.

    References
    ----------
    Patarasuk and Yuan, J. Parallel and Distributed Computing 69(2), 2009, doi:10.1016/j.jpdc.2008.09.002 (all-reduce);
    Harary and Schwenk, J. Franklin Institute 297(6), 1974, doi:10.1016/0016-0032(74)90117-8 (2 n - 2 one-way calls)

    Examples
    --------
    Each of 8 hosts of a star has to receive 7 GB over its link of 50 GB/s; a cut between halves has four links.

    >>> from trnsim.topology.machines import machine
    >>> star = machine("star", endpoints=8, bandwidth_bytes_per_s=50e9, latency_s=250e-9)
    >>> LowerBounds(star, np.arange(8)).of("all-gather", 8e9)
    Bounds(endpoint_s=0.14, bisection_s=0.02, latency_s=5e-07)
    """

    network: Network
    members: Integers

    def of(self, op: str, size_bytes: float, *, collective_s: float = 0.0, step_s: float = 0.0) -> Bounds:
        """Return the bounds of an operation.

        Parameters
        ----------
        op
            Canonical name, as `trnsim.collectives.op_names` lists it. The root of a broadcast or reduce is member 0.
        size_bytes
            Of the buffer. >= 0.
        collective_s, step_s
            Time that every collective, and every step, takes beside the network.

        Returns
        -------
        Bounds
            All 0 for a group of one.
        """
        n = len(self.members)
        if n == 1:
            return Bounds(0.0, 0.0, 0.0)
        demand, software_s = _demand(op, n), collective_s + step_s
        endpoint_s = self._endpoint_s(demand) * size_bytes if demand else 0.0
        bisection_s = self._bisection_s(demand) * size_bytes if demand else 0.0
        return Bounds(software_s + endpoint_s, software_s + bisection_s, software_s + self._latency_s(op))

    def _endpoint_s(self, demand: Demand) -> float:
        """Return the seconds per byte of the buffer."""
        is_root = self._looked_at == 0
        worst = 0.0
        for way, ports in enumerate(self._ports):
            least = np.where(is_root, demand.root[way], demand.other[way])
            worst = max(worst, float((least / ports).max()))
            if not self.network.reduces and (self._is_symmetric or len(ports) == len(self.members)):
                worst = max(worst, demand.together / (float(ports.mean()) * len(self.members)))
        return worst

    def _bisection_s(self, demand: Demand) -> float:
        """Return the seconds per byte of the buffer."""
        cut, n = self.network.bisection, len(self.members)
        if cut is None or n < self.network.endpoints or not cut.bytes_per_s:
            return 0.0
        return demand.across(n // 2) / cut.bytes_per_s

    def _latency_s(self, op: str) -> float:
        out, into = self._away
        if op == "all-to-all-v":
            return float(self.network.latency_s.min(initial=0.0))
        if op == "send-recv":
            return float(out[0, 1]) if len(out) == 1 else float(np.roll(out, -1, axis=1).diagonal().max())
        return float({"broadcast": out[0], "reduce": into[0]}.get(op, np.maximum(out, into)).max())

    @cached_property
    def _is_symmetric(self) -> bool:
        """Whether every member sees the network as member 0 does."""
        return self.network.orbit is not None and len(self.members) == self.network.endpoints

    @cached_property
    def _crossings(self) -> int:
        """Links that the routes from one member cross, about."""
        return max(len(self.members), len(self._routes(np.zeros(1, dtype=np.int64), out=True).link))

    @cached_property
    def _looked_at(self) -> Integers:
        """The members whose ports are looked at: all, one that stands for all, or as many as there is time for."""
        n = len(self.members)
        count = 1 if self._is_symmetric else min(n, max(1, _MOST_CROSSINGS // self._crossings))
        return np.arange(count) * n // count

    @cached_property
    def _ports(self) -> tuple[Floats, Floats]:
        """Bandwidth of all links together by which members that are looked at send to the others, and receive."""
        return self._bandwidth(self._routes(self._looked_at, out=True), out=True), self._bandwidth(
            self._routes(self._looked_at, out=False), out=False
        )

    @cached_property
    def _away(self) -> tuple[Floats, Floats]:
        """Least latencies from and to members, over any relays: a row for each, or one only if they are many."""
        n = len(self.members)
        if n > _MOST_RELAYS or n * self._crossings > _MOST_CROSSINGS:
            out, into = (self._latencies_s(self._routes(np.zeros(1, dtype=np.int64), out=way)) for way in (True, False))
            link_s = float(self.network.latency_s.min())
            out, into = (np.minimum(direct, np.sort(direct)[:, 1:2] + link_s) for direct in (out, into))
            return out[:, :n], into[:, :n]
        direct = self._latencies_s(self._routes(np.arange(n), out=True))
        if self.network.reduces:
            back = self._latencies_s(self._routes(np.arange(n), out=False))[:, -1]
            direct = np.vstack([direct, np.append(back, 0.0)])
        for relay in range(len(direct)):
            direct = np.minimum(direct, direct[:, relay, None] + direct[relay])
        return direct[:n, :n], direct[:n, :n].T

    def _routes(self, members: Integers, *, out: bool) -> Routes:
        """Return the ways from some members to all, and to the switch that adds if there is one; or back."""
        return self._first[not out] if len(members) == 1 and not members[0] else self._found_routes(members, out=out)

    @cached_property
    def _first(self) -> tuple[Routes, Routes]:
        """The ways from the first member, and back."""
        first = np.zeros(1, dtype=np.int64)
        return self._found_routes(first, out=True), self._found_routes(first, out=False)

    def _found_routes(self, members: Integers, *, out: bool) -> Routes:
        others = np.append(self.members, SWITCH) if self.network.reduces else self.members
        here, there = np.repeat(self.members[members], len(others)), np.tile(others, len(members))
        return self.network.router(*((here, there) if out else (there, here)))

    def _bandwidth(self, routes: Routes, *, out: bool) -> Floats:
        """Add up, for each member that is looked at, the different links at its end of the routes."""
        crossed = np.flatnonzero(routes.lengths)
        place = routes.first[:-1][crossed] if out else routes.first[1:][crossed] - 1
        width = len(self.members) + self.network.reduces
        whose, links = routes.transfer[crossed] // width, self.network.links
        owner, link = np.divmod(np.unique(whose * links + routes.link[place]), links)
        return np.bincount(owner, self.network.bytes_per_s[link], len(self._looked_at)).astype(np.float64)

    def _latencies_s(self, routes: Routes) -> Floats:
        """Return the latency of each transfer by its shortest path, a row per member."""
        begins = np.flatnonzero(np.diff(routes.transfer, prepend=-1))
        shortest = np.minimum.reduceat(self.network.latencies_s(routes), begins)
        return np.asarray(shortest).reshape(-1, len(self.members) + self.network.reduces)
