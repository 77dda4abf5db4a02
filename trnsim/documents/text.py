"""What the readers of YAML and JSON share: their result, their refusal, and how a key path is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trnsim.errors import Problem

__all__ = ["Faulty", "Parsed", "join_key"]


@dataclass(frozen=True, slots=True)
class Parsed:
    """Plain values of a text, and the line on which each key path stands."""

    data: Any
    lines: Mapping[str, int]


class Faulty(Exception):  # noqa: N818 - it becomes an InputError once the file's name is known
    """A text cannot be read; carries every problem found in it."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__(problems)
        self.problems = tuple(problems)


def join_key(path: str, step: str | int) -> str:
    """Write the path of a key or list item below `path`.

    Examples
    --------
    >>> join_key("layout", "stages"), join_key("layout.stages", 2), join_key("", "name")
    ('layout.stages', 'layout.stages[2]', 'name')
    """
    if isinstance(step, int):
        return f"{path}[{step}]"
    return f"{path}.{step}" if path else step
