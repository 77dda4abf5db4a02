"""Seconds become picoseconds once, upwards."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.engine import picoseconds, seconds


@given(st.integers(0, 10**16))
def test_whole_picoseconds_survive(count: int) -> None:
    # Law: seconds and back is the identity for whole picoseconds (up to 10^4 s, where a float still tells them apart).
    assert picoseconds(seconds(count)) == count


@given(st.floats(0, 1e4))
def test_rounding_is_upwards_and_by_at_most_one(duration_s: float) -> None:
    # ceil, but for float noise of 4 ulp: x - noise <= picoseconds(x) <= x + 1.
    exact = duration_s * 1e12
    noise = 4 * math.ulp(exact)
    assert exact - noise <= picoseconds(duration_s) <= exact + 1


def test_float_noise_does_not_add_a_picosecond() -> None:
    # 0.1 + 0.2 = 0.30000000000000004 in binary; 0.3 s are 3e11 ps.
    assert picoseconds(0.1 + 0.2) == 300_000_000_000
    assert picoseconds(1.1e-12) == 2


@pytest.mark.parametrize("bad", [-1e-12, math.inf, math.nan])
def test_nonsense_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="finite and not negative"):
        picoseconds(bad)
