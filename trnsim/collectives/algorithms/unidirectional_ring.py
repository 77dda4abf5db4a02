"""The ring in one direction only: on a machine whose neighbours have a link each way, half of the links idle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsim.collectives.algorithm import Algorithm, scatter_and_gather
from trnsim.collectives.algorithms.ring import ring_phases, tour_rings

if TYPE_CHECKING:
    from trnsim.collectives.arrangement import Arrangement
    from trnsim.collectives.program import Phase

__all__ = ["ALGORITHM"]


def _reduce_scatter(arrangement: Arrangement) -> tuple[Phase, ...]:
    return ring_phases(tour_rings(arrangement))


ALGORITHM = Algorithm("unidirectional-ring", scatter_and_gather(_reduce_scatter))
