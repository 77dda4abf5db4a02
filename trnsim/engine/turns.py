"""Whose turn it is: ranks that call collectives in their own order, and collectives that need all their members."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from trnsim.errors import SimulationStalledError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

__all__ = ["Turns"]

_NAMED = 3


class Turns:
    """Decides when collectives may begin: each when its last member calls it.

    A rank with an order calls its first collective at once and each other one when the one before has ended. A rank
    without an order calls all of its collectives at once.

    Parameters
    ----------
    members
        The ranks of each collective, by its name.
    orders
        Of some ranks, the collectives that they call, in order, each once. One that a rank is a member of and does not
        call never begins.

    Raises
    ------
    ValueError
        If a rank is to call a collective that it is not a member of, or one that it has called before.

    Examples
    --------
    >>> turns = Turns({"A": [0, 1], "B": [0, 1]}, {0: ["A", "B"], 1: ["A", "B"]})
    >>> turns.begin(), turns.after("A"), turns.after("B"), turns.over
    (['A'], ['B'], [], True)
    >>> crossed = Turns({"A": [0, 1], "B": [0, 1]}, {0: ["A", "B"], 1: ["B", "A"]})
    >>> crossed.begin(), crossed.over
    ([], False)
    >>> print(crossed.stalled(now_s=0.0))
    SimulationStalledError at 0 s: 2 collectives wait and nothing is left to happen
      "A": 1 of 2 ranks joined, missing rank 1, which waits in "B"
      "B": 1 of 2 ranks joined, missing rank 0, which waits in "A"
    """

    def __init__(self, members: Mapping[str, Collection[int]], orders: Mapping[int, Sequence[str]]) -> None:
        _refuse_strangers(members, orders)
        self._members = members
        self._to_call = {rank: deque(order) for rank, order in orders.items()}
        self._ordered = {name: [rank for rank in orders if rank in ranks] for name, ranks in members.items()}
        self._missing = {name: set(ranks) for name, ranks in self._ordered.items()}

    @property
    def over(self) -> bool:
        """Whether every collective has begun."""
        return not self._missing

    def begin(self) -> list[str]:
        """Let every rank make its first call, and return the collectives that begin."""
        for rank in self._to_call:
            self._call(rank)
        return self._complete()

    def after(self, name: str) -> list[str]:
        """Let the members of a collective that has ended make their next calls, and return the collectives that begin."""
        for rank in self._ordered[name]:
            self._to_call[rank].popleft()
            self._call(rank)
        return self._complete()

    def stalled(self, now_s: float) -> SimulationStalledError:
        """Return the report of a stall: what waits, how many have joined, who is missing, and where those are."""
        count = len(self._missing)
        head = f"{count} collective{'s wait' if count > 1 else ' waits'} and nothing is left to happen"
        lines = [f"  {self._report(name)}" for name in self._missing]
        return SimulationStalledError("\n".join([f"SimulationStalledError at {now_s:.6g} s: {head}", *lines]))

    def _call(self, rank: int) -> None:
        order = self._to_call[rank]
        if order:
            self._missing[order[0]].discard(rank)

    def _complete(self) -> list[str]:
        complete = [name for name, missing in self._missing.items() if not missing]
        for name in complete:
            del self._missing[name]
        return complete

    def _report(self, name: str) -> str:
        missing, size = sorted(self._missing[name]), len(self._members[name])
        who = ", ".join(f"rank {rank}, which {self._whereabouts(rank)}" for rank in missing[:_NAMED])
        more = ", ..." if len(missing) > _NAMED else ""
        return f'"{name}": {size - len(missing)} of {size} ranks joined, missing {who}{more}'

    def _whereabouts(self, rank: int) -> str:
        order = self._to_call[rank]
        return f'waits in "{order[0]}"' if order else "calls nothing more"


def _refuse_strangers(members: Mapping[str, Collection[int]], orders: Mapping[int, Sequence[str]]) -> None:
    for rank, order in orders.items():
        if len(set(order)) < len(order):
            raise ValueError(f"rank {rank} calls a collective twice")
        for name in order:
            if name not in members or rank not in members[name]:
                raise ValueError(f'rank {rank} calls "{name}" and is no member of it')
