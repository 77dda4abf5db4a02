"""Who sends to whom in one step, for every member of a group at once.

Members are numbered 0 .. ranks - 1. A pattern arranges them in circles: the members of one circle are `stride` apart
and `span` in number, so member i stands at place ``i // stride % span`` of its circle. With stride 1 and span equal to
the group there is one circle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Everyone", "Pattern", "Shift", "Tour"]


class Pattern(Protocol):
    """What every pattern offers."""

    @property
    def span(self) -> int:
        """Members of one circle. >= 2."""

    @property
    def stride(self) -> int:
        """Distance between neighbours of a circle, in members. >= 1."""

    def targets(self, member: int) -> Iterable[int]:
        """Return the members to which `member` sends, in one step."""

    def places(self, member: int, hops: int, count: int) -> list[int]:
        """Return `count` places of the circle of `member`, beginning where `hops` transfers lead from its own.

        A negative number leads back.
        """

    def reversed(self) -> Pattern:
        """Return the pattern in which every transfer goes the other way."""


@dataclass(frozen=True, slots=True)
class Shift:
    """Every member sends to the one that stands `distance` further on its circle.

    Parameters
    ----------
    distance
        Places from sender to receiver, not a multiple of `span`; negative goes the other way round.
    span, stride
        Members of a circle and their distance, see the module.

    Examples
    --------
    >>> [Shift(1, span=4).targets(member) for member in range(4)]
    [(1,), (2,), (3,), (0,)]
    >>> [Shift(1, span=2, stride=2).targets(member) for member in range(4)]  # partners across the second bit
    [(2,), (3,), (0,), (1,)]
    """

    distance: int
    span: int
    stride: int = 1

    def targets(self, member: int) -> tuple[int]:
        """Return the one member to which `member` sends."""
        place = member // self.stride % self.span
        return (member + ((place + self.distance) % self.span - place) * self.stride,)

    def places(self, member: int, hops: int, count: int) -> list[int]:
        """Return `count` places beginning where `hops` transfers lead from that of `member`."""
        first = member // self.stride + self.distance * hops
        return [(first + further) % self.span for further in range(count)]

    def reversed(self) -> Shift:
        """Return the shift the other way round."""
        return Shift(-self.distance, self.span, self.stride)


@dataclass(frozen=True, slots=True)
class Tour:
    """Every member sends to the next one on a given tour of its circle.

    Parameters
    ----------
    order
        Places of a circle in the order of the visit; each once. At least two.
    forward
        False visits them the other way round.

    Examples
    --------
    >>> [Tour((0, 2, 1)).targets(member) for member in range(3)]
    [(2,), (0,), (1,)]
    """

    order: tuple[int, ...]
    forward: bool = True

    @property
    def span(self) -> int:
        """Members of one circle."""
        return len(self.order)

    @property
    def stride(self) -> int:
        """Neighbouring members share a circle: 1."""
        return 1

    def targets(self, member: int) -> tuple[int]:
        """Return the next member of the tour."""
        place = member % self.span
        return (member - place + self.places(member, 1, 1)[0],)

    def places(self, member: int, hops: int, count: int) -> list[int]:
        """Return `count` places of the tour, beginning where `hops` transfers lead from that of `member`."""
        first = self.order.index(member % self.span) + (hops if self.forward else -hops)
        return [self.order[(first + further) % self.span] for further in range(count)]

    def reversed(self) -> Tour:
        """Return the tour the other way round."""
        return Tour(self.order, not self.forward)


@dataclass(frozen=True, slots=True)
class Everyone:
    """Every member sends to all others of its circle at once.

    Parameters
    ----------
    span, stride
        Members of a circle and their distance, see the module.

    Examples
    --------
    >>> Everyone(span=4).targets(1)
    [2, 3, 0]
    """

    span: int
    stride: int = 1

    def targets(self, member: int) -> list[int]:
        """Return all other members of the circle."""
        place = member // self.stride % self.span
        others = ((place + further) % self.span for further in range(1, self.span))
        return [member + (other - place) * self.stride for other in others]

    def places(self, member: int, hops: int, count: int) -> list[int]:
        """Return `count` places beginning at that of `member`; with everyone in reach there is nothing to pass on.

        Raises
        ------
        ValueError
            If `hops` is not 0.
        """
        if hops:
            raise ValueError(f"a phase in which everyone sends to everyone has one step, not {abs(hops) + 1}")
        return [(member // self.stride + further) % self.span for further in range(count)]

    def reversed(self) -> Everyone:
        """Return the same pattern: it is symmetric."""
        return self
