"""Recursive halving (reduce-scatter) and doubling (all-gather), for any number of members."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsim.collectives.algorithm import Algorithm, scatter_and_gather
from trnsim.collectives.cargo import Chunks
from trnsim.collectives.patterns import Shift
from trnsim.collectives.program import Move, Phase, spread

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnsim.collectives.arrangement import Arrangement

__all__ = ["ALGORITHM", "halving_phases"]


def halving_phases(span: int) -> Iterator[Phase]:
    r"""Yield the reduce-scatter of a circle of `span` members.

    As long as the number of members is even they exchange halves with the partner across one bit, the nearest first
    (vector halving, distance doubling). What is left is an odd circle of :math:`m` members; it is halved by sending
    round: with :math:`s = m`, send to the member :math:`\lceil s/2 \rceil` further the :math:`\lfloor s/2 \rfloor`
    chunks that begin at its own, and go on with :math:`s = \lceil s/2 \rceil` until it is 1. Together
    :math:`\lceil \log_2 p \rceil` steps and :math:`S (p-1)/p` bytes per member for every p, which is optimal; no
    member has to fold into another first.

    Parameters
    ----------
    span
        :math:`p`, members of a circle. >= 1.

    References
    ----------
    Thakur, Rabenseifner, Gropp, Optimization of collective communication operations in MPICH, IJHPCA 19(1), 2005,
    doi:10.1177/1094342005051521 (powers of two).
    Träff, Optimal, non-pipelined reduce-scatter and allreduce algorithms, 2024, arXiv:2410.14234 (any number).
    """
    stride = 1
    while span % 2 == 0:
        yield from spread([_exchange(distance=1, span=2, chunks=1)], stride)
        span, stride = span // 2, stride * 2
    left = span
    while left > 1:
        half = (left + 1) // 2
        yield from spread([_exchange(half, span, chunks=left - half)], stride)
        left = half


def _exchange(distance: int, span: int, chunks: int) -> Phase:
    ring = Shift(distance, span)
    return Phase((Move(ring, Chunks(ring, chunks), reduces=True),))


def _reduce_scatter(arrangement: Arrangement) -> tuple[Phase, ...]:
    return tuple(halving_phases(arrangement.ranks))


ALGORITHM = Algorithm("recursive-halving-doubling", scatter_and_gather(_reduce_scatter), aliases=("rhd", "rdh"))
