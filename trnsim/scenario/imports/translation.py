"""A scenario in the making: what was read, what was written for it, and what there is to say of both."""

from __future__ import annotations

import os
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

from trnsim.documents import existing, join_key, shorten
from trnsim.errors import InputError, Problem

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from trnsim.documents import Document
    from trnsim.scenario.imports.keys import Vocabulary
    from trnsim.scenario.imports.options import Options

__all__ = ["Translation"]

_OFF: Final[tuple[Any, ...]] = (None, False, 0, "", "none", "false", "False", "0", "None", "[]", [], {})


class Translation:
    """Collects the keys of a scenario, and never stops at the first problem.

    Parameters
    ----------
    document
        What the other tool's file says; nested tables are read as dotted keys, and keys without a value not at all.
    vocabulary
        What its keys mean.
    options
        What the user says beside it.
    remarks
        What the reader of the file chose.

    Attributes
    ----------
    entries : dict
        Values of scenario keys, by key path.
    origins : dict
        The key of the file that each entry comes from, or why it was chosen.
    choices : dict
        Reasons for the entries that no key of the file states alone, by key path.
    not_modelled, without_effect : dict
        Keys that were understood and left out, with what they do.
    unknown : dict
        Keys that were not understood, with the one that was probably meant, or nothing.
    remarks : tuple of str
        What the reader of the file chose.
    problems : list of Problem
        What keeps the scenario from being written.
    """

    def __init__(
        self, document: Document, vocabulary: Vocabulary, options: Options, remarks: tuple[str, ...] = ()
    ) -> None:
        self.document = document
        self.remarks = remarks
        self.options = options
        self.entries: dict[str, Any] = {}
        self.origins: dict[str, str] = {}
        self.choices: dict[str, str] = {}
        self.not_modelled: dict[str, str] = {}
        self.without_effect: dict[str, str] = {}
        self.unknown: dict[str, str] = {}
        self.problems: list[Problem] = []
        self._read: dict[str, Any] = {}
        for key, value in _leaves(document.data, ""):
            if value is not None:
                self._take(key, value, vocabulary)

    def value(self, key: str, default: Any = None) -> Any:
        """Return the value that a key of the file has, typed; the default where it is missing or faulty."""
        return self._read.get(key, default)

    def due(self, key: str, to: str) -> Any:
        """Return the value of a key from which a scenario key follows, or note that it is missing."""
        if key not in self._read:
            self.need(key, to)
        return self._read.get(key)

    def write(self, to: str, value: Any, origin: str) -> None:
        """Write a scenario key that a key of the file states."""
        self.entries[to] = value
        self.origins[to] = origin

    def choose(self, to: str, value: Any, reason: str) -> None:
        """Write a scenario key that no key of the file states alone, and say why."""
        self.write(to, value, reason)
        self.choices[to] = reason

    def leave_out(self, key: str, what: str) -> None:
        """Say of a key of the file that it is understood and not modelled, if the file has it."""
        if self.document.value_of(key) is not None:
            self.not_modelled[key] = what

    def refuse(self, key: str, message: str) -> None:
        """Note what is wrong with a key of the file, or that it is missing."""
        self.problems.append(self.document.problem(key, message))

    def need(self, key: str, to: str, alternative: str = "") -> None:
        """Note that the file does not say what a scenario key needs, unless that is written or has a problem already."""
        if to not in self.entries and all(problem.key != key for problem in self.problems):
            self.refuse(key, f"missing, and {to} follows from it{alternative}")

    def path(self, name_or_path: str) -> str:
        """Return a name as it is, and a path as it is written in the scenario."""
        found = existing(name_or_path)
        return name_or_path if found is None else os.path.relpath(found, self.options.folder)

    def raise_problems(self) -> None:
        """Raise an `InputError` with every problem, if there is one."""
        if self.problems:
            raise InputError(self.problems, file=self.document.name)

    def shown(self, key: str) -> str:
        """Return a key with its value, as a report shows it."""
        value = self.document.problem(key, "").value
        return self.name(key) if value is None else f"{self.name(key)} = {value}"

    @staticmethod
    def name(key: str) -> str:
        """Return a key as it is where it can be printed."""
        return key if key.isprintable() else shorten(key)

    def _take(self, key: str, value: Any, vocabulary: Vocabulary) -> None:
        """Read a key, or sort it to those that are left out."""
        known = vocabulary.keys.get(key)
        if known is not None:
            try:
                self._read[key] = known.read(value)
            except ValueError as error:
                self.refuse(key, str(error))
                return
            if known.to:
                self.write(known.to, self._read[key], key)
        else:
            self._leave(key, value, vocabulary)

    def _leave(self, key: str, value: Any, vocabulary: Vocabulary) -> None:
        """Sort a key that no scenario key has the meaning of."""
        name = _longest(key, vocabulary.not_modelled.keys() | vocabulary.without_effect.keys())
        if name in vocabulary.without_effect:
            self.without_effect[key] = vocabulary.without_effect[name]
        elif name not in vocabulary.not_modelled:
            self.unknown[key] = next(iter(get_close_matches(key, vocabulary.keys, n=1, cutoff=0.9)), "")
        elif value in _OFF:
            self.without_effect[key] = "switched off"
        else:
            self.not_modelled[key] = vocabulary.not_modelled[name]


def _leaves(table: Mapping[str, Any], path: str) -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        here = join_key(path, key)
        if isinstance(value, dict):
            yield from _leaves(value, here)
        else:
            yield here, value


def _longest(key: str, names: Collection[str]) -> str:
    """Return the key, or the longest beginning of it before a dot or an underscore, that is one of the names."""
    cuts = [position for position, character in enumerate(key) if character in "._"]
    beginnings = (key, *(key[:cut] for cut in reversed(cuts)))
    return next((beginning for beginning in beginnings if beginning in names), "")
