"""Very many flows under fair sharing, as arrays: flows are told apart only when their rates differ.

For steps of a million paths that meet one another all around a ring, few of which are exceptions: every class of links
that refinement could find would differ from the next, but hardly any of them has another rate. Flows that began together,
carry as much and have had the same rates are one group. Rates are those of `trnsim.engine.sharing.fair_rates`, to the
last unit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from trnsim.fabric.flow_classes import Crossings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Integers = NDArray[np.int64]

__all__ = ["fair_levels", "last_end_ps"]


def fair_levels(crossings: Crossings, capacity: Integers, under_way: NDArray[np.bool_]) -> tuple[Integers, list[int]]:
    """Share links fairly among the paths that are under way.

    Returns
    -------
    tuple
        Per path, the number of its rate, and the list of all rates. Rate number 0 is 0, for paths not under way.

    Examples
    --------
    >>> from trnsim.fabric.flow_classes import Crossings
    >>> pair = Crossings(np.array([0, 2, 3]), np.array([0, 1, 0]), np.array([1, 1, 1]))
    >>> fair_levels(pair, np.array([10, 3]), np.array([True, True]))
    (array([1, 2]), [0, 3, 7])
    """
    path, link, weight = _of_those(crossings.path, crossings.link, crossings.weight, under_way[crossings.path])
    links, link = _in_use(link, len(capacity))
    left, growing = capacity[links], _sums(link, weight, len(links))
    level, rates = np.zeros(len(under_way), dtype=np.int64), [0]
    while len(path):
        shares = left // np.maximum(growing, 1)
        shares[growing == 0] = shares.max() + 1
        rates.append(int(shares.min()))
        level[path[(shares == rates[-1])[link]]] = len(rates) - 1
        closing = level[path] > 0
        gone = _sums(link[closing], weight[closing], len(left))
        left -= rates[-1] * gone
        growing -= gone
        path, link, weight = _of_those(path, link, weight, ~closing)
    return level, rates


MOST_VISITS = 2 * 10**9
"""Paths whose rates may be found, each as often as there are rates at that time: minutes."""


def last_end_ps(
    crossings: Crossings,
    capacity: Integers,
    group: Integers,
    flows: Sequence[tuple[int, int]],
    *,
    most_visits: int = MOST_VISITS,
) -> int:
    """Return when the last of many flows ends.

    Parameters
    ----------
    crossings
        The links of each path.
    capacity
        Per link.
    group
        Per path: its number in `flows`.
    flows
        Start in picoseconds and size of the flows of each group, as in `trnsim.engine.sharing.Flow`.
    most_visits
        Paths whose rates may be found, each as often as there are rates at that time.

    Raises
    ------
    ValueError
        If rates change too often, or so many share a link that the rate of each rounds down to zero.

    Examples
    --------
    As in `trnsim.engine.sharing.finish_ps`: a second flow joins after 5 ps on a link of 2 per ps.

    >>> from trnsim.fabric.flow_classes import Crossings
    >>> pair = Crossings(np.array([0, 1, 2]), np.array([0, 0]), np.array([1, 1]))
    >>> last_end_ps(pair, np.array([2]), np.array([0, 1]), [(0, 20), (5, 20)])
    20
    """
    groups = [_Group(start, size) for start, size in flows]
    links, link = _in_use(crossings.link, len(capacity))
    crossings, capacity = Crossings(crossings.first, link, crossings.weight), capacity[links]
    now = 0
    while any(each.left >= 0 for each in groups):
        now = _next_start(groups, now)
        under_way = np.array([each.start <= now and each.left >= 0 for each in groups])
        level, rates = fair_levels(crossings, capacity, under_way[group])
        most_visits -= int(np.count_nonzero(level)) * (len(rates) - 1)
        if most_visits < 0:
            raise ValueError("the rates of so many flows change too often to follow them all")
        if len(rates) > 1 and rates[1] == 0:
            raise ValueError("a flow gets less than one unit per second: take a finer unit for capacities and sizes")
        group, groups = _split(group, groups, level, rates)
        running = [each for each in groups if each.start <= now and each.left >= 0]
        later = [each.start for each in groups if each.start > now]
        after = min([now - -each.left // each.rate for each in running] + later)
        for each in running:
            each.pass_time(now, after)
        now = after
    return now


class _Group(Struct):
    """Flows with the same past.

    Parameters
    ----------
    start
        When they begin.
    left
        What each has still to carry; -1 when it is over.
    rate
        At present.
    """

    start: int
    left: int
    rate: int = 0

    def pass_time(self, now: int, after: int) -> None:
        """Carry what the rate carries until `after`."""
        over = now - -self.left // self.rate == after
        self.left = -1 if over else self.left - self.rate * (after - now)


def _next_start(groups: list[_Group], now: int) -> int:
    """Return the present, or if nothing is under way then when something is again."""
    return max(now, min(each.start for each in groups if each.left >= 0))


def _split(group: Integers, groups: list[_Group], level: Integers, rates: list[int]) -> tuple[Integers, list[_Group]]:
    """Part the flows of a group that have different rates."""
    pair = group * len(rates) + level
    present = np.flatnonzero(np.bincount(pair, minlength=len(groups) * len(rates)))
    number = np.zeros(len(groups) * len(rates), dtype=np.int64)
    number[present] = np.arange(len(present))
    parts = (divmod(each, len(rates)) for each in present.tolist())
    return number[pair], [replace(groups[old], rate=rates[new]) for old, new in parts]


def _of_those(
    path: Integers, link: Integers, weight: Integers, which: NDArray[np.bool_]
) -> tuple[Integers, Integers, Integers]:
    """Return the chosen crossings; as they are if that is all."""
    return (path, link, weight) if which.all() else (path[which], link[which], weight[which])


def _in_use(link: Integers, links: int) -> tuple[Integers, Integers]:
    """Return the links that are crossed, and the crossings by their numbers among these."""
    if len(link) < links // 8:
        used, number = np.unique(link, return_inverse=True)
        return used, number.astype(np.int64)
    crossed = np.zeros(links, dtype=bool)
    crossed[link] = True
    return np.flatnonzero(crossed), (np.cumsum(crossed) - 1)[link]


def _sums(link: Integers, weight: Integers, links: int) -> Integers:
    return np.bincount(link, weight, links).astype(np.int64)
