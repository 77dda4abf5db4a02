"""What an algorithm may know of a group: who sits together, and how bytes get about there."""

from __future__ import annotations

import math
from typing import Final

from trnsim.record import Record

__all__ = ["LEVELS", "Arrangement"]

LEVELS: Final = ("chip", "server", "rack", "fabric")
"""What members share, from the nearest."""


class Arrangement(Record):
    """What an algorithm may know of a group.

    Parameters
    ----------
    ranks
        Members of the group. >= 1.
    inner
        Consecutive members that sit in one server: a divisor of `ranks`. 1 when nothing is known.
    tours
        Orders in which the `inner` members of a server may be visited, each a tour of neighbours, no two of them over
        the same links. Members of one chip follow one another. Empty: in the order of their numbers.
    per_chip
        Consecutive members that sit on one chip: a divisor of `inner`, if that is known, and of `ranks`.
    shape
        Chips of a server along each axis of its torus, the axis first along which their numbers grow fastest; with
        `per_chip` members on each they are the `inner` members. Empty where there is no torus.
    rack
        Consecutive members that sit in one rack: a multiple of `inner` and a divisor of `ranks`. 1 when not known.
    reducing_switch
        Whether one switch joins all members, adds what they send it, and sends one message to all of them.
    pieces
        In how many pieces algorithms that work as a pipeline (trees, chains, a reducing switch) cut what they send.
        >= 1. More pieces keep more links busy and cost more steps.
    sizes
        Relative bytes that each member sends to each, itself included, a row of integers >= 0 for each sender; for
        all-to-all-v. Empty: all alike.

    Raises
    ------
    ValueError
        If a number is outside its range, or a tour does not visit each inner member once.

    Examples
    --------
    >>> Arrangement(ranks=96, inner=32, per_chip=2, shape=(4, 4)).level_sizes
    {'chip': 2, 'server': 32, 'rack': 32, 'fabric': 96}
    """

    ranks: int
    inner: int = 1
    tours: tuple[tuple[int, ...], ...] = ()
    per_chip: int = 1
    shape: tuple[int, ...] = ()
    rack: int = 1
    reducing_switch: bool = False
    pieces: int = 1
    sizes: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        if self.ranks < 1 or self.inner < 1 or self.ranks % self.inner:
            raise ValueError(f"a group of {self.ranks} cannot be arranged {self.inner} to a server")
        if self.per_chip < 1 or self.ranks % self.per_chip or (self.inner > 1 and self.inner % self.per_chip):
            raise ValueError(
                f"a group of {self.ranks}, {self.inner} to a server, cannot be arranged {self.per_chip} to a chip"
            )
        if self.rack < 1 or self.ranks % self.rack or (self.rack > 1 and self.rack % self.level_sizes["server"]):
            raise ValueError(
                f"a group of {self.ranks}, {self.inner} to a server, cannot be arranged {self.rack} to a rack"
            )
        if any(sorted(tour) != list(range(self.inner)) for tour in self.tours):
            raise ValueError(f"a tour has to visit each of the {self.inner} members of a server once")
        if self.shape and (min(self.shape) < 1 or math.prod(self.shape) * self.per_chip != self.inner):
            shape = "x".join(map(str, self.shape))
            raise ValueError(f"a {shape} torus of chips with {self.per_chip} members each has not {self.inner} members")
        if self.pieces < 1:
            raise ValueError(f"a buffer cannot be cut in {self.pieces} pieces")
        if self.sizes:
            _check_sizes(self.sizes, self.ranks)

    @property
    def level_sizes(self) -> dict[str, int]:
        """Consecutive members that share a chip, a server, a rack, the fabric; each as many as on the level below."""
        chip = self.per_chip
        server = max(self.inner, chip)
        return {"chip": chip, "server": server, "rack": max(self.rack, server), "fabric": self.ranks}

    def between(self, below: int, size: int) -> Arrangement:
        """Return the arrangement of those of the first `size` members that are `below` apart.

        Parameters
        ----------
        below, size
            Two of the `level_sizes`, the smaller first, or 1.

        Examples
        --------
        >>> Arrangement(ranks=96, inner=32, per_chip=2, shape=(4, 4)).between(2, 96)
        Arrangement(ranks=48, inner=16, tours=(), per_chip=1, shape=(4, 4), rack=1, reducing_switch=False, pieces=1,
        sizes=())
        """
        ranks = size // below
        inner, per_chip, rack = (
            min(ranks, max(1, members // below)) for members in (self.inner, self.per_chip, self.rack)
        )
        known = inner > 1 and inner * below == self.inner
        chips_only = tuple(tuple(member // below for member in tour[::below]) for tour in self.tours) if known else ()
        return Arrangement(
            ranks=ranks,
            inner=inner,
            tours=chips_only,
            per_chip=per_chip,
            shape=self.shape if known else (),
            rack=rack,
            reducing_switch=self.reducing_switch,
            pieces=self.pieces,
        )


def _check_sizes(sizes: tuple[tuple[int, ...], ...], ranks: int) -> None:
    if len(sizes) != ranks or any(len(row) != ranks for row in sizes):
        raise ValueError(f"the sizes of an all-to-all-v among {ranks} are {ranks} rows of {ranks} numbers")
    if min(map(min, sizes)) < 0 or not any(map(any, sizes)):
        raise ValueError("the sizes of an all-to-all-v are integers of at least 0, and not all of them 0")
