"""Randomness by name: a stream has a purpose, and what is drawn from it depends on a position in it and on no order of calls."""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING

from trnsim.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["Lognormal", "Uniform", "choose", "uniforms"]


class Uniform(Record):
    """Speeds between two, all as likely.

    Parameters
    ----------
    low, high
        0 < low <= high <= 1.
    """

    low: float
    high: float

    def at(self, u: float) -> float:
        """Return the speed below which a share `u` of all draws lies."""
        return self.low + u * (self.high - self.low)


class Lognormal(Record):
    r"""Speeds of what takes longer by a lognormal share: :math:`1 / (1 + m e^{\sigma z})`, z standard normal.

    Parameters
    ----------
    median_excess
        m, by how much half of them take longer at least. > 0.
    sigma
        >= 0.

    Examples
    --------
    >>> Lognormal(median_excess=0.25, sigma=1.0).at(0.5)
    0.8
    """

    median_excess: float
    sigma: float

    def at(self, u: float) -> float:
        """Return the speed above which a share `u` of all draws lies."""
        from statistics import NormalDist

        return 1 / (1 + self.median_excess * math.exp(self.sigma * NormalDist().inv_cdf(u)))


def uniforms(purpose: str, positions: Iterable[int]) -> Iterator[float]:
    """Yield a number between 0 and 1, both excluded, for each position of a stream.

    Parameters
    ----------
    purpose
        Name of the stream; streams of different names have nothing to do with each other.
    positions
        Ascending. Each 0 <= position.

    Examples
    --------
    >>> first, third = uniforms("an example", [0, 2])
    >>> [third] == list(uniforms("an example", [2]))
    True

    References
    ----------
    Salmon et al., Parallel random numbers: as easy as 1, 2, 3, SC11, doi:10.1145/2063384.2063405 (Philox)
    """
    from numpy.random import Philox

    key = int.from_bytes(hashlib.sha256(purpose.encode()).digest()[:16], "little")
    stream, reached = Philox(key=key), 0
    for position in positions:
        stream.advance(position - reached)
        reached = position
        raw = int(stream.random_raw())
        stream.advance(-1)  # the counter moved on by one
        yield ((raw >> 12) + 0.5) / 2**52


def choose(purpose: str, units: int, count: int) -> list[int]:
    """Choose different numbers below `units`, all sets of them as likely; costs follow the smaller part.

    Parameters
    ----------
    purpose
        Name of the stream.
    units, count
        0 <= count <= units.

    Examples
    --------
    >>> chosen = choose("an example", 1_000_000, 3)
    >>> len(chosen), chosen == sorted(chosen), choose("an example", 3, 3)
    (3, True, [0, 1, 2])
    """
    if 2 * count > units:
        left_out = set(choose(purpose, units, units - count))
        return [number for number in range(units) if number not in left_out]
    chosen: set[int] = set()
    drawn = 0
    while len(chosen) < count:
        missing = count - len(chosen)
        chosen.update(int(u * units) for u in uniforms(purpose, range(drawn, drawn + missing)))
        drawn += missing
    return sorted(chosen)
