"""Links shared by flows: max-min fair rates, and when fluid flows end that come and go. Whole numbers only."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from itertools import count
from typing import TYPE_CHECKING, Generic, TypeVar

from msgspec import Struct

from trnsim.record import Record

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

Key = TypeVar("Key", bound="Hashable")

__all__ = ["Flow", "Fluid", "fair_rates", "finish_ps"]


class Flow(Record):
    """Bytes that travel over links, or many such flows that are alike.

    Parameters
    ----------
    start_ps
        When it begins. >= 0.
    size
        What one flow carries, in the unit of a capacity times one picosecond: bytes x 10**12 where capacities are in
        bytes/s. >= 0.
    crossings
        Link to weight. The weight is what ONE link of this class carries for ALL flows of this class, per unit that one
        flow carries. >= 1; at least one link.
    """

    start_ps: int
    size: int
    crossings: Mapping[int, int]


def fair_rates(capacities: Sequence[int], flows: Sequence[Mapping[int, int]]) -> list[int]:
    r"""Share links so that no flow can gain but at the cost of one that has no more.

    All rates grow alike until links are full; the flows on them keep what they have and the others go on growing. The
    links that fill up first are those of the least :math:`\lfloor c_l / \sum_i w_{li} \rfloor` over the capacity that
    is left and the flows that still grow; all of them are closed at once, so the answer depends neither on the order
    of the flows nor on whether equal flows are listed singly or as one of their joint weight.

    Parameters
    ----------
    capacities
        Of each link, in any unit per second. >= 0.
    flows
        Of each flow, link to weight, as in `Flow`.

    Returns
    -------
    list of int
        The rate of each flow, rounded down, in the unit of the capacities.

    Raises
    ------
    ValueError
        If a flow crosses no link: nothing limits it.

    References
    ----------
    Bertsekas and Gallager, Data Networks, 2nd ed., Prentice Hall 1992, section 6.5.2

    Examples
    --------
    Two flows share link 0; one of them has only 3 on link 1, and the other takes the rest.

    >>> fair_rates([10, 3], [{0: 1, 1: 1}, {0: 1}])
    [3, 7]
    """
    return _fill(list(capacities), flows)


def _fill(left: list[int], flows: Sequence[Mapping[int, int]]) -> list[int]:
    """Return the fair rates over what is left of capacities, and take them from it."""
    if not all(flows):
        raise ValueError("a flow that crosses no link has no fair rate")
    growing: Counter[int] = Counter()
    users: defaultdict[int, list[int]] = defaultdict(list)
    for index, crossings in enumerate(flows):
        for link, weight in crossings.items():
            growing[link] += weight
            users[link].append(index)
    shares = [(left[link] // weight, link) for link, weight in growing.items()]
    heapq.heapify(shares)
    rates = [-1] * len(flows)
    while shares:
        rate, full = _fullest(shares, left, growing)
        for index in {index for link in full for index in users[link] if rates[index] < 0}:
            rates[index] = rate
            for link, weight in flows[index].items():
                left[link] -= rate * weight
                growing[link] -= weight
    return rates


def _fullest(shares: list[tuple[int, int]], left: list[int], growing: Counter[int]) -> tuple[int, list[int]]:
    """Take from the heap the links that fill up first, with the rate at which they do.

    Shares only grow, so an entry that was overtaken by events comes up too early and is put back with its new share.
    """
    rate = -1
    full: list[int] = []
    while shares and (not full or shares[0][0] == rate):
        share, link = heapq.heappop(shares)
        now = left[link] // growing[link] if growing[link] else None
        if now == share:
            rate = share
            full.append(link)
        elif now is not None:
            heapq.heappush(shares, (now, link))
    return rate, full


def finish_ps(capacities: Sequence[int], flows: Sequence[Flow]) -> list[int]:
    r"""Find when flows end that share links fairly at every instant.

    Rates are those of `fair_rates` among the flows under way, and change when one begins or ends; what happens at the
    same picosecond happens together. A flow with :math:`r` left at time :math:`t` and rate :math:`x` ends at
    :math:`t + \lceil r / x \rceil` if nothing changes before.

    Parameters
    ----------
    capacities
        Of each link, in any unit per second.
    flows
        In any order.

    Returns
    -------
    list of int
        The end of each flow in picoseconds.

    Raises
    ------
    ValueError
        If a flow crosses no link, or so many share a link that the rate of each rounds down to zero: take a finer unit.

    Examples
    --------
    A second flow joins after 5 ps on a link of 2 per ps. The first has 10 left then, and each gets half.

    >>> finish_ps([2], [Flow(0, 20, {0: 1}), Flow(5, 20, {0: 1})])
    [15, 20]
    """
    fluid: Fluid[int] = Fluid(capacities)
    for index, flow in enumerate(flows):
        fluid.add(index, flow)
    ends = [0] * len(flows)
    while ended := fluid.advance():
        for index in ended:
            ends[index] = fluid.now_ps
    return ends


class _UnderWay(Struct, Generic[Key], eq=False):
    """A flow on its way.

    Parameters
    ----------
    key, crossings
        As they were added.
    left
        What it had still to carry when its rate last changed.
    rate
        0 as long as it has none.
    since_ps
        When the rate last changed.
    due_ps
        When it will end at this rate.
    """

    key: Key
    crossings: Mapping[int, int]
    left: int
    rate: int = 0
    since_ps: int = 0
    due_ps: int = -1

    def take(self, rate: int, now_ps: int) -> None:
        """Go on at another rate."""
        self.left -= self.rate * (now_ps - self.since_ps)
        self.rate, self.since_ps = rate, now_ps
        self.due_ps = now_ps - -self.left // rate


class Fluid(Generic[Key]):
    """Flows that share links, and a clock that goes from one end of a flow to the next; flows may be added at any time.

    A flow that ends frees capacity only for flows of its rate and above: slower ones are held back by links that were full
    before the filling came to it. So only those get new rates, and as rates are whole numbers all others keep their ends
    to the picosecond.

    Parameters
    ----------
    capacities
        Of each link, in any unit per second.

    Attributes
    ----------
    now_ps
        The time. Flows that are added start now or later.

    Examples
    --------
    >>> fluid: Fluid[str] = Fluid([2])
    >>> fluid.add("long", Flow(0, 20, {0: 1}))
    >>> fluid.add("short", Flow(5, 4, {0: 1}))
    >>> fluid.advance(), fluid.now_ps, fluid.advance(), fluid.now_ps, fluid.advance()
    (['short'], 9, ['long'], 12, [])
    """

    def __init__(self, capacities: Sequence[int]) -> None:
        self.now_ps = 0
        self._left = list(capacities)
        self._order = count()
        self._waiting: list[tuple[int, int, _UnderWay[Key]]] = []
        self._due: list[tuple[int, int, _UnderWay[Key]]] = []
        self._by_rate: defaultdict[int, dict[_UnderWay[Key], None]] = defaultdict(dict)
        self._changed_from: int | None = None

    def add(self, key: Key, flow: Flow) -> None:
        """Let a flow begin at its start; `key` tells it from the others under way."""
        start_ps = max(flow.start_ps, self.now_ps)
        heapq.heappush(self._waiting, (start_ps, next(self._order), _UnderWay(key, flow.crossings, flow.size)))

    def advance(self) -> list[Key]:
        """Go on to the next end of a flow, and return all that end then; none if no flow is left.

        Raises
        ------
        ValueError
            As for `finish_ps`.
        """
        while self._by_rate or self._waiting:
            self._begin()
            self._share()
            self.now_ps = min(times[0][0] for times in (self._due, self._waiting) if times)
            if ended := self._end():
                return ended
        return []

    def _begin(self) -> None:
        """Begin with the flows that start now, or next if none is under way."""
        if not self._by_rate:
            self.now_ps = self._waiting[0][0]
        while self._waiting and self._waiting[0][0] == self.now_ps:
            self._by_rate[0][heapq.heappop(self._waiting)[2]] = None
            self._changed_from = 0

    def _share(self) -> None:
        """Find the rates again that may have changed."""
        if self._changed_from is not None:
            rates = [rate for rate in self._by_rate if rate >= self._changed_from]
            flows = [flow for rate in rates for flow in self._by_rate.pop(rate)]
            for flow in flows:
                self._free(flow)
            for flow, rate in zip(flows, _fill(self._left, [flow.crossings for flow in flows]), strict=True):
                if not rate:
                    raise ValueError("a flow gets less than one unit per second: take a finer unit for all sizes")
                self._by_rate[rate][flow] = None
                if rate != flow.rate:
                    flow.take(rate, self.now_ps)
                    heapq.heappush(self._due, (flow.due_ps, next(self._order), flow))
            self._changed_from = None
        while self._due and self._due[0][2].due_ps != self._due[0][0]:
            heapq.heappop(self._due)

    def _end(self) -> list[Key]:
        """End with the flows that are due."""
        ended: list[Key] = []
        while self._due and self._due[0][0] == self.now_ps:
            flow = heapq.heappop(self._due)[2]
            if flow.due_ps == self.now_ps:
                ended.append(flow.key)
                flow.due_ps = -1
                self._free(flow)
                del self._by_rate[flow.rate][flow]
                if not self._by_rate[flow.rate]:
                    del self._by_rate[flow.rate]
                self._changed_from = flow.rate if self._changed_from is None else min(self._changed_from, flow.rate)
        return ended

    def _free(self, flow: _UnderWay[Key]) -> None:
        """Give back the capacity that a flow takes."""
        if flow.rate:
            for link, weight in flow.crossings.items():
                self._left[link] += flow.rate * weight
