r"""Two binary trees at once, half of the buffer along each, cut in pieces.

The leaves of one tree are the inner members of the other, so that a member sends and receives about as much as any
other; in a reduction or a broadcast nobody sends or receives more than S. An all-reduce is a reduction to member 0
followed by a broadcast from it: up to 2 S sent and 2 S received per member.

References
----------
Sanders, Speck, Träff, Two-tree algorithms for full bandwidth broadcast, reduction and scan, Parallel Computing 35(12),
2009, doi:10.1016/j.parco.2009.09.001
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsim.collectives.algorithm import Algorithm, reduce_and_broadcast
from trnsim.collectives.pipelines import broadcast_along
from trnsim.collectives.program import mirrored

if TYPE_CHECKING:
    from trnsim.collectives.arrangement import Arrangement
    from trnsim.collectives.program import Phase

__all__ = ["ALGORITHM"]


def _broadcast(arrangement: Arrangement) -> tuple[Phase, ...]:
    return broadcast_along(("binary", "second-binary"), arrangement)


def _all_reduce(arrangement: Arrangement) -> tuple[Phase, ...]:
    down = _broadcast(arrangement)
    return mirrored(down) + down


ALGORITHM = Algorithm(
    "double-binary-tree", {"all-reduce": _all_reduce, **reduce_and_broadcast(_broadcast)}, pipelined=True
)
