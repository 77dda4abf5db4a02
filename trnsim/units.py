"""Text with units in, SI numbers out, and back to short text.

Inside trnsim every quantity is an SI number whose name carries its unit (``bandwidth_bytes_per_s``). Files carry the
unit beside the value. GB is 1e9 bytes and GiB is 2**30; ``b`` is a bit and ``B`` a byte; FLOPs is a count, FLOP/s a
rate. A number without a unit is refused, and the refusal shows the right spelling.
"""

from __future__ import annotations

import re
from fractions import Fraction

from msgspec import field

from trnsim.record import Record

__all__ = [
    "UnitError",
    "format_bandwidth",
    "format_bytes",
    "format_count",
    "format_flops",
    "format_time",
    "parse_bandwidth",
    "parse_bytes",
    "parse_flops",
    "parse_time",
]


class UnitError(ValueError):
    """Text is not a physical value of the kind that is due; the message shows the right spelling."""


_DECIMAL = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18}
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}
_MOST_EXPONENT_DIGITS = 3
_NUMBER_AND_UNIT = re.compile(r"\s*([-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?)\s*(\S*)\s*")


def _prefixed(unit: str, prefixes: dict[str, int], scale: Fraction = Fraction(1)) -> dict[str, Fraction]:
    return {prefix + unit: factor * scale for prefix, factor in prefixes.items()}


class _Kind(Record):
    """One kind of physical value: its units, its sensible range, and two examples of the right spelling."""

    name: str
    examples: tuple[str, str]
    units: dict[str, Fraction]
    low: Fraction
    high: Fraction
    bounds: str
    hints: dict[str, str] = field(default_factory=dict)

    def parse(self, text: object) -> Fraction:
        spelling = f'write it like "{self.examples[0]}" or "{self.examples[1]}"'
        if isinstance(text, bool) or not isinstance(text, str | int | float):
            raise UnitError(f"a {self.name} is text with a unit; {spelling}")
        match = _NUMBER_AND_UNIT.fullmatch(str(text))
        if match is None:
            raise UnitError(f'"{text}" is not a {self.name}; {spelling}')
        number, unit = match.groups()
        if not unit:
            raise UnitError(f"{text} is a bare number and a {self.name} needs its unit; {spelling}")
        if unit not in self.units:
            raise UnitError(f'"{unit}" is not a unit of {self.name}; {self._instead(number, unit) or spelling}')
        _, _, exponent = number.casefold().partition("e")
        if len(exponent.lstrip("+-0")) > _MOST_EXPONENT_DIGITS:  # a Fraction would compute the power
            raise UnitError(f"{text} is outside the range of a {self.name}, {self.bounds}")
        value = Fraction(number) * self.units[unit]
        if not self.low <= value <= self.high:
            raise UnitError(f"{text} is outside the range of a {self.name}, {self.bounds}")
        return value

    def _instead(self, number: str, unit: str) -> str:
        """Return the spellings that `unit` may have meant: they differ in case, or are in the table of hints."""
        meant = [known for known in self.units if known.casefold() == unit.casefold()]
        meant += [to for slip, to in self.hints.items() if slip == unit]
        return "write " + " or ".join(f'"{number} {known}"' for known in meant) if meant else ""


def _per_second(bits: dict[str, Fraction]) -> dict[str, Fraction]:
    return {f"{unit}/s": factor for unit, factor in bits.items()}


_BYTE_UNITS = _prefixed("B", _DECIMAL) | _prefixed("B", _BINARY)
_BIT_UNITS = _prefixed("bit", _DECIMAL, Fraction(1, 8)) | _prefixed("b", _DECIMAL, Fraction(1, 8))
_FLOP_PREFIXES = _DECIMAL | {"Z": 10**21}

_BANDWIDTH = _Kind(
    name="bandwidth",
    examples=("1.28 TB/s", "200 Gbit/s"),
    units=_per_second(_BYTE_UNITS) | _per_second(_BIT_UNITS),
    low=Fraction(1000),
    high=Fraction(10**17),
    bounds="1 kB/s to 100 PB/s",
    hints={f"{p}{slip}": f"{p}{unit}/s" for p in "kMGTP" for slip, unit in (("bps", "bit"), ("Bps", "B"))},
)
_BYTES = _Kind(
    name="size",
    examples=("96 GiB", "24 GB"),
    units=_BYTE_UNITS,
    low=Fraction(0),
    high=Fraction(2**60),
    bounds="0 B to 1024 PiB",
)
_TIME = _Kind(
    name="time",
    examples=("15 us", "1.5 s"),
    units={
        **{unit: Fraction(1, 10**power) for unit, power in (("s", 0), ("ms", 3), ("us", 6), ("µs", 6), ("ns", 9))},
        "ps": Fraction(1, 10**12),
        "min": Fraction(60),
        "h": Fraction(3600),
        "d": Fraction(86400),
    },
    low=Fraction(0),
    high=Fraction(10**10),
    bounds="0 s to 1e10 s",
    hints={"sec": "s", "seconds": "s", "usec": "us", "msec": "ms", "minutes": "min", "hours": "h", "days": "d"},
)
_FLOPS = _Kind(
    name="rate of operations",
    examples=("667 TFLOP/s", "2.517 PFLOP/s"),
    units=_prefixed("FLOP/s", _FLOP_PREFIXES),
    low=Fraction(10**6),
    high=Fraction(10**24),
    bounds="1 MFLOP/s to 1000 ZFLOP/s",
    hints={f"{p}{slip}": f"{p}FLOP/s" for p in _FLOP_PREFIXES for slip in ("FLOPS", "FLOPs", "FLOP", "F")},
)


