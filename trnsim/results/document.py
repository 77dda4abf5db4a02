"""The JSON document of a run: the same bytes for the same scenario and version."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from trnsim.record import Record

if TYPE_CHECKING:
    from trnsim.results.result import Result

__all__ = ["json_text", "to_dict"]

_NOT_IN_THE_DOCUMENT = frozenset({"timeline"})


def to_dict(result: Result) -> dict[str, Any]:
    """Return a result as plain dictionaries, lists, numbers and text, in the order of the declarations."""
    return {name: plain(getattr(result, name)) for name in result.__struct_fields__ if name not in _NOT_IN_THE_DOCUMENT}


def json_text(document: Mapping[str, Any]) -> str:
    """Return a document as JSON text: indented, in the given order of keys, ending in a newline.

    Raises
    ------
    ValueError
        If a number is infinite or not a number: JSON has no such thing.

    Examples
    --------
    >>> print(json_text({"name": "one chip", "step": {"time_s": 0.25}}), end="")
    {
      "name": "one chip",
      "step": {
        "time_s": 0.25
      }
    }
    """
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def plain(value: object) -> Any:
    """Turn records, mappings and sequences into dictionaries and lists."""
    if isinstance(value, Record):
        return {name: plain(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value
