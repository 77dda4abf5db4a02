r"""KangaRing: two members of a chip share one place of the ring.

The ring has p/2 places. In each step of a gathering a place passes on the chunks of both its members, one member each,
and what has come is written to both members' memories in one go; in a reduction both members' contributions are added
at once to what comes. So p/2 steps, :math:`S (p-1)/p` bytes per member in all, :math:`S (p-2)/(2 p)` per direction of
travel between chips, and 3 touches of memory instead of 4 for a gathering, 4 instead of 6 for a reduction. On a square
torus of chips two cycles that share no link are used, both ways round.

References
----------
AWS Neuron SDK documentation, Intra-node collective communications, read 2026-11-30
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsim.collectives.algorithm import Algorithm, scatter_and_gather
from trnsim.collectives.algorithms.ring import both_ways
from trnsim.collectives.cargo import Chunks, Digit
from trnsim.collectives.patterns import Shift, Tour
from trnsim.collectives.program import Move, Phase, mirrored

if TYPE_CHECKING:
    from trnsim.collectives.arrangement import Arrangement
    from trnsim.collectives.patterns import Ring

__all__ = ["ALGORITHM"]

_SIDE = Digit(stride=1, span=2)
"""Which of the two members of a place."""


def _all_gather(arrangement: Arrangement) -> tuple[Phase, ...]:
    """Hand on along the rings what came last, and to the other member of the place; its last chunk comes after that."""
    places = arrangement.ranks // 2
    rings = both_ways(_rings(arrangement)) if places > 1 else (Tour((0,), stride=2),)
    beside = tuple(_beside(ring, lane, len(rings), hops=0) for lane, ring in enumerate(rings))
    last = tuple(_beside(ring, lane, len(rings), hops=1 - places) for lane, ring in enumerate(rings))
    onward = (
        Move(ring, Chunks(ring, lane=lane, lanes=len(rings)), settled=(_SIDE,)) for lane, ring in enumerate(rings)
    )
    round_trip = (Phase((*onward, *beside), steps=places - 1),) if places > 1 else ()
    return (*round_trip, Phase(last))


def _beside(ring: Ring, lane: int, lanes: int, hops: int) -> Move:
    """Return the move between the two members of a place, of what travels along a ring."""
    chunks = Chunks(ring, hops=hops, lane=lane, lanes=lanes)
    return Move(Shift(1, span=2), chunks, settled=(_SIDE,), fused=True)


def _rings(arrangement: Arrangement) -> tuple[Ring, ...]:
    if arrangement.tours and arrangement.inner == arrangement.ranks:
        return tuple(Tour(tuple(member // 2 for member in tour[::2]), stride=2) for tour in arrangement.tours)
    return (Shift(1, arrangement.ranks // 2, stride=2),)


def _reduce_scatter(arrangement: Arrangement) -> tuple[Phase, ...]:
    return mirrored(_all_gather(arrangement))


def _lacks(arrangement: Arrangement) -> str:
    return "an even number of members on each chip" if arrangement.per_chip % 2 else ""


ALGORITHM = Algorithm("kangaring", scatter_and_gather(_reduce_scatter), lacks=_lacks)
