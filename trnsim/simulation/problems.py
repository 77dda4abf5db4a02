"""What is wrong with a question, collected so that one report names all of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from trnsim import documents
from trnsim.documents.text import shorten
from trnsim.errors import InputError, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Report"]

_Value = TypeVar("_Value")


class Report:
    """Collects what is wrong, so that a user hears all of it at once.

    Parameters
    ----------
    name
        What the report is about.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.problems: list[Problem] = []
        self.warnings: list[str] = []

    def add(self, key: str, message: str, value: object = None, *, capacity: bool = False) -> None:
        """Note a problem."""
        shown = None if value is None else shorten(str(value))
        self.problems.append(Problem(key, message, value=shown, capacity=capacity))

    def read(self, key: str, read: Callable[[str], _Value], text: str, otherwise: _Value) -> _Value:
        """Return what a text stands for; if it stands for nothing, note why and return the other value."""
        try:
            return read(text)
        except InputError as error:
            self.problems.extend(error.problems)
        except ValueError as error:
            self.add(key, str(error), text)
        return otherwise

    def choice(self, key: str, word: str, names: Sequence[str], kind: str = "") -> str:
        """Return the name that a word means, without regard to case and dashes; empty if it means none.

        `kind` is what the names are names of.
        """
        found = [name for name in names if documents.canonical(name) == documents.canonical(word)]
        if not found:
            self.add(key, documents.refuse_unknown(kind or key, word, names))
        return found[0] if found else ""

    def count(self, key: str, number: int | None) -> None:
        """Note a number that counts nothing."""
        if number is not None and number < 1:
            self.add(key, "at least 1 is due", number)

    def close(self) -> None:
        """Raise all that was noted.

        Raises
        ------
        InputError
            If anything was.
        """
        if self.problems:
            raise InputError(dict.fromkeys(self.problems), file=self.name)
