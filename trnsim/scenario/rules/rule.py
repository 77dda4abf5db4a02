"""What a rule is, and the arithmetic that their messages share."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from trnsim.errors import Problem
    from trnsim.scenario.draft import Draft

__all__ = ["Rule", "divisors", "divisors_near", "near", "one_of"]


class Rule(NamedTuple):
    """A rule: the keys that it reads, and what it finds wrong."""

    needs: tuple[str, ...]
    check: Callable[[Draft], Iterator[Problem]]


def divisors(number: int) -> tuple[int, ...]:
    """Return the divisors of a number, ascending.

    Examples
    --------
    >>> divisors(12)
    (1, 2, 3, 4, 6, 12)
    """
    low = [d for d in range(1, math.isqrt(number) + 1) if number % d == 0]
    return tuple(sorted({*low, *(number // d for d in low)}))


def near(value: int, valid: Iterable[int]) -> tuple[int, ...]:
    """Return the nearest valid numbers below and above a value, where there are any.

    Examples
    --------
    >>> near(24, divisors(64)), near(100, divisors(64))
    ((16, 32), (64,))
    """
    numbers = set(valid)
    below = max((number for number in numbers if number < value), default=None)
    above = min((number for number in numbers if number > value), default=None)
    return tuple(number for number in (below, above) if number is not None)


def one_of(numbers: Iterable[int], word: str = "or") -> str:
    """Write numbers as a choice.

    Examples
    --------
    >>> one_of([1, 4, 8000])
    '1, 4 or 8,000'
    """
    *head, last = [f"{number:,}" for number in numbers]
    return f"{', '.join(head)} {word} {last}" if head else last


def divisors_near(number: int, degree: int) -> str:
    """Name the divisors of a number that are next to a degree.

    Examples
    --------
    >>> divisors_near(126, 10), divisors_near(8, 16)
    ('the divisors near it are 9 and 14', 'the divisor near it is 8')
    """
    found = near(degree, divisors(number))
    return f"the divisor{'s near it are' if len(found) > 1 else ' near it is'} {one_of(found, 'and')}"
