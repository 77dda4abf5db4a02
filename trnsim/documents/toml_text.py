"""TOML text to plain values, with the line of every key."""

from __future__ import annotations

import re
import tomllib
from datetime import date, datetime, time
from typing import Any, Final

from trnsim.documents.text import LEVELS, Faulty, Parsed, join_key
from trnsim.errors import Problem

__all__ = ["parse_toml"]

_HEADER: Final = re.compile(r"\s*\[\s*([\w.\s-]+?)\s*\]\s*(?:#.*)?")
_KEY: Final = re.compile(r"\s*([\w.-]+)\s*=")
_AT_LINE: Final = re.compile(r"\(at (?:line (\d+), column \d+|end of document)\)")


def parse_toml(text: str) -> Parsed:
    r"""Read one TOML document.

    Parameters
    ----------
    text
        The whole document.

    Returns
    -------
    Parsed
        Plain values, dates as text, and the line of every key that stands bare at the beginning of one, from 1.

    Raises
    ------
    Faulty
        With the line and reason of a syntax error, or of tables nested too deep.

    Examples
    --------
    >>> parse_toml("[training]\nseq_len = 8192\n")
    Parsed(data={'training': {'seq_len': 8192}}, lines={'training': 1, 'training.seq_len': 2})
    """
    try:
        data = _plain(tomllib.loads(text), LEVELS)
    except RecursionError:
        raise Faulty([Problem("", _TOO_DEEP)]) from None
    except ValueError as error:  # tomllib's own error, or a number beyond Python's limits
        found = _AT_LINE.search(str(error))
        reason = _AT_LINE.sub("", str(error)).strip()
        line = int(found[1]) if found and found[1] else None
        raise Faulty([Problem("", f"not TOML: {reason[:1].lower()}{reason[1:]}", line)]) from None
    return Parsed(data, _lines(text))


_TOO_DEEP: Final = f"more than {LEVELS} tables and lists stand inside one another"


def _plain(value: Any, levels: int) -> Any:
    if isinstance(value, date | datetime | time):
        return value.isoformat()
    if not isinstance(value, dict | list):
        return value
    if not levels:
        raise Faulty([Problem("", _TOO_DEEP)])
    if isinstance(value, dict):
        return {key: _plain(inner, levels - 1) for key, inner in value.items()}
    return [_plain(inner, levels - 1) for inner in value]


def _lines(text: str) -> dict[str, int]:
    """Return the line of each key; tomllib does not tell them."""
    lines: dict[str, int] = {}
    table = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.fullmatch(line):
            table = _path("", header[1])
            lines.setdefault(table, number)
        elif key := _KEY.match(line):
            lines.setdefault(_path(table, key[1]), number)
    return lines


def _path(table: str, dotted: str) -> str:
    for step in dotted.split("."):
        table = join_key(table, step.strip())
    return table
