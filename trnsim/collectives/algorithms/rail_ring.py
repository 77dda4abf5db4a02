"""Rings over all rails at once: as many as a server has members, each of which enters and leaves it by other NICs.

In a server ring l goes from member l round to member l - 1 and from there to member l of the next server, so the NICs of
all members carry an equal share, as the channels of NCCL do. Like those they do not wait for each other, so what is passed
on leaves a server once on its way round, and not in every step. Within one server, and with one member to each, it is
the unidirectional ring.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsim.collectives.algorithm import Algorithm, scatter_and_gather
from trnsim.collectives.algorithms.ring import ring_phases
from trnsim.collectives.rotation import Rotation

if TYPE_CHECKING:
    from trnsim.collectives.arrangement import Arrangement
    from trnsim.collectives.program import Phase

__all__ = ["ALGORITHM"]


def _reduce_scatter(arrangement: Arrangement) -> tuple[Phase, ...]:
    inner = arrangement.inner if arrangement.inner < arrangement.ranks else 1
    return ring_phases(tuple(Rotation(arrangement.ranks, inner, first) for first in range(inner)), keep_step=False)


ALGORITHM = Algorithm("rail-ring", scatter_and_gather(_reduce_scatter))
