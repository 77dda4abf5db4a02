"""The ring, both ways at once: half of the buffer travels one way round and half the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsim.collectives.patterns import Shift, Tour
from trnsim.collectives.program import Algorithm, Phase, scatter_and_gather

if TYPE_CHECKING:
    from trnsim.collectives.patterns import Pattern
    from trnsim.collectives.program import Arrangement

__all__ = ["ALGORITHM", "ring_phases"]


def ring_phases(span: int, tours: tuple[tuple[int, ...], ...] = ()) -> tuple[Phase, ...]:
    r"""Return the reduce-scatter of rings of `span` neighbouring members.

    One phase of :math:`p - 1` steps; with m tours each member sends :math:`S / (2 m p)` both ways along each in every
    step, :math:`S (p-1)/p` in all.

    Parameters
    ----------
    span
        :math:`p`, members of a ring. >= 1.
    tours
        Orders of visiting them, over different links; empty for one ring in the order of the numbers.

    References
    ----------
    Patarasuk and Yuan, Bandwidth optimal all-reduce algorithms for clusters of workstations, JPDC 69(2), 2009,
    doi:10.1016/j.jpdc.2008.09.002
    """
    if span == 1:
        return ()
    forward: list[Pattern] = [Tour(tour) for tour in tours] or [Shift(1, span)]
    both_ways = tuple(way for pattern in forward for way in (pattern, pattern.reversed()))
    return (Phase(both_ways, steps=span - 1, chunks=1, reduces=True),)


def _reduce_scatter(arrangement: Arrangement) -> tuple[Phase, ...]:
    in_one_server = arrangement.inner == arrangement.ranks
    return ring_phases(arrangement.ranks, arrangement.tours if in_one_server else ())


ALGORITHM = Algorithm("ring", scatter_and_gather(_reduce_scatter))
