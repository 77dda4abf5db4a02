"""Conversion between float seconds and the engine's integer picoseconds."""

from __future__ import annotations

import math
from functools import lru_cache

PICOSECONDS_PER_SECOND = 10**12


@lru_cache(maxsize=4096)
def picoseconds(duration_s: float) -> int:
    """Round a duration up to whole picoseconds; the only place where time is rounded.

    A value that float noise alone keeps from an integer (4 parts in 2^53) counts as that integer,
    so that 15e-6 s is 15,000,000 ps although the product in binary is a little more.

    Parameters
    ----------
    duration_s
        Seconds. Finite, >= 0.

    Raises
    ------
    ValueError
        If the duration is negative, infinite or not a number.

    Examples
    --------
    >>> picoseconds(15e-6), picoseconds(0.0), picoseconds(1e-13)
    (15000000, 0, 1)
    """
    if not (math.isfinite(duration_s) and duration_s >= 0):
        raise ValueError(f"a duration must be finite and not negative, got {duration_s} s")
    exact = duration_s * PICOSECONDS_PER_SECOND
    nearest = round(exact)
    return nearest if abs(exact - nearest) <= 4 * math.ulp(exact) else math.ceil(exact)


def seconds(picoseconds_count: int) -> float:
    """Return picoseconds as float seconds.

    Examples
    --------
    >>> seconds(1_500_000_000_000)
    1.5
    """
    return picoseconds_count / PICOSECONDS_PER_SECOND
