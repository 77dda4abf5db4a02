"""Programs for tests of the network: those of textbooks, shifts by any distance, and moves of any share and weights."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from trnsim.collectives import Arrangement, Move, Pattern, Phase, Program, Shift, program
from trnsim.collectives.cargo import Signal

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trnsim.collectives.cargo import Digit


def shifts(ranks: int, *distances: int, steps: int = 1) -> Program:
    """Everyone sends 1 / N of the buffer as many places on as each distance says."""
    moves = tuple(moved(Shift(distance, ranks), Fraction(1, ranks)) for distance in distances)
    return Program("all-gather", "shifts", ranks, (Phase(moves, steps),))


def ring(ranks: int) -> Program:
    return program("all-reduce", "ring", Arrangement(ranks=ranks))


def all_to_all(ranks: int) -> Program:
    return program("all-to-all", "direct", Arrangement(ranks=ranks))


def in_network(ranks: int) -> Program:
    return program("all-reduce", "in-network", Arrangement(ranks=ranks, reducing_switch=True))


class Share(Signal):
    """A cargo of which only the size is known."""

    fraction: Fraction

    def share(self, _pattern: Pattern, _settled: tuple[Digit, ...]) -> Fraction:
        return self.fraction


class Weighed(Move):
    """A move whose transfers have any weights."""

    weighed: tuple[float, ...] = ()

    def weights(self, _ranks: int) -> NDArray[np.float64] | None:
        return np.array(self.weighed) if self.weighed else None


def moved(pattern: Pattern, fraction: Fraction, weighed: tuple[float, ...] = ()) -> Move:
    """Return a move of which each transfer carries `fraction` of the buffer, times its weight."""
    return Weighed(pattern, Share(fraction), weighed=weighed)
