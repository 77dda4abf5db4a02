"""A file that a user wrote: its values, and where each of them stands."""

from __future__ import annotations

from copy import deepcopy
from functools import reduce
from reprlib import Repr
from typing import TYPE_CHECKING, Any, Final

from msgspec import field
from msgspec.structs import replace

from trnsim.documents.json_text import parse_json
from trnsim.documents.text import Faulty, Parsed, join_key, shorten, split_key
from trnsim.documents.yaml12 import parse_yaml
from trnsim.errors import InputError, Problem
from trnsim.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

__all__ = ["Document", "parse_document", "read_document", "read_text", "read_toml", "with_overrides"]

_AS_WRITTEN: Final = object()
_ABSENT: Final = object()


class Document(Record):
    """Plain values with their lines.

    Parameters
    ----------
    name
        As shown to the user.
    path
        The file; ``None`` for values that come from none. Paths written in the document are relative to its folder.
    data
        Plain values: dict, list, str, int, float, bool, None. Not to be written to.
    lines
        Line of each key path, counted from 1.
    overridden
        Key paths whose value comes from ``--set``.
    """

    name: str
    path: Path | None
    data: dict[str, Any]
    lines: Mapping[str, int] = field(default_factory=dict)
    overridden: frozenset[str] = frozenset()

    def line_of(self, key_path: str) -> int | None:
        """Return the line of a key, or of the nearest table around it; ``None`` where no line is known."""
        return next((self.lines[path] for path in _outwards(key_path) if path in self.lines), None)

    def value_of(self, key_path: str) -> Any:
        """Return the value that the user wrote at a dotted key path, or ``None``."""
        value = self._written(key_path)
        return None if value is _ABSENT else value

    def is_overridden(self, key_path: str) -> bool:
        """Say whether an override set a key or a table around it, or made the key on its way."""
        made = key_path not in self.lines and any(path.startswith(f"{key_path}.") for path in self.overridden)
        return made or any(path in self.overridden for path in _outwards(key_path))

    def problem(self, key_path: str, message: str, *, value: object = _AS_WRITTEN, capacity: bool = False) -> Problem:
        """Make a problem of one key, with its line or the mark of an override, and its value as written.

        Parameters
        ----------
        key_path
            Dotted path of the key at fault.
        message
            The rule with its arithmetic, and the nearest valid choice.
        value
            The value at fault, by default the one in the document; ``None`` for none. Tables are not shown.
        capacity
            True when only the cluster is too small.
        """
        overridden = self.is_overridden(key_path)
        written = self._written(key_path) if value is _AS_WRITTEN else _ABSENT if value is None else value
        return Problem(
            key=key_path,
            message=message,
            line=None if overridden else self.line_of(key_path),
            value=_shown(written),
            capacity=capacity,
            overridden=overridden,
        )

    def _written(self, key_path: str) -> Any:
        value: Any = self.data
        for step in split_key(key_path):
            steps = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
            value = value[step] if step in steps else _ABSENT
        return value


def read_document(path: Path) -> Document:
    """Read a YAML or JSON file; ``.json`` is read as JSON, everything else as YAML 1.2.

    A byte-order mark and CRLF line ends are fine.

    Raises
    ------
    InputError
        If the file is missing, empty, not UTF-8 or not valid, has duplicate keys, or is not a table of keys.
    """
    return parse_document(path, read_text(path))


def parse_document(path: Path, text: str) -> Document:
    """Return what a file holds, of which the text has been read; otherwise as :func:`read_document`."""
    try:
        parsed = _parse(text, is_json=path.suffix.lower() == ".json")
    except Faulty as fault:
        raise InputError(fault.problems, file=str(path)) from None
    return Document(str(path), path, parsed.data, parsed.lines)


