"""What the readers of YAML and JSON share: their result, their limits, their refusal, and how a key path is written."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from trnsim.record import Record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trnsim.errors import Problem

__all__ = ["LEVELS", "Faulty", "Parsed", "join_key", "shorten", "split_key", "whole_number"]

LEVELS: Final = 64
"""Tables and lists that may stand inside one another."""

_DIGITS: Final = 30
_CHARACTERS: Final = 60
_PLAIN_STEP = re.compile(r'[^.\[\]"]+')
_STEP = re.compile(r'\[(\d+)\]|("(?:[^"\\]|\\.)*")|([^.\[\]"]+)')


class Parsed(Record):
    """Plain values of a text, and the line on which each key path stands."""

    data: Any
    lines: Mapping[str, int]


class Faulty(Exception):  # noqa: N818 - it becomes an InputError once the file's name is known
    """A text cannot be read; carries every problem found in it."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__(problems)
        self.problems = tuple(problems)


def join_key(path: str, step: str | int) -> str:
    """Write the path of a key or list item below `path`; a key with a dot, bracket or quote in it is quoted.

    Examples
    --------
    >>> join_key("layout", "stages"), join_key("layout.stages", 2), join_key("", "layout.tp")
    ('layout.stages', 'layout.stages[2]', '"layout.tp"')
    """
    if isinstance(step, int):
        return f"{path}[{step}]"
    word = step if _PLAIN_STEP.fullmatch(step) else json.dumps(step, ensure_ascii=False)
    return f"{path}.{word}" if path else word


def split_key(path: str) -> tuple[str | int, ...]:
    """Return the steps of a path that :func:`join_key` wrote.

    Examples
    --------
    >>> split_key('layout.stages[2]'), split_key('model."a.b"')
    (('layout', 'stages', 2), ('model', 'a.b'))
    """
    found = _STEP.finditer(path)
    return tuple(int(step[1]) if step[1] else json.loads(step[2]) if step[2] else step[3] for step in found)


def whole_number(digits: str) -> float:
    """Read a decimal whole number; one that no count can reach becomes a floating-point number, or infinity."""
    return int(digits) if len(digits) <= _DIGITS else float(digits)


def shorten(text: str) -> str:
    r"""Return a text as a message shows it: on one line, at most 60 characters.

    Examples
    --------
    >>> print(shorten("trn2"), shorten(""), shorten("a\nb"))
    trn2 "" "a\nb"
    """
    shown = text if text.isprintable() and text else json.dumps(text)
    return shown if len(shown) <= _CHARACTERS else shown[: _CHARACTERS - 3] + "..."
