"""JSON text to plain values, with the line of every key."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from trnsim.documents.text import LEVELS, Faulty, Parsed, join_key, whole_number
from trnsim.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["parse_json"]

_TOO_DEEP = f"more than {LEVELS} tables and lists stand inside one another"
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]]|[^\s{}\[\],:"]+')


def parse_json(text: str) -> Parsed:
    """Read one JSON document.

    Parameters
    ----------
    text
        The whole document.

    Returns
    -------
    Parsed
        Plain values, and the line of every key path, counted from 1.

    Raises
    ------
    Faulty
        With the line and reason of a syntax error, of tables nested too deep, or of every duplicate key.

    Examples
    --------
    >>> parse_json('{"a": {"b": [1, 2]}}')
    Parsed(data={'a': {'b': [1, 2]}}, lines={'a': 1, 'a.b': 1, 'a.b[0]': 1, 'a.b[1]': 1})
    """
    try:
        data = json.loads(text, parse_int=whole_number)
    except RecursionError:
        raise Faulty([Problem("", _TOO_DEEP)]) from None
    except json.JSONDecodeError as error:
        raise Faulty([Problem("", f"not JSON: {error.msg[0].lower()}{error.msg[1:]}", error.lineno)]) from None
    locator = _Locator(text)
    locator.value("", locator.next())
    if locator.problems:
        raise Faulty(locator.problems)
    return Parsed(data, locator.lines)


class _Locator:
    """Walks the tokens of valid JSON and notes where each key stands."""

    def __init__(self, text: str) -> None:
        self.lines: dict[str, int] = {}
        self.problems: list[Problem] = []
        self._tokens = _tokens(text)

    def next(self) -> tuple[str, int]:
        return next(self._tokens)

    def value(self, path: str, token: tuple[str, int], level: int = 1) -> None:
        if token[0] in "{[" and level > LEVELS:
            raise Faulty([*self.problems, Problem("", _TOO_DEEP, token[1])])
        if token[0] == "{":
            while (item := self.next())[0] != "}":
                self._key(join_key(path, json.loads(item[0])), item[1], level)
        elif token[0] == "[":
            index = 0
            while (item := self.next())[0] != "]":
                key = join_key(path, index)
                self.lines[key] = item[1]
                self.value(key, item, level + 1)
                index += 1

    def _key(self, path: str, line: int, level: int) -> None:
        if path in self.lines:
            message = f"duplicate key; it stands on line {self.lines[path]} already"
            self.problems.append(Problem(path, message, line))
        self.lines.setdefault(path, line)
        self.value(path, self.next(), level + 1)


def _tokens(text: str) -> Iterator[tuple[str, int]]:
    line = 1
    position = 0
    for match in _TOKEN.finditer(text):
        line += text.count("\n", position, match.start())
        position = match.start()
        yield match[0], line
