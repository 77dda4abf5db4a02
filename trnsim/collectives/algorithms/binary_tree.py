"""One binary tree, cut in pieces: an inner member sends each piece twice, so it takes 2 S to pass on S."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsim.collectives.algorithm import Algorithm, reduce_and_broadcast
from trnsim.collectives.pipelines import broadcast_along

if TYPE_CHECKING:
    from trnsim.collectives.arrangement import Arrangement
    from trnsim.collectives.program import Phase

__all__ = ["ALGORITHM"]


def _broadcast(arrangement: Arrangement) -> tuple[Phase, ...]:
    return broadcast_along(("binary",), arrangement)


ALGORITHM = Algorithm("binary-tree", reduce_and_broadcast(_broadcast), pipelined=True)
