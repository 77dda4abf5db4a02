import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.units import (
    UnitError,
    format_bandwidth,
    format_bytes,
    format_count,
    format_flops,
    format_time,
    parse_bandwidth,
    parse_bytes,
    parse_flops,
    parse_time,
)


@pytest.mark.parametrize(
    ("text", "bytes_per_s"),
    [("1.28 TB/s", 1.28e12), ("200 Gbit/s", 25e9), ("200 Gb/s", 25e9), ("2 GiB/s", 2**31), ("5e2 GB/s", 5e11)],
)
def test_bandwidth_is_in_bytes_and_a_byte_has_eight_bits(text: str, bytes_per_s: float) -> None:
    # B/s as written; bit/s = B/s / 8; k, M, G, T are powers of 1000, Ki, Mi, Gi of 1024
    assert parse_bandwidth(text) == bytes_per_s


def test_a_gigabyte_is_not_a_gibibyte() -> None:
    # 96 GiB - 96 GB = 96 (2^30 - 10^9)
    assert parse_bytes("96 GiB") - parse_bytes("96 GB") == 96 * (2**30 - 10**9)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("15 us", 15e-6), ("15 µs", 15e-6), ("2 ms", 2e-3), ("3 ns", 3e-9), ("1.5 h", 5400.0), ("0 s", 0.0)],
)
def test_times(text: str, seconds: float) -> None:
    # the unit scales the number; exact in rational arithmetic, so no rounding beyond the last float
    assert parse_time(text) == seconds


def test_flops_are_a_rate() -> None:
    # 2.517 PFLOP/s = 2517 TFLOP/s
    assert parse_flops("2.517 PFLOP/s") == parse_flops("2517 TFLOP/s") == 2.517e15


@pytest.mark.parametrize("parse", [parse_bandwidth, parse_bytes, parse_time, parse_flops])
@pytest.mark.parametrize(
    "bad", [200, 1.5, "200", "1e9", True, None, [], "", "fast", "12 parsec", "-1 GB/s", "nan GB/s", "inf s", ".nan"]
)
def test_what_has_no_unit_or_no_sense_is_refused_with_the_spelling(parse: object, bad: object) -> None:
    # every refusal shows an example in quotes, or the range
    with pytest.raises(UnitError, match=r'"|outside'):
        parse(bad)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("parse", "text", "hint"),
    [
        (parse_bandwidth, "200 Gbps", '"200 Gbit/s"'),
        (parse_bandwidth, "200 GBps", '"200 GB/s"'),
        (parse_bandwidth, "200 gb/s", '"200 GB/s" or "200 Gb/s"'),
        (parse_bytes, "96 Gib", '"96 GiB"'),
        (parse_time, "15 usec", '"15 us"'),
        (parse_flops, "667 TFLOPS", '"667 TFLOP/s"'),
        (parse_flops, "667 TFLOPs", '"667 TFLOP/s"'),
    ],
)
def test_a_near_unit_shows_the_one_that_was_meant(parse: object, text: str, hint: str) -> None:
    # bits and bytes differ by 8, a count and a rate by a second: nothing is guessed, both spellings are shown
    with pytest.raises(UnitError) as error:
        parse(text)  # type: ignore[operator]
    assert hint in str(error.value)


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (parse_bandwidth, "0 GB/s"),
        (parse_bandwidth, "1e9 PB/s"),
        (parse_flops, "0 TFLOP/s"),
        (parse_bytes, "1e9 PB"),
        (parse_time, "1e9 h"),
    ],
)
def test_zero_and_absurd_values_are_refused(parse: object, text: str) -> None:
    # rule 22: a bandwidth or a peak of zero divides; the upper bounds are beyond any machine
    with pytest.raises(UnitError, match="outside the range"):
        parse(text)  # type: ignore[operator]


def test_a_part_of_a_byte_is_refused() -> None:
    # 1.5 B is no size; 1.5 kB is 1500 B
    assert parse_bytes("1.5 kB") == 1500
    with pytest.raises(UnitError, match="whole number of bytes"):
        parse_bytes("1.5 B")


@given(st.floats(min_value=1e-12, max_value=1e9))
def test_a_written_time_reads_back_to_three_digits(seconds: float) -> None:
    # |parse(format(t)) - t| <= half a unit of the third digit
    text = format_time(seconds).replace(",", "")
    assert math.isclose(parse_time(text), seconds, rel_tol=5.001e-3)


@given(st.floats(min_value=1e3, max_value=1e17))
def test_a_written_bandwidth_reads_back_to_three_digits(bytes_per_s: float) -> None:
    # |parse(format(b)) - b| <= half a unit of the third digit
    assert math.isclose(parse_bandwidth(format_bandwidth(bytes_per_s)), bytes_per_s, rel_tol=5.001e-3)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (format_time(0.9996), "1.00 s"),
        (format_time(999.6e-6), "1.00 ms"),
        (format_time(3725), "3,725 s"),
        (format_bytes(0), "0 B"),
        (format_bytes(96 * 2**30), "96.0 GiB"),
        (format_bytes(3000 * 2**30), "3,000 GiB"),
        (format_flops(2.517e15), "2.52 PFLOP/s"),
        (format_count(1_000_080), "1,000,080"),
        (format_count(3.64e9), "3.64 G"),
        (format_bandwidth(12.5), "12.5 B/s"),
    ],
)
def test_texts(text: str, expected: str) -> None:
    # three significant digits, memory in GiB, counts exact up to ten million; rounding never shows "1000"
    assert text == expected


def test_an_exponent_of_many_digits_is_refused_and_not_computed() -> None:
    with pytest.raises(UnitError, match="1e999999999 GB/s is outside the range"):
        parse_bandwidth("1e999999999 GB/s")
