r"""The dissemination barrier: in round k everyone tells the member :math:`2^k` further whom it has heard of.

:math:`\lceil \log_2 p \rceil` rounds, no bytes.

References
----------
Hensgen, Finkel, Manber, Two algorithms for barrier synchronization, International Journal of Parallel Programming
17(1), 1988, doi:10.1007/BF01379320
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsim.collectives.algorithm import Algorithm
from trnsim.collectives.cargo import Signal
from trnsim.collectives.patterns import Shift
from trnsim.collectives.program import Move, Phase

if TYPE_CHECKING:
    from trnsim.collectives.arrangement import Arrangement

__all__ = ["ALGORITHM"]


def _barrier(arrangement: Arrangement) -> tuple[Phase, ...]:
    ranks = arrangement.ranks
    rounds = range((ranks - 1).bit_length())
    return tuple(Phase((Move(Shift(1 << bit, ranks), Signal()),)) for bit in rounds)


ALGORITHM = Algorithm("dissemination", {"barrier": _barrier})
