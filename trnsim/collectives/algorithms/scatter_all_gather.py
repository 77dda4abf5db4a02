r"""Broadcast as a scatter and an all-gather; reduce as a reduce-scatter and a gather.

Scatter and gather go along the binomial tree, the halves of the all-reduce by recursive halving and doubling:
:math:`2 \lceil \log_2 p \rceil` steps and :math:`2 S (p-1)/p` sent by member 0, for large buffers less than a tree takes.

References
----------
Thakur, Rabenseifner, Gropp, Optimization of collective communication operations in MPICH, IJHPCA 19(1), 2005,
doi:10.1177/1094342005051521
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsim.collectives.algorithm import Algorithm
from trnsim.collectives.algorithms.recursive_halving_doubling import halving_phases
from trnsim.collectives.cargo import Subtree
from trnsim.collectives.patterns import Hops
from trnsim.collectives.program import Move, Phase, mirrored

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnsim.collectives.arrangement import Arrangement

__all__ = ["ALGORITHM"]


def _scatter(ranks: int) -> Iterator[Phase]:
    """Yield the rounds in which members hand on the upper half of what they have, the largest halves first."""
    for bit in reversed(range((ranks - 1).bit_length())):
        half = 1 << bit
        whole, rest = divmod(ranks, 2 * half)
        moves = []
        if whole:
            moves.append(Move(Hops(0, 2 * half, whole, half, span=ranks), Subtree(half)))
        if rest > half:
            last = whole * 2 * half
            moves.append(Move(Hops(last, 1, 1, half, span=ranks), Subtree(rest - half)))
        yield Phase(tuple(moves))


def _broadcast(arrangement: Arrangement) -> tuple[Phase, ...]:
    return (*_scatter(arrangement.ranks), *mirrored(halving_phases(arrangement.ranks)))


def _reduce(arrangement: Arrangement) -> tuple[Phase, ...]:
    gather = (
        Phase(tuple(Move(move.pattern.reversed(), move.cargo) for move in phase.moves))
        for phase in reversed(tuple(_scatter(arrangement.ranks)))
    )
    return (*halving_phases(arrangement.ranks), *gather)


ALGORITHM = Algorithm("scatter-all-gather", {"broadcast": _broadcast, "reduce": _reduce})
