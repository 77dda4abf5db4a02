"""What the pages of docs/ must hold."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnsim.results import Column

TABLES_PAGE = Path(__file__).parents[1] / "docs" / "tables.md"


def section(name: str, columns: Sequence[Column]) -> str:
    """Return the section of docs/tables.md on one table; when a test differs, paste this text there."""
    head = [f"## {name}", "", "| column | dtype | unit | meaning |", "|---|---|---|---|"]
    return "\n".join([*head, *(f"| `{c.name}` | {c.dtype} | {c.unit} | {c.meaning} |" for c in columns)]) + "\n"
