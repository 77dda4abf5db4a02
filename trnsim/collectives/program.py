"""A collective operation as data: phases of equal steps, and the single transfers that they stand for."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING

from msgspec.structs import replace

from trnsim.collectives.cargo import Blocks, Digit, Hop
from trnsim.collectives.patterns import SWITCH, Everyone, Shift, Tour, edges, pairs
from trnsim.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy as np
    from numpy.typing import NDArray

    from trnsim.collectives.cargo import Cargo
    from trnsim.collectives.patterns import Pattern

__all__ = ["Move", "Phase", "Program", "Transfer", "mirrored", "spread"]


class Move(Record):
    """Transfers of one step that are alike.

    Parameters
    ----------
    pattern
        Who sends to whom.
    cargo
        What each transfer carries.
    reduces
        Whether the receiver adds it to what it has, or keeps it.
    settled
        Digits of member numbers in which every chunk agrees with the member that has to do with it, because other
        phases part the chunks along them. See the notes.
    fused
        Whether the bytes pass through the memory of the chip together with those of another move of the phase.

    Notes
    -----
    A circle with stride d inside a larger group works on what the circles within it left to a member: the chunks whose
    numbers agree with the member's modulo d, which is the digit of stride 1 and span d. A place of the circle stands
    for all of these chunks that have this place, whatever lies above.
    """

    pattern: Pattern
    cargo: Cargo
    reduces: bool = False
    settled: tuple[Digit, ...] = ()
    fused: bool = False

    @property
    def fraction(self) -> Fraction:
        """Share of the buffer that one transfer carries; of relative weight 1, where transfers have weights."""
        return self.cargo.share(self.pattern, self.settled)

    @property
    def touches(self) -> tuple[int, int]:
        """How often a byte is read from or written to memory at its source and at its target.

        A message is read here and written there; a receiver that adds reads what it has before. With two members of a
        chip in one place of a ring, what arrives is written to both memories or both are added to it in one go, so
        that the second costs one touch more: per two members 3 and not 4 for a gathering, 4 and not 6 for a reduction.

        References
        ----------
        AWS Neuron SDK documentation, Intra-node collective communications (KangaRing), read 2026-11-30
        """
        if self.fused:
            return (1, 0) if self.reduces else (0, 1)
        return (1, 2) if self.reduces else (1, 1)

    def pairs(self, ranks: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return sources and targets of the transfers in a group of `ranks`; `SWITCH` for the switch that joins them.

        Examples
        --------
        >>> from trnsim.collectives import Arrangement, program
        >>> program("send-recv", "direct", Arrangement(ranks=3)).phases[0].moves[0].pairs(3)
        (array([0, 1, 2]), array([1, 2, 0]))
        """
        return pairs(self.pattern, ranks)

    def weights(self, ranks: int) -> NDArray[np.float64] | None:
        """Return what multiplies `fraction`, for each transfer in the order of `pairs`; None where all carry as much."""
        if not (isinstance(self.cargo, Blocks) and self.cargo.sizes):
            return None
        import numpy as np

        return np.array(self.cargo.sizes, dtype=np.float64)[self.pairs(ranks)]

    def transfers(self, step: int, ranks: int, parts: int) -> Iterator[Transfer]:
        """Yield the transfers of one step one by one, every chunk being cut in `parts` cells."""
        finer = parts // self.cargo.parts(ranks)
        for source, target in edges(self.pattern, ranks):
            by_target = source == SWITCH or (self.reduces and target != SWITCH)
            owner, other = (target, source) if by_target else (source, target)
            hop = Hop(self.pattern, self.settled, owner, other, ranks, step)
            cells = tuple([cell * finer + part for cell in self.cargo.cells(hop) for part in range(finer)])
            here, there = (self._switch_of(owner, ranks) if end == SWITCH else end for end in (source, target))
            yield Transfer(here, there, cells, self.reduces)

    def mirrored(self, steps: int) -> Move:
        """Return the move backward through a phase of `steps`: a reduction becomes a gathering."""
        pattern, cargo = self.pattern.reversed(), self.cargo.mirrored(steps)
        return replace(self, pattern=pattern, cargo=cargo, reduces=not self.reduces)

    def spread(self, factor: int) -> Move:
        """Return the move with the members of its circles `factor` times as far apart."""
        if factor == 1:
            return self
        wider = (Digit(digit.stride * factor, digit.span) for digit in self.settled)
        settled = (Digit(1, factor), *wider)
        return replace(self, pattern=self.pattern.spread(factor), cargo=self.cargo.spread(factor), settled=settled)

    def _switch_of(self, member: int, ranks: int) -> int:
        """Return a number below 0 for the switch that joins the circle of a member, not that of any other circle."""
        stride = self.pattern.stride
        circle = member // (stride * self.pattern.span) * stride + member % stride
        return SWITCH - circle - (stride - 1) * ranks


