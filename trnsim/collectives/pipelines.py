"""Broadcasts along trees, cut in pieces that follow one another."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from trnsim.collectives.cargo import Pieces
from trnsim.collectives.program import Move, Phase
from trnsim.collectives.trees import TreeTransfers, height

if TYPE_CHECKING:
    from trnsim.collectives.arrangement import Arrangement
    from trnsim.collectives.trees import TreeKind

__all__ = ["broadcast_along"]


def broadcast_along(kinds: tuple[TreeKind, ...], arrangement: Arrangement) -> tuple[Phase, ...]:
    r"""Return the broadcast from member 0 along trees of one height, an equal lane of the buffer along each.

    With P pieces and trees of height h it has :math:`P + h - 1` steps: in step t the members of depth :math:`\delta` get
    piece :math:`t - \delta + 1`, if there is one. Every member but the root receives S, in each step
    :math:`S / (P m)` from its parent in each of m trees.

    Parameters
    ----------
    kinds
        The trees.
    arrangement
        The group, at least two members, and P.
    """
    span, pieces, lanes = arrangement.ranks, arrangement.pieces, len(kinds)
    deepest = height(kinds[0], span)

    def levels(step: int) -> tuple[int, int]:
        """Return the depths of the members that get a piece."""
        return max(1, step - pieces + 2), min(deepest, step + 1)

    phases = []
    for (top, bottom), run in groupby(range(pieces + deepest - 1), key=levels):
        steps = list(run)
        moves = (
            Move(
                TreeTransfers(kind, top, bottom, down=True, span=span),
                Pieces(pieces, first=steps[0], lane=lane, lanes=lanes),
            )
            for lane, kind in enumerate(kinds)
        )
        phases.append(Phase(tuple(moves), len(steps)))
    return tuple(phases)
