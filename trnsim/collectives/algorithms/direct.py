"""Direct: every member sends to every other at once, each its own chunk (Neuron calls it mesh)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsim.collectives.patterns import Everyone, Shift
from trnsim.collectives.program import Algorithm, Phase, scatter_and_gather

if TYPE_CHECKING:
    from trnsim.collectives.program import Arrangement

__all__ = ["ALGORITHM"]


def _reduce_scatter(arrangement: Arrangement) -> tuple[Phase, ...]:
    """One step: each of the p - 1 others gets S / p."""
    if arrangement.ranks == 1:
        return ()
    return (Phase((Everyone(arrangement.ranks),), steps=1, chunks=1, reduces=True),)


def _send_recv(arrangement: Arrangement) -> tuple[Phase, ...]:
    """One step: each member sends its own chunk, S / p, to the next one."""
    if arrangement.ranks == 1:
        return ()
    return (Phase((Shift(1, arrangement.ranks),), steps=1, chunks=1, reduces=False),)


ALGORITHM = Algorithm("direct", {**scatter_and_gather(_reduce_scatter), "send-recv": _send_recv})
