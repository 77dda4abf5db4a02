"""What the transfers of a move carry: their share of the buffer, and for proofs the cells.

The buffer of S bytes has a chunk for every member of the group, and a chunk is cut in `parts`. A cell is one part of
one chunk: cell number ``chunk * parts + part``. Of all chunks a move carries only those that agree with its owner in
the `settled` digits, see `trnsim.collectives.program.Move`.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, Protocol

from msgspec.structs import replace

from trnsim.collectives.trees import TreeTransfers
from trnsim.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnsim.collectives.patterns import Pattern, Ring

__all__ = ["Blocks", "Cargo", "Chunks", "Digit", "Hop", "Pieces", "Signal", "Subtree"]


class Digit(NamedTuple):
    """A digit of a member's number: ``member // stride % span``."""

    stride: int
    span: int

    def of(self, member: int) -> int:
        """Return the digit of a member."""
        return member // self.stride % self.span


class Hop(NamedTuple):
    """One transfer as its cargo sees it.

    Parameters
    ----------
    pattern
        By which it is sent.
    settled
        Digits in which the chunks agree with the owner.
    owner, other
        The end whose number says what is carried: the target of a reduction, the source of anything else, the member
        where a switch is the other end; and the other end.
    ranks
        Members of the group.
    step
        Of the phase, from 0.
    """

    pattern: Pattern
    settled: tuple[Digit, ...]
    owner: int
    other: int
    ranks: int
    step: int

    def chunks(self) -> tuple[int, ...]:
        """Return the chunks that agree with the owner in the settled digits."""
        return _chunks(self.settled, self._owner_digits(), self.ranks)

    def chunks_at(self, circle: Digit, place: int) -> tuple[int, ...]:
        """Return those of the `chunks` that have a given place on a circle."""
        return _chunks((*self.settled, circle), (*self._owner_digits(), place), self.ranks)

    def _owner_digits(self) -> tuple[int, ...]:
        return tuple([digit.of(self.owner) for digit in self.settled])


class Cargo(Protocol):
    """What every cargo offers."""

    def parts(self, ranks: int) -> int:
        """Return in how many parts it cuts a chunk."""

    def share(self, pattern: Pattern, settled: tuple[Digit, ...]) -> Fraction:
        """Return the share of the buffer that one transfer carries."""

    def cells(self, hop: Hop) -> Iterator[int]:
        """Yield the cells of one transfer."""

    def mirrored(self, steps: int) -> Cargo:
        """Return the cargo of the move that runs backward through a phase of `steps`."""

    def spread(self, factor: int) -> Cargo:
        """Return the cargo with the members of a circle `factor` times as far apart."""


class Chunks(Record):
    """Chunks of neighbouring places of a ring, passed on from place to place.

    Step s carries `count` places, beginning where ``hops - s`` transfers along the ring lead from the owner's own. A
    reduction of n steps begins with n - 1 hops: the last step brings the receiver its own chunk. A gathering begins
    with 0: the first step carries the sender's own chunk, and each later one what came last.

    Parameters
    ----------
    ring
        Whose places are meant: the pattern of the move, unless that leads aside from the ring.
    count
        Places per transfer. >= 1.
    hops
        See above.
    lane, lanes
        With `lanes` > 1 chunks are cut in as many parts, and this cargo has part `lane` of each.
    """

    ring: Ring
    count: int = 1
    hops: int = 0
    lane: int = 0
    lanes: int = 1

    def parts(self, _ranks: int) -> int:
        """Return the lanes."""
        return self.lanes

    def share(self, _pattern: Pattern, settled: tuple[Digit, ...]) -> Fraction:
        """Return count / span of a lane."""
        return _settled_share(settled) * Fraction(self.count, self.ring.span * self.lanes)

    def cells(self, hop: Hop) -> Iterator[int]:
        """Yield the cells of the places, in one lane."""
        circle = Digit(self.ring.stride, self.ring.span)
        for place in self.ring.places(hop.owner, self.hops - hop.step, self.count):
            yield from [chunk * self.lanes + self.lane for chunk in hop.chunks_at(circle, place)]

    def mirrored(self, steps: int) -> Chunks:
        """Return the chunks backward: a reduction becomes a gathering."""
        return replace(self, hops=steps - 1 - self.hops, ring=self.ring.reversed())

    def spread(self, factor: int) -> Chunks:
        """Return the chunks of a ring whose members are further apart."""
        return replace(self, ring=self.ring.spread(factor))


