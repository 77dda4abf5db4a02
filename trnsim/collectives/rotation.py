"""Tours through several servers that enter each of them by the same place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from trnsim.record import Record

if TYPE_CHECKING:
    from trnsim.collectives.patterns import Places

__all__ = ["Rotation"]


class Rotation(Record):
    """Every member sends to the next on a tour of blocks, each of which is gone round from its `first` member.

    Parameters
    ----------
    span
        Members of a circle, a multiple of `inner`.
    inner
        Members of a block: of a server. >= 1.
    first
        Place in its block at which the tour enters it; it leaves from the one before. 0 <= first < inner.
    forward
        False goes the other way round.
    stride
        Distance between neighbouring places, in members.

    Examples
    --------
    >>> [Rotation(span=6, inner=3, first=1).targets(member) for member in range(6)]
    [(4,), (2,), (0,), (1,), (5,), (3,)]
    """

    span: int
    inner: int
    first: int
    forward: bool = True
    stride: int = 1

    def targets(self, member: int) -> tuple[int]:
        """Return the next member of the tour."""
        place = member // self.stride % self.span
        return (member + (self.places(member, 1, 1)[0] - place) * self.stride,)

    def place_pairs(self) -> tuple[Places, Places]:
        """Return every place, and the next of the tour."""
        import numpy as np

        turns = np.arange(self.span, dtype=np.int64)
        order = turns // self.inner * self.inner + (turns + self.first) % self.inner
        return order, np.roll(order, -1 if self.forward else 1)

    def places(self, member: int, hops: int, count: int) -> list[int]:
        """Return `count` places of the tour, beginning where `hops` transfers lead from that of `member`."""
        block, place = divmod(member // self.stride % self.span, self.inner)
        turn = block * self.inner + (place - self.first) % self.inner + (hops if self.forward else -hops)
        return [self._place((turn + further) % self.span) for further in range(count)]

    def reversed(self) -> Rotation:
        """Return the tour the other way round."""
        return replace(self, forward=not self.forward)

    def spread(self, factor: int) -> Rotation:
        """Return the tour with its members `factor` times as far apart."""
        return replace(self, stride=self.stride * factor)

    def _place(self, turn: int) -> int:
        return turn // self.inner * self.inner + (turn + self.first) % self.inner
