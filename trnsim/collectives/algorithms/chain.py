"""The chain, or pipelined ring: pieces go from member to member; P + p - 2 steps, S sent and received per member."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsim.collectives.algorithm import Algorithm, reduce_and_broadcast, with_few_members
from trnsim.collectives.pipelines import broadcast_along

if TYPE_CHECKING:
    from trnsim.collectives.arrangement import Arrangement
    from trnsim.collectives.program import Phase

__all__ = ["ALGORITHM"]


def _broadcast(arrangement: Arrangement) -> tuple[Phase, ...]:
    return broadcast_along(("chain",), arrangement)


ALGORITHM = Algorithm("chain", reduce_and_broadcast(_broadcast), lacks=with_few_members, pipelined=True)
