"""A file of another tool, its import, and what becomes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trnsim.documents import Document, read_document
from trnsim.scenario.imports import Imported, Options, import_scenario

if TYPE_CHECKING:
    from pathlib import Path


class Importer:
    """Imports texts as a user's file would be."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, format_name: str, text: str, **options: Any) -> Imported:
        path = self.folder / "theirs"
        path.write_text(text, encoding="utf-8")
        return import_scenario(format_name, path, Options(**options, folder=self.folder))

    def document(self, format_name: str, text: str, **options: Any) -> Document:
        """Return the imported scenario as it is read back."""
        return read_document(self.written(format_name, text, **options))

    def written(self, format_name: str, text: str, **options: Any) -> Path:
        """Return the file of the imported scenario."""
        path = self.folder / "ours.yaml"
        path.write_text(self(format_name, text, **options).text, encoding="utf-8")
        return path
