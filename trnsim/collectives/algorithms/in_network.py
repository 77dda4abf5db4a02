r"""In-network reduction: a switch adds what the members send it, and sends one message to all of them.

An all-reduce sends S and receives S per member, where a ring needs :math:`2 S (p-1)/p` each. Pieces follow one another:
while one goes up, the one before comes down.

References
----------
Graham et al., Scalable Hierarchical Aggregation Protocol (SHArP), COMHPC 2016, doi:10.1109/COMHPC.2016.006
Klenk et al., An in-network architecture for accelerating shared-memory multiprocessor collectives, ISCA 2020,
doi:10.1109/ISCA45697.2020.00085
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from trnsim.collectives.algorithm import Algorithm, reduce_and_broadcast
from trnsim.collectives.cargo import Digit, Pieces, Signal
from trnsim.collectives.patterns import SwitchTransfers
from trnsim.collectives.program import Move, Phase

if TYPE_CHECKING:
    from trnsim.collectives.arrangement import Arrangement

__all__ = ["ALGORITHM"]


def _through(arrangement: Arrangement, up: Move, down: Move) -> tuple[Phase, ...]:
    """Return the pipeline: the first piece up; each with the one before it on its way down; the last piece down."""

    def piece(move: Move, number: int) -> Move:
        return replace(move, cargo=Pieces(arrangement.pieces, first=number))

    both = Phase((piece(up, 1), piece(down, 0)), steps=arrangement.pieces - 1)
    first, last = Phase((piece(up, 0),)), Phase((piece(down, arrangement.pieces - 1),))
    return (first, both, last) if both.steps else (first, last)


def _everyone(arrangement: Arrangement, *, up: bool, reduces: bool = False, own: bool = False) -> Move:
    """Return the move between all members and the switch: of all chunks, or of each member's own."""
    ranks = arrangement.ranks
    settled = (Digit(stride=1, span=ranks),) if own else ()
    return Move(SwitchTransfers(up, 0, ranks, span=ranks), Pieces(1), reduces, settled)


def _all_reduce(arrangement: Arrangement) -> tuple[Phase, ...]:
    return _through(arrangement, _everyone(arrangement, up=True, reduces=True), _everyone(arrangement, up=False))


def _reduce_scatter(arrangement: Arrangement) -> tuple[Phase, ...]:
    return _through(
        arrangement, _everyone(arrangement, up=True, reduces=True), _everyone(arrangement, up=False, own=True)
    )


def _all_gather(arrangement: Arrangement) -> tuple[Phase, ...]:
    return _through(arrangement, _everyone(arrangement, up=True, own=True), _everyone(arrangement, up=False))


def _broadcast(arrangement: Arrangement) -> tuple[Phase, ...]:
    ranks = arrangement.ranks
    root = Move(SwitchTransfers(up=True, first=0, count=1, span=ranks), Pieces(1))
    others = Move(SwitchTransfers(up=False, first=1, count=ranks - 1, span=ranks), Pieces(1))
    return _through(arrangement, root, others)


def _barrier(arrangement: Arrangement) -> tuple[Phase, ...]:
    ways = (SwitchTransfers(up, 0, arrangement.ranks, span=arrangement.ranks) for up in (True, False))
    return tuple(Phase((Move(way, Signal()),)) for way in ways)


def _lacks(arrangement: Arrangement) -> str:
    return "" if arrangement.reducing_switch else "a switch that joins all members and reduces"


ALGORITHM = Algorithm(
    "in-network",
    {
        "all-reduce": _all_reduce,
        "all-gather": _all_gather,
        "reduce-scatter": _reduce_scatter,
        **reduce_and_broadcast(_broadcast),
        "barrier": _barrier,
    },
    lacks=_lacks,
    pipelined=True,
    aliases=("nvls", "sharp"),
)
