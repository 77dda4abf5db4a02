"""Tables that say what the keys of another tool mean here, and readers of its values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import field

from trnsim.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["Key", "Vocabulary", "by_key", "count", "count_or_rest", "flag", "fraction", "one_of", "text", "words"]

_MOST_COUNTED = 10**12


class Key(Record):
    """A key that is understood.

    Parameters
    ----------
    read
        Returns the value, typed, or raises a ``ValueError`` with what is due.
    to
        The scenario key that has the same meaning; empty where the value is used in rules of the format.
    """

    read: Callable[[Any], Any]
    to: str = ""


class Vocabulary(Record):
    """What is known of the keys of a tool.

    Parameters
    ----------
    keys
        Those with a meaning in a scenario.
    not_modelled
        Those that may change a step and are left out, with what they do. A name stands for all that begin with it and
        a dot or an underscore, here and below.
    without_effect
        Those that do not change a step as it is simulated, with what they are about.
    """

    keys: Mapping[str, Key]
    not_modelled: Mapping[str, str] = field(default_factory=dict)
    without_effect: Mapping[str, str] = field(default_factory=dict)


def by_key(keys_by_subject: Mapping[str, str]) -> dict[str, str]:
    """Turn keys of one subject, with spaces between them, into a subject for each key.

    Examples
    --------
    >>> by_key({"validation": "eval test_mode", "checkpoints": "save"})
    {'eval': 'validation', 'test_mode': 'validation', 'save': 'checkpoints'}
    """
    return {key: subject for subject, keys in keys_by_subject.items() for key in keys.split()}


def count(value: Any) -> int:
    """Read a whole number of at least 1, also one that is written as text.

    Examples
    --------
    >>> count("8"), count(8.0)
    (8, 8)
    """
    number = _number(value)
    if number is None or not 1 <= number <= _MOST_COUNTED or number != int(number):
        raise ValueError("a whole number of at least 1 is due")
    return int(number)


def count_or_rest(value: Any) -> int:
    """Read a whole number of at least 1, or -1 for whatever is left."""
    return -1 if _number(value) == -1 else count(value)


def fraction(value: Any) -> float:
    """Read a number between 0 and 1."""
    number = _number(value)
    if number is None or not 0 <= number <= 1:
        raise ValueError("a number between 0 and 1 is due")
    return number


def flag(value: Any) -> bool:
    """Read true or false, also as ``1`` or ``0`` and as text.

    Examples
    --------
    >>> flag(True), flag("0"), flag("False")
    (True, False, False)
    """
    said = {"true": True, "1": True, "false": False, "0": False}.get(str(value).casefold())
    if said is None:
        raise ValueError("true or false is due")
    return said


def text(value: Any) -> str:
    """Read text."""
    if not isinstance(value, str) or not value:
        raise ValueError("text is due")
    return value


def words(value: Any) -> tuple[str, ...]:
    """Read a list of words, or one word."""
    found = value if isinstance(value, list) else [value]
    if not all(isinstance(word, str) and word for word in found):
        raise ValueError("a list of words is due")
    return tuple(found)


def one_of(*choices: str) -> Callable[[Any], str]:
    """Return a reader of one of the given words, in any case."""

    def read(value: Any) -> str:
        for choice in choices:
            if isinstance(value, str) and value.casefold() == choice.casefold():
                return choice
        raise ValueError(f"one of {', '.join(choices)} is due")

    return read


def _number(value: Any) -> float | None:
    """Return a number, also one that is written as text; ``None`` where there is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None
