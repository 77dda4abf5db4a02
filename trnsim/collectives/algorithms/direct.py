"""Direct: every member sends to every other at once, each its own chunk (Neuron calls it mesh)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsim.collectives.algorithm import Algorithm, scatter_and_gather
from trnsim.collectives.cargo import Blocks, Chunks
from trnsim.collectives.patterns import Everyone, Shift
from trnsim.collectives.program import Move, Phase

if TYPE_CHECKING:
    from trnsim.collectives.arrangement import Arrangement

__all__ = ["ALGORITHM"]


def _reduce_scatter(arrangement: Arrangement) -> tuple[Phase, ...]:
    """One step: each of the p - 1 others gets S / p."""
    everyone = Everyone(arrangement.ranks)
    return (Phase((Move(everyone, Chunks(everyone), reduces=True),)),)


def _all_to_all(arrangement: Arrangement) -> tuple[Phase, ...]:
    """One step: each of the p - 1 others gets its block, S / p."""
    return (Phase((Move(Everyone(arrangement.ranks), Blocks()),)),)


def _all_to_all_v(arrangement: Arrangement) -> tuple[Phase, ...]:
    """One step: each of the p - 1 others gets its block, of the size that the arrangement says."""
    return (Phase((Move(Everyone(arrangement.ranks), Blocks(arrangement.sizes)),)),)


def _send_recv(arrangement: Arrangement) -> tuple[Phase, ...]:
    """One step: each member sends its own chunk, S / p, to the next one."""
    ring = Shift(1, arrangement.ranks)
    return (Phase((Move(ring, Chunks(ring)),)),)


ALGORITHM = Algorithm(
    "direct",
    {
        **scatter_and_gather(_reduce_scatter),
        "all-to-all": _all_to_all,
        "all-to-all-v": _all_to_all_v,
        "send-recv": _send_recv,
    },
    aliases=("mesh",),
)
