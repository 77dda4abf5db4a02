"""One hash for one scenario: over every value of its resolved form, the numbers of catalog and model included."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trnsim.record import Record

if TYPE_CHECKING:
    from trnsim.scenario.spec import Scenario

__all__ = ["sha256"]

_WORDS = frozenset(
    {
        "basis",
        "defaults",
        "derived",
        "document",
        "facts",
        "file",
        "notes",
        "software_family",
        "source",
        "variants",
        "warnings",
    }
)
"""Fields left out: words for people, repetitions of other values, and where files lie on this machine."""


def sha256(scenario: Scenario) -> str:
    """Return the SHA-256 of a scenario's canonical JSON, as 64 hexadecimal digits.

    It changes with every value that a result can depend on, and neither with the place of the files nor with the order
    of their keys.
    """
    text = json.dumps(_plain(scenario), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, Record):
        return {name: _plain(getattr(value, name)) for name in value.__struct_fields__ if name not in _WORDS}
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, tuple | list):
        return [_plain(inner) for inner in value]
    return str(value) if isinstance(value, Path) else value
