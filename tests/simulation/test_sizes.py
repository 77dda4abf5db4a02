"""Sizes of buffers: the only place where a number without a unit is bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.simulation.sizes import parse_sizes
from trnsim.units import UnitError


@given(low=st.integers(1, 2**30), doublings=st.integers(0, 29), rest=st.floats(0, 0.999))
def test_a_range_holds_the_doubles_of_its_start_up_to_its_end(low: int, doublings: int, rest: float) -> None:
    # sizes = low x 2^k for all k with low x 2^k <= high; the end belongs to it only when it is one of them
    high = int(low * 2**doublings * (1 + rest))
    assert parse_sizes(f"{low}:{high}") == tuple(low * 2**k for k in range(doublings + 1))


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("8", (8,)),
        (" 8 ", (8,)),
        ("1e3", (1000,)),
        ("1.5 KiB", (1536,)),
        ("1GB", (10**9,)),
        ("8 : 1KiB", (8, 16, 32, 64, 128, 256, 512, 1024)),
        ("256MiB:1GiB", (2**28, 2**29, 2**30)),
        ("3:3", (3,)),
    ],
)
def test_spellings(text: str, sizes: tuple[int, ...]) -> None:
    assert parse_sizes(text) == sizes


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("0", "at least 1 B, not 0"),
        ("0 GiB", "at least 1 B, not 0 GiB"),
        ("-8", "outside the range of a size"),
        ("8:-1KiB", "outside the range of a size"),
        ("1.5", "not a whole number of bytes"),
        ("8 us", '"us" is not a unit of size'),
        ("1 gb", 'write "1 GB"'),
        ("1GB/s", '"GB/s" is not a unit of size'),
        ("1KiB:8", "1KiB is more than 8"),
        ("8:", '"" is not a size'),
        (":8", '"" is not a size'),
        ("8:16:32", '":32" is not a unit of size'),
        ("many", '"many" is not a size'),
        ("1e30", "outside the range of a size"),
        ("1e999999999", "1e999999999 is a bare number"),
    ],
)
def test_what_is_no_size_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(UnitError) as refused:
        parse_sizes(text)
    assert sentence in str(refused.value)
