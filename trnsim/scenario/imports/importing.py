"""From the file of another tool to the text of a scenario."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from trnsim.documents import commented_yaml, refuse_unknown, shorten
from trnsim.errors import InputError, Problem
from trnsim.record import Record
from trnsim.scenario.imports.report import lines_of_the_rest, report_lines
from trnsim.scenario.imports.translation import Translation

if TYPE_CHECKING:
    from pathlib import Path

    from trnsim.scenario.imports.keys import Vocabulary
    from trnsim.scenario.imports.options import Options

__all__ = ["Imported", "format_names", "import_scenario", "vocabulary_of"]

_FORMATS: Final = {"nxdt": "nxdt", "megatron-args": "megatron", "torchtitan": "torchtitan"}
"""The module of each format. It has `TOOL`, a name for people; `VOCABULARY`; `read`, which gives a document and remarks; `translate`."""

_TABLES: Final = ("cluster", "model", "training", "layout", "schedule")


class Imported(Record):
    """A scenario from another tool's file.

    Parameters
    ----------
    text
        The scenario file, with the report in its head and the origin of each value behind it.
    report
        Choices, keys left out, keys not understood and keys without effect, as lines.
    """

    text: str
    report: tuple[str, ...]


def format_names() -> tuple[str, ...]:
    """Return the names of the formats that can be imported."""
    return tuple(_FORMATS)


def vocabulary_of(format_name: str) -> Vocabulary:
    """Return what is known of the keys of a format, one of :func:`format_names`."""
    vocabulary: Vocabulary = _module(format_name).VOCABULARY
    return vocabulary


def import_scenario(format_name: str, path: Path, options: Options) -> Imported:
    """Read another tool's file as a scenario.

    Parameters
    ----------
    format_name
        One of :func:`format_names`.
    path
        The file.
    options
        What it does not say.

    Raises
    ------
    InputError
        With every value that cannot be read and everything that is missing. What the file says is translated, not
        judged: whether the scenario keeps the rules is for :func:`trnsim.scenario.load` to say.
    """
    if format_name not in _FORMATS:
        raise InputError([Problem("", refuse_unknown("format", format_name, _FORMATS))], file=str(path))
    module = _module(format_name)
    document, remarks = module.read(path)
    translation = Translation(document, module.VOCABULARY, options, remarks)
    module.translate(translation)
    translation.raise_problems()
    report = report_lines(translation)
    head = (f"Imported from {shorten(path.name)}, {module.TOOL}.", *report)
    return Imported(
        commented_yaml(_document(translation, path), _comments(translation), head),
        (*report, *lines_of_the_rest(translation)),
    )


def _module(format_name: str) -> Any:
    return import_module(f"{__package__}.{_FORMATS[format_name]}")


def _document(translation: Translation, path: Path) -> dict[str, Any]:
    """Return the entries as nested tables, in the order in which scenarios are written."""
    document: dict[str, Any] = {"schema": 1, "name": shorten(path.stem)}
    ranked = sorted(translation.entries, key=lambda key: _TABLES.index(key.partition(".")[0]))
    for key in ranked:
        *tables, last = key.split(".")
        table = document
        for step in tables:
            table = table.setdefault(step, {})
        table[last] = translation.entries[key]
    return document


def _comments(translation: Translation) -> dict[str, str]:
    """Return the origin of each entry; one that was chosen is explained in the head."""
    return {
        key: "chosen, see above" if key in translation.choices else shorten(origin)
        for key, origin in translation.origins.items()
    }
