"""A collective operation as data: phases of equal steps, and the single transfers that they stand for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from trnsim.collectives.patterns import Pattern

__all__ = ["Algorithm", "Arrangement", "Phase", "Program", "Transfer", "scatter_and_gather"]


@dataclass(frozen=True, slots=True)
class Arrangement:
    """What an algorithm may know of a group.

    Parameters
    ----------
    ranks
        Members of the group. >= 1.
    inner
        Consecutive members that sit in one server: a divisor of `ranks`. 1 when nothing is known.
    tours
        Orders in which the `inner` members of a server may be visited, each a tour of neighbours, no two of them over
        the same links. Empty: in the order of their numbers.

    Raises
    ------
    ValueError
        If a number is outside its range, or a tour does not visit each inner member once.

    Examples
    --------
    >>> Arrangement(ranks=48, inner=16)
    Arrangement(ranks=48, inner=16, tours=())
    """

    ranks: int
    inner: int = 1
    tours: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        if self.ranks < 1 or self.inner < 1 or self.ranks % self.inner:
            raise ValueError(f"a group of {self.ranks} cannot be arranged {self.inner} to a server")
        if any(sorted(tour) != list(range(self.inner)) for tour in self.tours):
            raise ValueError(f"a tour has to visit each of the {self.inner} members of a server once")


@dataclass(frozen=True, slots=True)
class Phase:
    r"""Steps that are alike: in each, every member sends as its pattern says.

    The buffer of S bytes has a chunk for every member of the group. With several patterns it is cut in as many lanes,
    and all lanes move at once. A transfer carries `chunks` neighbouring places of a circle, ``fraction * S`` bytes.

    When the phase reduces, the receiver adds; the last step brings it the places that begin at its own, and every
    step before it what its successors will need: places as many transfers further as there are steps to go. Else the
    receiver keeps what it gets; the first step carries the sender's own places, every later step what came last.

    Parameters
    ----------
    patterns
        One pattern per lane, all over the same circles.
    steps
        >= 1.
    chunks
        Places of the circle per transfer. >= 1.
    reduces
        Whether the receiver adds.

    Notes
    -----
    A circle with stride d works on what the circles inside it left to a member, the chunks whose numbers agree with
    the member's modulo d; a place of the circle stands for all of them that have this place, whatever lies above.
    """

    patterns: tuple[Pattern, ...]
    steps: int
    chunks: int
    reduces: bool

    @property
    def fraction(self) -> Fraction:
        """Share of the buffer that one transfer carries."""
        circle = self.patterns[0]
        return Fraction(self.chunks, len(self.patterns) * circle.stride * circle.span)

    def mirrored(self) -> Phase:
        """Return the phase that runs backward, every transfer the other way: a reduction becomes a gathering."""
        patterns = tuple(pattern.reversed() for pattern in self.patterns)
        return Phase(patterns, self.steps, self.chunks, not self.reduces)

    def transfers(self, step: int, ranks: int, lanes: int) -> Iterator[Transfer]:
        """Yield the transfers of one step, the buffer being cut in ``ranks * lanes`` cells, chunk after chunk."""
        hops = self.steps - 1 - step if self.reduces else -step
        width = lanes // len(self.patterns)
        for lane, pattern in enumerate(self.patterns):
            for source in range(ranks):
                for target in pattern.targets(source):
                    owner = target if self.reduces else source
                    chunks = _chunks(pattern, owner, hops, self.chunks, ranks)
                    cells = [chunk * lanes + lane * width + cell for chunk in chunks for cell in range(width)]
                    yield Transfer(source, target, tuple(cells), self.reduces)


@dataclass(frozen=True, slots=True)
class Transfer:
    """One message of one step.

    Parameters
    ----------
    source, target
        Members of the group.
    cells
        Which cells of the buffer it carries.
    reduces
        Whether the target adds them to its own or keeps them.
    """

    source: int
    target: int
    cells: tuple[int, ...]
    reduces: bool


@dataclass(frozen=True, slots=True)
class Program:
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
    def lanes(self) -> int:
        """Parts into which a chunk is cut so that every lane of every phase carries whole cells."""
        return math.lcm(*(len(phase.patterns) for phase in self.phases))

    @property
    def sent_fraction(self) -> Fraction:
        """Bytes that each member sends (and receives), over the bytes of the buffer."""
        shares = (phase.steps * phase.fraction * _messages(phase) for phase in self.phases)
        return sum(shares, start=Fraction(0))

    def transfers(self) -> Iterator[list[Transfer]]:
        """Yield, step by step, every transfer with the cells it carries; for proofs on small groups."""
        lanes = self.lanes
        for phase in self.phases:
            for step in range(phase.steps):
                yield list(phase.transfers(step, self.ranks, lanes))


@dataclass(frozen=True, slots=True)
class Algorithm:
    """An algorithm: for each operation that it knows, how its phases are made.

    Parameters
    ----------
    name
        As users write it.
    builders
        Operation to function from arrangement to phases.
    """

    name: str
    builders: Mapping[str, Callable[[Arrangement], tuple[Phase, ...]]]


def scatter_and_gather(
    reduce_scatter: Callable[[Arrangement], tuple[Phase, ...]],
) -> dict[str, Callable[[Arrangement], tuple[Phase, ...]]]:
    """Return the three operations that follow from a reduce-scatter.

    Its mirror image, backward and every transfer the other way, is an all-gather; one after the other they are an
    all-reduce.
    """

    def all_gather(arrangement: Arrangement) -> tuple[Phase, ...]:
        return tuple(phase.mirrored() for phase in reversed(reduce_scatter(arrangement)))

    def all_reduce(arrangement: Arrangement) -> tuple[Phase, ...]:
        return reduce_scatter(arrangement) + all_gather(arrangement)

    return {"all-reduce": all_reduce, "all-gather": all_gather, "reduce-scatter": reduce_scatter}


def _chunks(pattern: Pattern, owner: int, hops: int, count: int, ranks: int) -> Iterator[int]:
    """Yield the chunks at `count` places from the owner's own on, in all circles above."""
    circle = pattern.stride * pattern.span
    for place in pattern.places(owner, hops, count):
        yield from range(owner % pattern.stride + place * pattern.stride, ranks, circle)


def _messages(phase: Phase) -> int:
    """Count what one member sends in one step."""
    return sum(len(tuple(pattern.targets(0))) for pattern in phase.patterns)