class Pieces(Record):
    """One piece of every chunk after the other, for pipelines.

    Step s carries piece ``first + slope * s``, less the owner's depth if the move is along a tree.

    Parameters
    ----------
    pieces
        In how many pieces a lane is cut. >= 1.
    first, slope
        See above.
    lane, lanes
        With `lanes` > 1 chunks are cut in as many parts, and this cargo has the pieces of part `lane`.
    """

    pieces: int
    first: int = 0
    slope: int = 1
    lane: int = 0
    lanes: int = 1

    def parts(self, _ranks: int) -> int:
        """Return pieces times lanes."""
        return self.pieces * self.lanes

    def share(self, _pattern: Pattern, settled: tuple[Digit, ...]) -> Fraction:
        """Return one piece of one lane."""
        return _settled_share(settled) / (self.pieces * self.lanes)

    def cells(self, hop: Hop) -> Iterator[int]:
        """Yield the piece of each chunk."""
        level = hop.pattern.level(hop.owner) if isinstance(hop.pattern, TreeTransfers) else 0
        piece = self.first + self.slope * hop.step - level
        part = self.lane * self.pieces + piece
        yield from (chunk * self.parts(hop.ranks) + part for chunk in hop.chunks())

    def mirrored(self, steps: int) -> Pieces:
        """Return the pieces backward."""
        return replace(self, first=self.first + self.slope * (steps - 1), slope=-self.slope)

    def spread(self, _factor: int) -> Pieces:
        """Return the same: pieces do not depend on places."""
        return self


class Subtree(Record):
    """The chunks of the `count` places that begin at the upper end of the transfer: scatter and gather along a tree.

    Parameters
    ----------
    count
        Places per transfer. >= 1.
    """

    count: int

    def parts(self, _ranks: int) -> int:
        """Return 1."""
        return 1

    def share(self, pattern: Pattern, settled: tuple[Digit, ...]) -> Fraction:
        """Return count / span."""
        return _settled_share(settled) * Fraction(self.count, pattern.span)

    def cells(self, hop: Hop) -> Iterator[int]:
        """Yield the chunks of the subtree."""
        circle = Digit(hop.pattern.stride, hop.pattern.span)
        first = circle.of(max(hop.owner, hop.other))
        for place in range(first, first + self.count):
            yield from hop.chunks_at(circle, place)

    def mirrored(self, _steps: int) -> Subtree:
        """Return the same chunks, which now travel the other way."""
        return self

    def spread(self, _factor: int) -> Subtree:
        """Return the same: places are those of the pattern."""
        return self


class Blocks(Record):
    """What the sender holds for the receiver, of an all-to-all: a block has an origin and a destination.

    A buffer holds one block of every pair that it is part of, so the destination is the chunk and the origin the part.
    Carried are the blocks whose destination has the receiver's place on the circle and the sender's settled digits,
    of all origins that differ from the sender in settled digits only: those have come here before.

    Parameters
    ----------
    sizes
        Relative bytes of each block, a row for each origin; empty if all are alike.
    """

    sizes: tuple[tuple[int, ...], ...] = ()

    def parts(self, ranks: int) -> int:
        """Return the origins."""
        return ranks

    def share(self, pattern: Pattern, _settled: tuple[Digit, ...]) -> Fraction:
        """Return 1 / span; with sizes, the share of a block of relative size 1.

        The buffer is the largest of what a member sends or gets, the block that stays with it included.
        """
        if not self.sizes:
            return Fraction(1, pattern.span)
        return Fraction(1, max(sum(line) for line in (*self.sizes, *zip(*self.sizes, strict=True))))

    def cells(self, hop: Hop) -> Iterator[int]:
        """Yield the blocks that the owner holds for the receiver."""
        circle = Digit(hop.pattern.stride, hop.pattern.span)
        aside = [origin for origin in range(hop.ranks) if self._came_here(origin, hop)]
        for chunk in hop.chunks_at(circle, circle.of(hop.other)):
            yield from (chunk * hop.ranks + origin for origin in aside)

    def mirrored(self, _steps: int) -> Blocks:
        """Return the same: an all-to-all is its own mirror image."""
        return self

    def spread(self, _factor: int) -> Blocks:
        """Return the same: places are those of the pattern."""
        return self

    @staticmethod
    def _came_here(origin: int, hop: Hop) -> bool:
        back = sum((digit.of(hop.owner) - digit.of(origin)) * digit.stride for digit in hop.settled)
        return origin + back == hop.owner


class Signal(Record):
    """No bytes: the receiver learns that the sender, and all of whom it knows, have come."""

    def parts(self, _ranks: int) -> int:
        """Return 1."""
        return 1

    def share(self, _pattern: Pattern, _settled: tuple[Digit, ...]) -> Fraction:
        """Return 0."""
        return Fraction(0)

    def cells(self, _hop: Hop) -> Iterator[int]:
        """Yield nothing."""
        yield from ()

    def mirrored(self, _steps: int) -> Signal:
        """Return the same."""
        return self

    def spread(self, _factor: int) -> Signal:
        """Return the same."""
        return self


def _settled_share(settled: tuple[Digit, ...]) -> Fraction:
    share = Fraction(1)
    for digit in settled:
        share /= digit.span
    return share


@lru_cache(maxsize=4096)
def _chunks(settled: tuple[Digit, ...], values: tuple[int, ...], ranks: int) -> tuple[int, ...]:
    """Return the chunks whose settled digits have given values."""
    return tuple(
        chunk
        for chunk in range(ranks)
        if all(digit.of(chunk) == value for digit, value in zip(settled, values, strict=True))
    )
