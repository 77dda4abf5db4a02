"""A network as arrays: endpoints, directed links with what they carry, and the routes between endpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from msgspec.structs import replace

from trnsim.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

__all__ = ["ADDED", "KEPT", "PASSED_ON", "SWITCH", "Network", "Routes", "Touches"]

SWITCH = -1
"""Stands for the reducing switch where a route starts or ends in it."""


class Touches(NamedTuple):
    """How often each byte of a transfer is read or written in the memories of two chips.

    Parameters
    ----------
    source
        At the sender: 1 if it reads the byte, 0 if the byte has just passed by. >= 0.
    target
        At the receiver: 1 if it keeps the byte, 2 if it adds it, reading its own and writing the sum. >= 0.
    """

    source: int
    target: int


KEPT, ADDED, PASSED_ON = Touches(1, 1), Touches(1, 2), Touches(0, 1)
"""A transfer that the receiver keeps, one that it adds, and one of bytes that are on their way through the chip."""


class Routes(Record, eq=False):
    """The paths of a list of transfers, as arrays.

    A transfer may be cut into equal parts that take several paths: ties between two ways round a torus, multipath of
    equal cost. Every transfer has at least one path; one from an endpoint to itself crosses no link.

    Parameters
    ----------
    transfer
        Per path: index of its transfer. Paths of one transfer follow each other, transfers in their order.
    parts
        Per path: in how many equal parts its transfer is cut. >= 1.
    first
        Per path, and one more for the end: where its crossings start in `link`.
    link
        Links crossed, path after path, in the order of travel.
    weight
        Per crossing: how often that link is touched per byte; 1 for wires.
    """

    transfer: NDArray[np.int64]
    parts: NDArray[np.int64]
    first: NDArray[np.int64]
    link: NDArray[np.int64]
    weight: NDArray[np.int64]

    @classmethod
    def from_columns(cls, columns: ArrayLike) -> Routes:
        """Make routes of one path each.

        Parameters
        ----------
        columns
            A row of links per transfer, in the order of travel; -1 where a row is shorter.

        Examples
        --------
        >>> routes = Routes.from_columns([[0, 5], [-1, -1], [3, -1]])
        >>> routes.first.tolist(), routes.link.tolist()
        ([0, 2, 2, 3], [0, 5, 3])
        """
        rows = np.atleast_2d(np.asarray(columns, dtype=np.int64))
        crossed = rows >= 0
        transfers = len(rows)
        return cls.from_lengths(
            np.arange(transfers), np.ones(transfers, dtype=np.int64), crossed.sum(axis=1), rows[crossed]
        )

    @classmethod
    def from_lengths(
        cls,
        transfer: NDArray[np.int64],
        parts: NDArray[np.int64],
        lengths: NDArray[np.int64],
        link: NDArray[np.int64],
    ) -> Routes:
        """Make routes of wires from the number of links on each path."""
        first = np.zeros(len(lengths) + 1, dtype=np.int64)
        np.cumsum(lengths, out=first[1:])
        return cls(transfer, parts, first, link, np.ones(len(link), dtype=np.int64))

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Per path: the number of links that it crosses."""
        return np.diff(self.first)

    @property
    def path_of_crossing(self) -> NDArray[np.int64]:
        """Per crossing: index of its path."""
        return np.repeat(np.arange(len(self.transfer)), self.lengths)

    def touching(self, starts: NDArray[np.int64], ends: NDArray[np.int64], touches: Touches) -> Routes:
        """Return the routes with the memories where they start and end, as links that they touch.

        Parameters
        ----------
        starts, ends
            Per transfer: the memory that it leaves, and the one that it reaches; -1 for none. Where both are one, it
            is touched as often as both together. A path without links moves nothing and touches nothing.
        touches
            How often, per byte.
        """
        start, end = starts[self.transfer], ends[self.transfer]
        moves, one = self.lengths > 0, start == end
        before = np.where(moves & (start >= 0), touches.source + one * touches.target, 0)
        after = np.where(moves & (end >= 0) & ~one, touches.target, 0)
        lead, tail = before > 0, after > 0
        first = np.zeros(len(start) + 1, dtype=np.int64)
        np.cumsum(self.lengths + lead + tail, out=first[1:])
        wires = np.arange(len(self.link)) + (first[:-1] + lead - self.first[:-1])[self.path_of_crossing]
        link, weight = np.empty((2, first[-1]), dtype=np.int64)
        link[wires], weight[wires] = self.link, self.weight
        link[first[:-1][lead]], weight[first[:-1][lead]] = start[lead], before[lead]
        link[first[1:][tail] - 1], weight[first[1:][tail] - 1] = end[tail], after[tail]
        return Routes(self.transfer, self.parts, first, link, weight)


class Bisection(Record):
    """What crosses a network from one half of its endpoints to the other.

    Parameters
    ----------
    bytes_per_s
        Bandwidth of the narrowest cut that is known, in one direction; halves differ by one endpoint at most.
    cut
        Where it lies, or how it was found.
    is_exact
        Whether no balanced cut is narrower.
    """

    bytes_per_s: float
    cut: str
    is_exact: bool


