"""The ring, both ways at once: half of the buffer travels one way round and half the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsim.collectives.algorithm import Algorithm, scatter_and_gather
from trnsim.collectives.cargo import Chunks
from trnsim.collectives.patterns import Shift, Tour
from trnsim.collectives.program import Move, Phase

if TYPE_CHECKING:
    from trnsim.collectives.arrangement import Arrangement
    from trnsim.collectives.patterns import Ring

__all__ = ["ALGORITHM", "both_ways", "ring_phases", "tour_rings"]


def ring_phases(rings: tuple[Ring, ...], *, keep_step: bool = True) -> tuple[Phase, ...]:
    r"""Return the reduce-scatter of rings over the same members, at once.

    One phase of :math:`p - 1` steps; on each of m rings a member sends :math:`S / (m p)` in every step,
    :math:`S (p-1)/p` in all.

    Parameters
    ----------
    rings
        One lane of the buffer goes along each. At least one.
    keep_step
        Whether a member waits in each step for all rings, or passes on by each what came by it.

    References
    ----------
    Patarasuk and Yuan, Bandwidth optimal all-reduce algorithms for clusters of workstations, JPDC 69(2), 2009,
    doi:10.1016/j.jpdc.2008.09.002
    """
    steps, lanes = rings[0].span - 1, len(rings)
    moves = (
        Move(ring, Chunks(ring, hops=steps - 1, lane=lane, lanes=lanes), reduces=True)
        for lane, ring in enumerate(rings)
    )
    return (Phase(tuple(moves), steps, keep_step),)


def tour_rings(arrangement: Arrangement) -> tuple[Ring, ...]:
    """Return the rings along the tours of a server; one in the order of numbers if there are none, or more servers."""
    if arrangement.tours and arrangement.inner == arrangement.ranks:
        return tuple(Tour(tour) for tour in arrangement.tours)
    return (Shift(1, arrangement.ranks),)


def both_ways(rings: tuple[Ring, ...]) -> tuple[Ring, ...]:
    """Return each ring and its reverse."""
    return tuple(way for ring in rings for way in (ring, ring.reversed()))


def _reduce_scatter(arrangement: Arrangement) -> tuple[Phase, ...]:
    return ring_phases(both_ways(tour_rings(arrangement)))


ALGORITHM = Algorithm("ring", scatter_and_gather(_reduce_scatter), aliases=("bidirectional-ring",))
