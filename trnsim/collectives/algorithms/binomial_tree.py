r"""The binomial tree: in round k the first :math:`2^k` members each serve one more; all of S in every round.

:math:`\lceil \log_2 p \rceil` steps; member 0 sends S in each of them.

References
----------
Thakur, Rabenseifner, Gropp, Optimization of collective communication operations in MPICH, IJHPCA 19(1), 2005,
doi:10.1177/1094342005051521
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsim.collectives.algorithm import Algorithm, reduce_and_broadcast
from trnsim.collectives.cargo import Pieces
from trnsim.collectives.patterns import Hops
from trnsim.collectives.program import Move, Phase

if TYPE_CHECKING:
    from trnsim.collectives.arrangement import Arrangement

__all__ = ["ALGORITHM"]


def _broadcast(arrangement: Arrangement) -> tuple[Phase, ...]:
    ranks = arrangement.ranks
    served = [1 << bit for bit in range((ranks - 1).bit_length())]
    rounds = (Hops(0, 1, min(first, ranks - first), first, span=ranks) for first in served)
    return tuple(Phase((Move(hops, Pieces(1)),)) for hops in rounds)


ALGORITHM = Algorithm("binomial-tree", reduce_and_broadcast(_broadcast))
