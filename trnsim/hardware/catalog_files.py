"""From a name to a checked catalog file whose values know their sources."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeVar

from msgspec.structs import replace

from trnsim import documents
from trnsim.documents import Document, existing, locate, parse_document, read_text, refuse_unknown, validate
from trnsim.errors import InputError, Problem
from trnsim.hardware.schema import SourcedFile, SourcedValue
from trnsim.hardware.sourced import Sourced
from trnsim.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["CatalogKind", "Entry", "from_anywhere", "names", "open_entry", "read_entry"]

File = TypeVar("File", bound=SourcedFile)
T = TypeVar("T")

_CATALOG: Final = Path(__file__).resolve().parent / "catalog"

CatalogKind = Literal["chips", "servers", "families", "collective-families"]
"""The folders of the catalog."""


def names(kind: CatalogKind) -> tuple[str, ...]:
    """Return the names of the catalog, sorted and without variants; no file is read.

    Examples
    --------
    >>> names("chips")[-3:]
    ('trainium1', 'trainium2', 'trainium3')
    """
    return documents.names(kind, _folder(kind))


class Entry(Record, Generic[File]):
    """A checked file.

    Parameters
    ----------
    name
        Its stem, with the variant that was asked for.
    document
        The values as written, the variant's in place.
    file
        The values, checked.
    """

    name: str
    document: Document
    file: File

    @property
    def folder(self) -> Path | None:
        """Where the file lies; paths in it are relative to it."""
        return None if self.document.path is None else self.document.path.parent

    @property
    def variants(self) -> dict[str, str]:
        """The variants that the file declares, and why each exists."""
        return {name: variant.because for name, variant in self.file.variants.items()}

    def sourced(self, written: SourcedValue[T]) -> Sourced[T]:
        """Return a value with its source spelled out (text of the source, then the note); a list becomes a tuple."""
        source = self.file.sources[written.source]
        text = f"{source.text}: {written.note}" if written.note else source.text
        value: Any = tuple(written.value) if isinstance(written.value, list) else written.value
        return Sourced(value, written.kind, text, source.read, written.low, written.high)

    def optional(self, written: SourcedValue[T] | None) -> Sourced[T] | None:
        """Return a value that a file may leave out."""
        return None if written is None else self.sourced(written)

    def each_sourced(self, table: Mapping[str, SourcedValue[T]]) -> dict[str, Sourced[T]]:
        """Return a table of values with their sources spelled out."""
        return {key: self.sourced(written) for key, written in table.items()}

    def refuse(self, problems: Sequence[Problem]) -> None:
        """Raise an :class:`InputError` of this file if there are any problems."""
        if problems:
            raise InputError(problems, file=self.document.name)


def read_entry(path: Path, model: type[File], variant: str | None = None) -> Entry[File]:
    """Read and check a file whose values have sources.

    Parameters
    ----------
    path
        The file.
    model
        What it may say.
    variant
        Name of a variant that the file declares; ``None`` for the values as they stand.

    Raises
    ------
    InputError
        With every problem of the file: values without source or unit, unknown sources. A variant that it does not
        declare is a problem without a key: that of whoever asked for it.
    """
    entry: Entry[File] = _checked(path, read_text(path), model, variant)
    return entry


@lru_cache(maxsize=64)
def _checked(path: Path, text: str, model: type[File], variant: str | None) -> Entry[File]:
    """Return the entry of a file with this text: studies ask for the same few thousands of times."""
    document = parse_document(path, text)
    problems = [*documents.problems_of(document, model), *_unknown_sources(document)]
    if problems:
        raise InputError(problems, file=document.name)
    if variant is None:
        return Entry(path.stem, document, validate(document, model))
    name = f"{path.stem}@{variant}"
    if variant not in document.data.get("variants", {}):
        message = refuse_unknown("variant", variant, document.data.get("variants", {}))
        raise InputError([Problem("", message)], file=name)
    document = _with_variant(document, variant)
    return Entry(name, document, validate(document, model))


def open_entry(kind: CatalogKind, name_or_path: str, model: type[File], relative_to: Path | None = None) -> Entry[File]:
    """Find, read and check a catalog file by ``name``, ``name@variant``, path or ``path@variant``.

    An existing path beats a name; a path is relative to `relative_to`.
    """
    path, variant = _find(kind, name_or_path, relative_to)
    return read_entry(path, model, variant)


def from_anywhere(kind: CatalogKind, name_or_path: str, relative_to: Path | None = None) -> str:
    """Return what stands for an entry in any folder: its name as given, or the path of a file of one's own.

    Raises
    ------
    InputError
        If there is no such entry; what is in it is not looked at.
    """
    path, variant = _find(kind, name_or_path, relative_to)
    if path.parent == _folder(kind):
        return name_or_path
    return str(path) if variant is None else f"{path}@{variant}"


def _find(kind: CatalogKind, name_or_path: str, relative_to: Path | None) -> tuple[Path, str | None]:
    """Return the file that `name_or_path` stands for, and the variant that it asks for."""
    if (path := existing(name_or_path, relative_to)) is not None:
        return path, None
    name, at, variant = name_or_path.rpartition("@")
    return locate(kind, name if at else name_or_path, relative_to, _folder(kind)), variant if at else None


def _folder(kind: CatalogKind) -> Path:
    return _CATALOG / kind


def _unknown_sources(document: Document) -> Iterator[Problem]:
    known = document.data.get("sources")
    sources = list(known) if isinstance(known, dict) else []
    for key, name in _cited("", document.data):
        if name not in sources:
            yield document.problem(key, refuse_unknown("source", name, sources), value=None)


def _cited(key: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield the key and the text of every ``source`` beside a ``value``."""
    if not isinstance(value, dict):
        return
    if "value" in value and isinstance(value.get("source"), str):
        yield f"{key}.source", value["source"]
    for step, inner in value.items():
        yield from _cited(f"{key}.{step}" if key else step, inner)


def _with_variant(document: Document, variant: str) -> Document:
    """Put the values of a variant in place, with the lines on which they stand."""
    place = f"variants.{variant}.values."
    moved = {key.removeprefix(place): line for key, line in document.lines.items() if key.startswith(place)}
    data = _merged(document.data, document.data["variants"][variant]["values"])
    return replace(document, data=data, lines={**document.lines, **moved})


def _merged(table: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Merge tables key by key; a value with its source is replaced as a whole."""
    merged = dict(table)
    for key, change in changes.items():
        old = merged.get(key)
        if isinstance(old, dict) and isinstance(change, dict) and "value" not in change:
            merged[key] = _merged(old, change)
        else:
            merged[key] = change
    return merged
