r"""Rings along all axes of a torus at once.

The buffer is cut in as many lanes as there are axes. Each lane is reduced along one axis after the other, by rings both
ways round; the lanes begin at different axes, so that in every phase each axis has one lane and all links are busy.
Per member :math:`S (p-1)/p` for the reduce-scatter, as by any ring, over :math:`2 m` links of an m-dimensional torus.
An axis waits for the longest before the lanes change places. Members of one chip make a ring among themselves first.

References
----------
Jain, Sabharwal, Optimal bucket algorithms for large MPI collectives on torus interconnects, ICS 2010,
doi:10.1145/1810085.1810093
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

from trnsim.collectives.algorithm import Algorithm, scatter_and_gather
from trnsim.collectives.algorithms.ring import both_ways, ring_phases
from trnsim.collectives.cargo import Chunks, Digit
from trnsim.collectives.patterns import Shift
from trnsim.collectives.program import Move, Phase, spread

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnsim.collectives.arrangement import Arrangement

__all__ = ["ALGORITHM"]


def _reduce_scatter(arrangement: Arrangement) -> tuple[Phase, ...]:
    cores = arrangement.per_chip
    inside = ring_phases(both_ways((Shift(1, cores),))) if cores > 1 else ()
    strides = (math.prod(arrangement.shape[:axis]) for axis in range(len(arrangement.shape)))
    axes = [Digit(stride, span) for stride, span in zip(strides, arrangement.shape, strict=True) if span > 1]
    return (*inside, *spread(_axis_phases(axes), cores))


def _axis_phases(axes: list[Digit]) -> Iterator[Phase]:
    """Yield the phases between two changes: of lanes to their next axes, or of a shorter axis to rest."""
    lanes = range(len(axes))
    ends = sorted({axis.span - 1 for axis in axes})
    for turn in lanes:
        for begin, end in pairwise([0, *ends]):
            moves = (
                move
                for lane in lanes
                if _axis(axes, lane, turn).span > end
                for move in _lane_moves(axes, lane, turn, begin)
            )
            yield Phase(tuple(moves), steps=end - begin)


def _axis(axes: list[Digit], lane: int, turn: int) -> Digit:
    return axes[(lane + turn) % len(axes)]


def _lane_moves(axes: list[Digit], lane: int, turn: int, begin: int) -> Iterator[Move]:
    """Yield the moves of a lane both ways along its axis, `begin` steps after it came to it."""
    axis = _axis(axes, lane, turn)
    settled = tuple(_axis(axes, lane, earlier) for earlier in range(turn))
    for way, ring in enumerate(both_ways((Shift(1, axis.span, axis.stride),))):
        chunks = Chunks(ring, hops=axis.span - 2 - begin, lane=2 * lane + way, lanes=2 * len(axes))
        yield Move(ring, chunks, reduces=True, settled=settled)


def _lacks(arrangement: Arrangement) -> str:
    flat = len([span for span in arrangement.shape if span > 1]) < 1
    outside = arrangement.inner != arrangement.ranks
    return "the shape of a torus that holds the group and nothing else" if flat or outside else ""


ALGORITHM = Algorithm("torus", scatter_and_gather(_reduce_scatter), lacks=_lacks)
