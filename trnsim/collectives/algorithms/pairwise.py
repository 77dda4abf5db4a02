"""Pairwise exchange: in step s every member sends its block to the one that is s further, p - 1 steps of S / p.

Only one message per member is on its way at a time, so nobody receives from many at once as in a direct all-to-all.

References
----------
Thakur, Rabenseifner, Gropp, Optimization of collective communication operations in MPICH, IJHPCA 19(1), 2005,
doi:10.1177/1094342005051521
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsim.collectives.algorithm import Algorithm, with_few_members
from trnsim.collectives.cargo import Blocks
from trnsim.collectives.patterns import Shift
from trnsim.collectives.program import Move, Phase

if TYPE_CHECKING:
    from trnsim.collectives.arrangement import Arrangement

__all__ = ["ALGORITHM"]


def _all_to_all(arrangement: Arrangement) -> tuple[Phase, ...]:
    ranks = arrangement.ranks
    return tuple(Phase((Move(Shift(distance, ranks), Blocks()),)) for distance in range(1, ranks))


ALGORITHM = Algorithm("pairwise", {"all-to-all": _all_to_all}, lacks=with_few_members)
