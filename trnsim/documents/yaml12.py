"""YAML 1.2 text to plain values, with the line of every key.

Only the core schema of YAML 1.2 is spoken: ``1e9`` and ``1e-6`` are numbers, ``no``, ``on`` and ``2026-01-01`` are
text, ``010`` is ten. Duplicate keys and other tags than those of the core schema are errors. Merge keys (``<<``) left
the language with 1.2 and are ordinary keys.

References
----------
YAML 1.2.2, section 10.3, https://yaml.org/spec/1.2.2/
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from trnsim.documents.text import LEVELS, Faulty, Parsed, join_key, whole_number
from trnsim.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["parse_yaml"]

_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("null", "Null", "NULL", "~", "")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_DECIMAL = re.compile(r"[-+]?[0-9]+")
_OCTAL_OR_HEX = re.compile(r"0o[0-7]{1,21}|0x[0-9a-fA-F]{1,16}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"([-+]?)\.(inf|Inf|INF|nan|NaN|NAN)")
_TAG = "tag:yaml.org,2002:"
_TAGS = {
    "MappingStartEvent": ("!!map",),
    "SequenceStartEvent": ("!!seq",),
    "ScalarEvent": ("!!str", "!!int", "!!float", "!!bool", "!!null"),
}


def parse_yaml(text: str) -> Parsed:
    r"""Read one YAML document.

    Parameters
    ----------
    text
        The whole document.

    Returns
    -------
    Parsed
        Plain values (dict, list, str, int, float, bool, None) and the line of every key path, counted from 1.

    Raises
    ------
    Faulty
        With the line and reason of a syntax error, or of every duplicate key.

    Examples
    --------
    >>> parsed = parse_yaml("layout:\n  tp: 8\n  sizes: [1e9, no]\n")
    >>> parsed.data, parsed.lines["layout.tp"]
    ({'layout': {'tp': 8, 'sizes': [1000000000.0, 'no']}}, 2)
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        return _Reader(YAML(typ="safe").parse(text)).document()
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = None if mark is None else mark.line + 1
        raise Faulty([Problem("", _reason(error, text, line), line)]) from None
    except YAMLError as error:
        reason = " ".join(str(error).split())
        raise Faulty([Problem("", f"not YAML: {reason}")]) from None


def _reason(error: Any, text: str, line: int | None) -> str:
    if line is not None and "\t" in _indentation(text.splitlines()[line - 1 : line]):
        return "a tab; YAML is indented with spaces only"
    return "not YAML: " + ", ".join(part for part in (error.context, error.problem) if part)


def _indentation(lines: list[str]) -> str:
    return "".join(line[: len(line) - len(line.lstrip())] for line in lines)


class _Reader:
    """Builds plain values from ruamel's event stream, which knows where everything stands."""

    def __init__(self, events: Iterator[Any]) -> None:
        self._events = events
        self._anchored: dict[str, Any] = {}
        self._lines: dict[str, int] = {}
        self._problems: list[Problem] = []
        self._level = 0

    def document(self) -> Parsed:
        data: Any = None
        seen = 0
        for event in self._events:
            kind = type(event).__name__
            if kind == "DocumentStartEvent":
                seen += 1
                if seen > 1:
                    raise self._fault("", "a second document starts; one file holds one", event)
            elif kind not in {"StreamStartEvent", "StreamEndEvent", "DocumentEndEvent"}:
                data = self._value(event, "")
        if self._problems:
            raise Faulty(self._problems)
        return Parsed(data, self._lines)

    def _value(self, event: Any, path: str) -> Any:
        kind = type(event).__name__
        if kind == "AliasEvent":
            if event.anchor not in self._anchored:
                raise self._fault(path, f"*{event.anchor} has no anchor before it", event)
            return self._anchored[event.anchor]
        tag = str(event.tag or "").replace(_TAG, "!!")
        if tag not in ("", "!", *_TAGS[kind]):
            raise self._fault(path, f"the tag {tag} is not understood; leave it out", event)
        value: Any
        if kind == "ScalarEvent":
            is_text = tag in {"!", "!!str"} or (not tag and event.style in {"'", '"', "|", ">"})
            value = event.value if is_text else _scalar(event.value)
        else:
            value = self._collection(event, path)
        if event.anchor:
            self._anchored[event.anchor] = value
        return value

    def _collection(self, event: Any, path: str) -> dict[str, Any] | list[Any]:
        self._level += 1
        if self._level > LEVELS:
            raise self._fault("", f"more than {LEVELS} tables and lists stand inside one another", event)
        value = self._mapping(path) if type(event).__name__ == "MappingStartEvent" else self._sequence(path)
        self._level -= 1
        return value

    def _fault(self, path: str, message: str, event: Any) -> Faulty:
        return Faulty([*self._problems, Problem(path, message, event.start_mark.line + 1)])

    def _mapping(self, path: str) -> dict[str, Any]:
        table: dict[str, Any] = {}
        for event in self._events:
            if type(event).__name__ == "MappingEndEvent":
                break
            line = event.start_mark.line + 1
            if type(event).__name__ != "ScalarEvent":
                raise self._fault(path, "a key must be a plain word", event)
            key = join_key(path, event.value)
            if event.value in table:
                message = f"duplicate key; it stands on line {self._lines[key]} already"
                self._problems.append(Problem(key, message, line))
            self._lines.setdefault(key, line)
            table[event.value] = self._value(next(self._events), key)
        return table

    def _sequence(self, path: str) -> list[Any]:
        items: list[Any] = []
        for event in self._events:
            if type(event).__name__ == "SequenceEndEvent":
                break
            key = join_key(path, len(items))
            self._lines[key] = event.start_mark.line + 1
            items.append(self._value(event, key))
        return items


def _scalar(text: str) -> str | float | bool | None:
    """Read a plain (unquoted) scalar by the core schema."""
    if text in _WORDS:
        return _WORDS[text]
    if _DECIMAL.fullmatch(text):
        return whole_number(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    if _OCTAL_OR_HEX.fullmatch(text):
        return int(text, 0)
    match = _NOT_FINITE.fullmatch(text)
    return float(match[1] + match[2]) if match else text