class Phase(Record):
    """Steps that are alike: in each, all moves are made at once.

    Parameters
    ----------
    moves
        At least one.
    steps
        >= 1. The next begins when all transfers of the one before have ended.
    keeps_step
        False where moves are channels of their own: a member passes on what came by one of them without waiting for
        the others. Each is a ring.
    """

    moves: tuple[Move, ...]
    steps: int = 1
    keeps_step: bool = True

    def mirrored(self) -> Phase:
        """Return the phase that runs backward, every transfer the other way: a reduction becomes a gathering."""
        return replace(self, moves=tuple(move.mirrored(self.steps) for move in self.moves))


class Transfer(Record):
    """One message of one step.

    Parameters
    ----------
    source, target
        Members of the group; below 0 a switch.
    cells
        Which cells of the buffer it carries.
    reduces
        Whether the target adds them to its own or keeps them.
    """

    source: int
    target: int
    cells: tuple[int, ...]
    reduces: bool


class Program(Record):
    """A collective operation on a group, without a clock.

    Parameters
    ----------
    op, algorithm
        Names as `algorithm_names` and `op_names` list them.
    ranks
        Members of the group. >= 1.
    phases
        One after the other, each when all members have finished the one before. Empty for a group of one.

    Examples
    --------
    >>> from trnsim.collectives import Arrangement, program
    >>> scatter = program("reduce-scatter", "recursive-halving-doubling", Arrangement(ranks=4))
    >>> for step in scatter.transfers():
    ...     print(*(f"{each.source}->{each.target}: {each.cells}" for each in step))
    0->1: (1, 3) 1->0: (0, 2) 2->3: (1, 3) 3->2: (0, 2)
    0->2: (2,) 1->3: (3,) 2->0: (0,) 3->1: (1,)
    >>> scatter.sent_fraction
    Fraction(3, 4)
    """

    op: str
    algorithm: str
    ranks: int
    phases: tuple[Phase, ...]

    @property
    def steps(self) -> int:
        """Steps of all phases."""
        return sum(phase.steps for phase in self.phases)

    @property
    def parts(self) -> int:
        """Parts into which a chunk is cut so that every transfer carries whole cells."""
        return math.lcm(*(move.cargo.parts(self.ranks) for phase in self.phases for move in phase.moves))

    @property
    def buffer_cells(self) -> int:
        """Cells of one buffer: the size of a cell is that of the buffer over this number.

        All members' cells are numbered together; in an all-to-all each has only the blocks that it sends or gets.
        """
        return self.ranks if self.op.startswith("all-to-all") else self.ranks * self.parts

    @property
    def sent_fraction(self) -> Fraction:
        """Bytes that the member sends which sends most, over the bytes of the buffer; transfers of equal weight."""
        moves = [(move, phase.steps * move.fraction) for phase in self.phases for move in phase.moves]
        alike, single = Fraction(0), Counter[int]()
        unit = Fraction(1, math.lcm(*(share.denominator for _, share in moves)))
        for move, share in moves:
            if isinstance(move.pattern, Shift | Tour | Everyone):
                alike += share * len(move.pattern.targets(0))
            else:
                for source, _ in edges(move.pattern, self.ranks):
                    single[source] += int(share / unit)
        return alike + unit * max((units for source, units in single.items() if source != SWITCH), default=0)

    def transfers(self) -> Iterator[list[Transfer]]:
        """Yield, step by step, every transfer with the cells it carries; for proofs on small groups."""
        parts = self.parts
        for phase in self.phases:
            for step in range(phase.steps):
                yield [each for move in phase.moves for each in move.transfers(step, self.ranks, parts)]


def mirrored(phases: Iterable[Phase]) -> tuple[Phase, ...]:
    """Return phases backward, the last first: a reduction becomes a gathering."""
    return tuple(phase.mirrored() for phase in reversed(tuple(phases)))


def spread(phases: Iterable[Phase], factor: int) -> tuple[Phase, ...]:
    """Return phases of a group as those of members that are `factor` apart, every such circle for itself."""
    return tuple(replace(phase, moves=tuple(move.spread(factor) for move in phase.moves)) for phase in phases)
