"""Who sends to whom in one step, for every member of a group at once.

Members are numbered 0 .. ranks - 1. A pattern arranges them in circles: the members of one circle are `stride` apart
and `span` in number, so member i stands at place ``i // stride % span`` of its circle. With stride 1 and span equal to
the group there is one circle. All circles do the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from msgspec.structs import replace

from trnsim.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy as np
    from numpy.typing import NDArray

    Places = NDArray[np.int64]

__all__ = ["SWITCH", "Everyone", "Hops", "Pattern", "Ring", "Shift", "SwitchTransfers", "Tour", "edges", "pairs"]

SWITCH: Final = -1
"""The switch that joins the members of a circle, as source or target of a transfer."""


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

    def place_pairs(self) -> tuple[Places, Places]:
        """Return the places of one circle that send, and for each the place to which it sends."""

    def reversed(self) -> Pattern:
        """Return the pattern in which every transfer goes the other way."""

    def spread(self, factor: int) -> Pattern:
        """Return the pattern with its members `factor` times as far apart."""


class Ring(Pattern, Protocol):
    """A pattern by which something can be passed on, place after place."""

    def places(self, member: int, hops: int, count: int) -> list[int]:
        """Return `count` places of the circle of `member`, beginning where `hops` transfers lead from its own.

        A negative number leads back.
        """

    def reversed(self) -> Ring:
        """Return the pattern in which every transfer goes the other way."""

    def spread(self, factor: int) -> Ring:
        """Return the pattern with its members `factor` times as far apart."""


class Shift(Record):
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

    def place_pairs(self) -> tuple[Places, Places]:
        """Return every place, and the one `distance` further."""
        import numpy as np

        places = np.arange(self.span, dtype=np.int64)
        return places, np.roll(places, -self.distance)

    def places(self, member: int, hops: int, count: int) -> list[int]:
        """Return `count` places beginning where `hops` transfers lead from that of `member`."""
        first = member // self.stride + self.distance * hops
        return [(first + further) % self.span for further in range(count)]

    def reversed(self) -> Shift:
        """Return the shift the other way round."""
        return Shift(-self.distance, self.span, self.stride)

    def spread(self, factor: int) -> Shift:
        """Return the shift with its members `factor` times as far apart."""
        return replace(self, stride=self.stride * factor)


class Tour(Record):
    """Every member sends to the next one on a given tour of its circle.

    Parameters
    ----------
    order
        Places of a circle in the order of the visit; each once. At least two.
    forward
        False visits them the other way round.
    stride
        Distance between neighbouring places, in members.

    Examples
    --------
    >>> [Tour((0, 2, 1)).targets(member) for member in range(3)]
    [(2,), (0,), (1,)]
    """

    order: tuple[int, ...]
    forward: bool = True
    stride: int = 1

    @property
    def span(self) -> int:
        """Members of one circle."""
        return len(self.order)

    def targets(self, member: int) -> tuple[int]:
        """Return the next member of the tour."""
        place = member // self.stride % self.span
        return (member + (self.places(member, 1, 1)[0] - place) * self.stride,)

    def place_pairs(self) -> tuple[Places, Places]:
        """Return the places in the order of the visit, and for each the next."""
        import numpy as np

        order = np.array(self.order, dtype=np.int64)
        return order, np.roll(order, -1 if self.forward else 1)

    def places(self, member: int, hops: int, count: int) -> list[int]:
        """Return `count` places of the tour, beginning where `hops` transfers lead from that of `member`."""
        place = member // self.stride % self.span
        first = self.order.index(place) + (hops if self.forward else -hops)
        return [self.order[(first + further) % self.span] for further in range(count)]

    def reversed(self) -> Tour:
        """Return the tour the other way round."""
        return replace(self, forward=not self.forward)

    def spread(self, factor: int) -> Tour:
        """Return the tour with its members `factor` times as far apart."""
        return replace(self, stride=self.stride * factor)


class Everyone(Record):
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

    def place_pairs(self) -> tuple[Places, Places]:
        """Return all ordered pairs of different places."""
        import numpy as np

        sources = np.repeat(np.arange(self.span, dtype=np.int64), self.span - 1)
        further = np.tile(np.arange(1, self.span, dtype=np.int64), self.span)
        return sources, (sources + further) % self.span

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

    def spread(self, factor: int) -> Everyone:
        """Return the pattern with its members `factor` times as far apart."""
        return replace(self, stride=self.stride * factor)


class Hops(Record):
    """Some places of a circle, evenly spaced, send each to the one `distance` further; nothing goes round.

    Parameters
    ----------
    first, step, count
        The senders are the places first, first + step, ...: `count` >= 1 of them.
    distance
        Places from sender to receiver, not 0; negative goes down. No end leaves the circle.
    span, stride
        Members of a circle and their distance, see the module.

    Examples
    --------
    >>> last_round = Hops(first=0, step=1, count=2, distance=4, span=6)  # of a binomial broadcast to six
    >>> [last_round.targets(member) for member in range(6)]
    [(4,), (5,), (), (), (), ()]
    """

    first: int
    step: int
    count: int
    distance: int
    span: int
    stride: int = 1

    def targets(self, member: int) -> tuple[int, ...]:
        """Return the member to which `member` sends, if it does."""
        number, between = divmod(member // self.stride % self.span - self.first, self.step)
        return (member + self.distance * self.stride,) if between == 0 and 0 <= number < self.count else ()

    def place_pairs(self) -> tuple[Places, Places]:
        """Return the senders, and for each the place `distance` further."""
        import numpy as np

        sources = self.first + self.step * np.arange(self.count, dtype=np.int64)
        return sources, sources + self.distance

    def reversed(self) -> Hops:
        """Return the receivers sending back."""
        return replace(self, first=self.first + self.distance, distance=-self.distance)

    def spread(self, factor: int) -> Hops:
        """Return the hops with their members `factor` times as far apart."""
        return replace(self, stride=self.stride * factor)


class SwitchTransfers(Record):
    """Some neighbouring places of a circle each send to the switch that joins them, or it sends to each of them.

    Parameters
    ----------
    up
        From the members to the switch, or the other way.
    first, count
        The places that take part: `count` >= 1 of them.
    span, stride
        Members of a circle and their distance, see the module.

    Examples
    --------
    >>> list(edges(SwitchTransfers(up=True, first=0, count=2, span=2), ranks=2))
    [(0, -1), (1, -1)]
    """

    up: bool
    first: int
    count: int
    span: int
    stride: int = 1

    def targets(self, member: int) -> tuple[int, ...]:
        """Return the switch if `member` sends to it."""
        return (SWITCH,) if self.up and self.has(member) else ()

    def has(self, member: int) -> bool:
        """Say whether a member takes part."""
        return self.first <= member // self.stride % self.span < self.first + self.count

    def place_pairs(self) -> tuple[Places, Places]:
        """Return the places and the switch, or the switch and the places."""
        import numpy as np

        places = np.arange(self.first, self.first + self.count, dtype=np.int64)
        switch = np.full(self.count, SWITCH, dtype=np.int64)
        return (places, switch) if self.up else (switch, places)

    def reversed(self) -> SwitchTransfers:
        """Return the transfers the other way."""
        return replace(self, up=not self.up)

    def spread(self, factor: int) -> SwitchTransfers:
        """Return the transfers with their members `factor` times as far apart."""
        return replace(self, stride=self.stride * factor)


def edges(pattern: Pattern, ranks: int) -> Iterator[tuple[int, int]]:
    """Yield source and target of every transfer of one step, one by one."""
    if isinstance(pattern, SwitchTransfers) and not pattern.up:
        yield from ((SWITCH, member) for member in range(ranks) if pattern.has(member))
    else:
        yield from ((source, target) for source in range(ranks) for target in pattern.targets(source))


def pairs(pattern: Pattern, ranks: int) -> tuple[Places, Places]:
    """Return sources and targets of every transfer of one step, as arrays.

    Parameters
    ----------
    pattern
        Who sends to whom.
    ranks
        Members of the group, a multiple of ``span * stride``.

    Returns
    -------
    tuple
        Two arrays of one length, in no particular order; `SWITCH` stands for the switch of a circle.

    Examples
    --------
    >>> pairs(Shift(1, span=2, stride=2), ranks=4)
    (array([0, 1, 2, 3]), array([2, 3, 0, 1]))
    """
    import numpy as np

    if pattern.span == ranks:
        return pattern.place_pairs()
    lowest = np.arange(0, ranks, pattern.span * pattern.stride, dtype=np.int64)[:, None, None]
    aside = np.arange(pattern.stride, dtype=np.int64)

    def members(places: Places) -> Places:
        numbers = lowest + places[:, None] * pattern.stride + aside
        return np.where(places[:, None] == SWITCH, SWITCH, numbers).ravel()

    sources, targets = pattern.place_pairs()
    return members(sources), members(targets)