def parse_bandwidth(text: object) -> float:
    """Read a bandwidth.

    Parameters
    ----------
    text
        A number and a unit: B/s or bit/s (also b/s) with k, M, G, T, P, or Ki, Mi, Gi, Ti, Pi before B.

    Returns
    -------
    float
        Bytes per second.

    Raises
    ------
    UnitError
        If the unit is missing or unknown, or the value is not within 1 kB/s to 100 PB/s.

    Examples
    --------
    >>> parse_bandwidth("1.28 TB/s"), parse_bandwidth("200 Gbit/s")
    (1280000000000.0, 25000000000.0)
    >>> parse_bandwidth(200)
    Traceback (most recent call last):
    trnsim.units.UnitError: 200 is a bare number and a bandwidth needs its unit; write it like "1.28 TB/s" or "200 Gbit/s"
    """
    return float(_BANDWIDTH.parse(text))


def parse_bytes(text: object) -> int:
    """Read a size in memory or on a wire.

    Parameters
    ----------
    text
        A number and a unit: B with k, M, G, T, P (powers of 1000) or Ki, Mi, Gi, Ti, Pi (powers of 1024) before it.

    Returns
    -------
    int
        Bytes.

    Raises
    ------
    UnitError
        If the unit is missing or unknown, the value is not a whole number of bytes, or it is not within 0 B to 2**60 B.

    Examples
    --------
    >>> parse_bytes("96 GiB"), parse_bytes("96 GB")
    (103079215104, 96000000000)
    """
    value = _BYTES.parse(text)
    if value.denominator != 1:
        raise UnitError(f"{text} is not a whole number of bytes")
    return int(value)


def parse_time(text: object) -> float:
    """Read a duration.

    Parameters
    ----------
    text
        A number and one of ps, ns, us, ms, s, min, h, d.

    Returns
    -------
    float
        Seconds.

    Raises
    ------
    UnitError
        If the unit is missing or unknown, or the value is not within 0 s to 1e10 s.

    Examples
    --------
    >>> parse_time("15 us"), parse_time("1.5 h")
    (1.5e-05, 5400.0)
    """
    return float(_TIME.parse(text))


def parse_flops(text: object) -> float:
    """Read a rate of floating-point operations.

    Parameters
    ----------
    text
        A number and FLOP/s with k, M, G, T, P, E or Z before it.

    Returns
    -------
    float
        FLOP per second.

    Raises
    ------
    UnitError
        If the unit is missing or unknown, or the value is not within 1 MFLOP/s to 1000 ZFLOP/s.

    Examples
    --------
    >>> parse_flops("667 TFLOP/s")
    667000000000000.0
    >>> parse_flops("667 TFLOPS")
    Traceback (most recent call last):
    trnsim.units.UnitError: "TFLOPS" is not a unit of rate of operations; write "667 TFLOP/s"
    """
    return float(_FLOPS.parse(text))


def _short(value: float, steps: tuple[tuple[float, str], ...]) -> str:
    """Write `value` with three significant digits in the largest unit that leaves one before the point."""
    size = abs(value)
    factor, unit = next(((f, u) for f, u in steps if _three_digits(size / f) >= 1.0), steps[-1])
    scaled = _three_digits(value / factor)
    digits = 0 if abs(scaled) >= 100 else 1 if abs(scaled) >= 10 else 2
    return f"{scaled:,.{digits}f}{unit}"


def _three_digits(value: float) -> float:
    return float(f"{value:.3g}") if abs(value) < 1000 else value


_SI_STEPS = tuple(
    (10.0**p, u) for p, u in ((24, "Y"), (21, "Z"), (18, "E"), (15, "P"), (12, "T"), (9, "G"), (6, "M"), (3, "k"))
)
_TIME_STEPS = ((1.0, " s"), (1e-3, " ms"), (1e-6, " us"), (1e-9, " ns"), (1e-12, " ps"))


def format_time(seconds: float) -> str:
    """Write a duration with three significant digits.

    Examples
    --------
    >>> format_time(12.345), format_time(0.00175), format_time(0)
    ('12.3 s', '1.75 ms', '0 s')
    """
    return _short(seconds, _TIME_STEPS) if seconds else "0 s"


def format_bytes(size_bytes: float) -> str:
    """Write a size in GiB, or in MiB, KiB or B where it is smaller.

    Examples
    --------
    >>> format_bytes(96 * 2**30), format_bytes(1536), format_bytes(12)
    ('96.0 GiB', '1.50 KiB', '12 B')
    """
    if abs(size_bytes) < 1024:
        return f"{size_bytes:.0f} B"
    return _short(size_bytes, ((2.0**30, " GiB"), (2.0**20, " MiB"), (2.0**10, " KiB")))


def format_bandwidth(bytes_per_s: float) -> str:
    """Write a bandwidth in decimal bytes per second.

    Examples
    --------
    >>> format_bandwidth(1.28e12), format_bandwidth(25e9)
    ('1.28 TB/s', '25.0 GB/s')
    """
    return _short(bytes_per_s, (*((f, f" {u}B/s") for f, u in _SI_STEPS), (1.0, " B/s")))


def format_flops(flops_per_s: float) -> str:
    """Write a rate of operations.

    Examples
    --------
    >>> format_flops(667e12)
    '667 TFLOP/s'
    """
    return _short(flops_per_s, (*((f, f" {u}FLOP/s") for f, u in _SI_STEPS), (1.0, " FLOP/s")))


def format_count(count: float) -> str:
    """Write a count: exactly up to ten million, with three significant digits above.

    Examples
    --------
    >>> format_count(1_000_080), format_count(405_853_388_800)
    ('1,000,080', '406 G')
    """
    if abs(count) < 1e7 and count == int(count):
        return f"{int(count):,}"
    return _short(count, (*((f, f" {u}") for f, u in _SI_STEPS), (1.0, "")))
