"""Sizes of buffers as the user writes them: one, or a range that doubles."""

from __future__ import annotations

import re

from trnsim.units import UnitError, parse_bytes

__all__ = ["parse_sizes"]

_BARE = re.compile(r"\s*[-+]?[\d.]+(?:[eE][-+]?\d{1,3})?\s*")


def parse_sizes(text: str) -> tuple[int, ...]:
    """Read the sizes for which a collective is timed.

    Parameters
    ----------
    text
        One size, or ``A:B`` for A and its doubles up to B. A number without a unit is bytes: here, as in nccl-tests and
        nccom-test, and nowhere else.

    Returns
    -------
    tuple of int
        Ascending, bytes.

    Raises
    ------
    UnitError
        If a size has no meaning, is zero, negative, or more than 2**60 B, or if the range descends.

    Examples
    --------
    >>> parse_sizes("8:100"), parse_sizes("1 MiB")
    ((8, 16, 32, 64), (1048576,))
    """
    first, colon, last = text.partition(":")
    low = _size(first)
    high = _size(last) if colon else low
    if low > high:
        raise UnitError(f"a range of sizes ascends, and {first.strip()} is more than {last.strip()}")
    return tuple(low << doubling for doubling in range((high // low).bit_length()))


def _size(text: str) -> int:
    size = parse_bytes(f"{text.strip()} B" if _BARE.fullmatch(text) else text)
    if size == 0:
        raise UnitError(f"a size is at least 1 B, not {text.strip()}")
    return size