class Network(Record, eq=False):
    """Endpoints, and directed links between them.

    Parameters
    ----------
    name
        As the user wrote it.
    endpoints
        Places for ranks, numbered from 0. >= 1.
    kinds
        Names of the kinds of links.
    kind
        Per directed link: index into `kinds`.
    bytes_per_s
        Per link, in its direction: the datasheet's figure times the achieved fraction. > 0.
    latency_s
        Per link: time that the first byte takes. >= 0.
    orbit
        Class of each link under symmetries that carry any endpoint into any other, and routes into routes; None if
        there are none such.
    reduces
        Whether its switches can add up what their members send (NVLS, SHARP).
    uplinks
        Links that leave an endpoint's chip towards a switch or fabric; where there is none, all that leave a chip.
    router
        Finds the routes from sources to targets, two arrays of one length.
    namer
        Names a link by its ends.
    warnings
        What a user should hear about the network, such as switches that no route needs.
    bisection
        Where a formula gives it; None if it has to be searched for.
    memory
        Per endpoint: the link that stands for the memory of its chip; None if memories do not limit anything.

    References
    ----------
    Casanova, Giersch, Legrand, Quinson, Suter, J. Parallel and Distributed Computing 74(10), 2014,
    doi:10.1016/j.jpdc.2014.06.008 (flow models of networks as links and routes)
    """

    name: str
    endpoints: int
    kinds: tuple[str, ...]
    kind: NDArray[np.int16]
    bytes_per_s: NDArray[np.int64]
    latency_s: NDArray[np.float64]
    orbit: NDArray[np.int64] | None
    reduces: bool
    uplinks: NDArray[np.int64]
    router: Callable[[NDArray[np.int64], NDArray[np.int64]], Routes]
    namer: Callable[[int], str]
    warnings: tuple[str, ...] = ()
    bisection: Bisection | None = None
    memory: NDArray[np.int64] | None = None

    @property
    def links(self) -> int:
        """Number of directed links."""
        return len(self.kind)

    def routes(self, sources: ArrayLike, targets: ArrayLike, touches: Touches = KEPT) -> Routes:
        """Return the paths of transfers.

        Parameters
        ----------
        sources, targets
            Endpoints, one of each per transfer. :data:`SWITCH` stands for the reducing switch.
        touches
            How often each byte touches the memories at both ends, if the network has them as links.

        Raises
        ------
        ValueError
            If there is no such endpoint, or no reducing switch.

        Examples
        --------
        >>> from trnsim.topology.machines import machine
        >>> star = machine("star", endpoints=4, bandwidth_bytes_per_s=50e9, latency_s=250e-9)
        >>> star.routes([0, 2], [3, 2]).lengths.tolist()
        [2, 0]
        """
        starts, ends = (np.atleast_1d(np.asarray(places, dtype=np.int64)) for places in (sources, targets))
        lowest = SWITCH if self.reduces else 0
        for places in (starts, ends):
            if places.size and not (lowest <= places.min() and places.max() < self.endpoints):
                wrong = places[(places < lowest) | (places >= self.endpoints)][0]
                raise ValueError(f"{self.name} has endpoints {lowest} to {self.endpoints - 1}, not {wrong}")
        routes = self.router(starts, ends)
        if self.memory is None:
            return routes
        memories = np.append(self.memory, -1)
        return routes.touching(memories[starts], memories[ends], touches)

    def latencies_s(self, routes: Routes) -> NDArray[np.float64]:
        """Return the latency of each path: the sum over its links."""
        crossed = self.latency_s[routes.link]
        return np.bincount(routes.path_of_crossing, crossed, len(routes.transfer)).astype(np.float64)

    def link_name(self, link: int) -> str:
        """Return the two ends of a link, as in ``chip 3 -> chip 4``."""
        return self.namer(int(link))

    def counts(self) -> dict[str, int]:
        """Count the directed links of each kind."""
        found = np.bincount(self.kind, minlength=len(self.kinds))
        return {kind: int(count) for kind, count in zip(self.kinds, found, strict=True) if count}

    def degraded(self, links: ArrayLike, factor: float) -> Network:
        """Return the network with some of its links slowed; other links, and all routes, stay.

        Parameters
        ----------
        links
            Links to slow down, once each.
        factor
            What is left of their bandwidth. 0 < factor <= 1.

        Raises
        ------
        ValueError
            If the factor is outside its range.
        """
        if not 0 < factor <= 1:
            raise ValueError(f"a degraded link keeps a share of its bandwidth above 0 and up to 1, not {factor:g}")
        bytes_per_s = self.bytes_per_s.copy()
        bytes_per_s[np.unique(links)] = np.maximum(1, np.rint(self.bytes_per_s[np.unique(links)] * factor))
        return replace(self, bytes_per_s=bytes_per_s, orbit=None, bisection=None)