def read_toml(path: Path) -> Document:
    """Read a TOML file, as other tools write their settings.

    Raises
    ------
    InputError
        If the file is missing, not UTF-8 or not valid TOML.
    """
    from trnsim.documents.toml_text import parse_toml

    text = read_text(path)
    try:
        parsed = parse_toml(text)
    except Faulty as fault:
        raise InputError(fault.problems, file=str(path)) from None
    return Document(str(path), path, parsed.data, parsed.lines)


def read_text(path: Path) -> str:
    """Read a file as UTF-8 text, without its byte-order mark.

    Raises
    ------
    InputError
        If the file is missing, cannot be read or is not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        reason = f"not UTF-8 text: {error.reason} at byte {error.start}"
    except OSError as error:
        reason = "no such file" if isinstance(error, FileNotFoundError) else f"cannot be read: {error.strerror}"
    raise InputError([Problem("", reason)], file=str(path))


def with_overrides(document: Document, overrides: Sequence[str]) -> Document:
    """Replace values of a document.

    Parameters
    ----------
    document
        Left as it is.
    overrides
        ``key.path=value`` each, with the value read as YAML 1.2; later ones win. Tables on the way are made.

    Raises
    ------
    InputError
        With every override that is not ``key=value``, whose value is not YAML, or that goes through a value that is
        not a table.

    Examples
    --------
    >>> from trnsim.documents import Document, with_overrides
    >>> with_overrides(Document("a.yaml", None, {"layout": {"tp": 4}}), ["layout.tp=8", "run.skew=off"]).data
    {'layout': {'tp': 8}, 'run': {'skew': 'off'}}
    """
    data = deepcopy(document.data)
    problems = [problem for override in overrides for problem in _apply(override, data)]
    if problems:
        raise InputError(problems, file=document.name)
    keys = {reduce(join_key, _steps(override), "") for override in overrides}
    return replace(document, data=data, overridden=document.overridden | keys)


def _parse(text: str, *, is_json: bool) -> Parsed:
    if not text.strip():
        raise Faulty([Problem("", "the file is empty")])
    parsed = parse_json(text) if is_json else parse_yaml(text)
    if parsed.data is None:
        raise Faulty([Problem("", "the file holds no keys; is there nothing but comments?")])
    if not isinstance(parsed.data, dict):
        raise Faulty([Problem("", "a table of keys is due at the top of the file", 1)])
    return parsed


def _apply(override: str, data: dict[str, Any]) -> Iterator[Problem]:
    """Write one override into `data`, or yield what is wrong with it."""
    key, equals, text = override.partition("=")
    *tables, last = steps = _steps(override)
    if not equals or not all(steps):
        yield Problem(override, "write an override as key=value, for instance layout.tp=8", overridden=True)
        return
    try:
        value = parse_yaml(text).data if text.strip() else None
    except Faulty as fault:
        yield from (Problem(key, problem.message, value=text, overridden=True) for problem in fault.problems)
        return
    table = data
    for depth, step in enumerate(tables, start=1):
        inner = table.setdefault(step, {})
        if not isinstance(inner, dict):
            yield Problem(key, f"{'.'.join(tables[:depth])} is not a table", overridden=True)
            return
        table = inner
    table[last] = value


def _steps(override: str) -> list[str]:
    return override.partition("=")[0].strip().split(".")


def _outwards(key_path: str) -> Iterator[str]:
    """Yield the path of a key, of the table around it, and so on outwards."""
    while key_path:
        yield key_path
        cut = max(key_path.rfind("."), key_path.rfind("["))
        key_path = key_path[: max(cut, 0)]


def _shown(value: object) -> str | None:
    """Write a value as in YAML, shortened; ``None`` for tables and for nothing."""
    if value is _ABSENT or isinstance(value, dict):
        return None
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list):
        return shorten(_brief(value))
    return shorten(f"{value:.15g}" if isinstance(value, float) else str(value))


def _brief(items: list[Any]) -> str:
    """Write the beginning of a list: aliases can make a short file mean an endless one."""
    brief = Repr()
    brief.maxlist = brief.maxstring = 60
    return brief.repr(items).replace("'", "")
