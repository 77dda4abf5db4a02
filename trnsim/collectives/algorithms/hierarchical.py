"""Hierarchical: reduce-scatter inside each server, exchange between servers, all-gather inside each server.

Rings inside, where links are fast and neighbours near; recursive halving and doubling between the servers, where a
step is dear. Between servers each member has only 1 / inner of the buffer left, so all NICs of a server work at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsim.collectives.algorithms.recursive_halving_doubling import halving_phases
from trnsim.collectives.algorithms.ring import ring_phases
from trnsim.collectives.program import Algorithm, scatter_and_gather

if TYPE_CHECKING:
    from trnsim.collectives.program import Arrangement, Phase

__all__ = ["ALGORITHM"]


def _reduce_scatter(arrangement: Arrangement) -> tuple[Phase, ...]:
    inner, outer = arrangement.inner, arrangement.ranks // arrangement.inner
    return (*ring_phases(inner, arrangement.tours), *halving_phases(outer, stride=inner))


ALGORITHM = Algorithm("hierarchical", scatter_and_gather(_reduce_scatter))
