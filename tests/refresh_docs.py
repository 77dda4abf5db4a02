"""Bring the documentation up to date: generated parts, and what commands show. Run as ``python tests/refresh_docs.py``."""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING

from console import PAGES, blocks, commands, files, name_of, refreshed, run, shows
from generated import SECTIONS, marked, page_of

if TYPE_CHECKING:
    from pathlib import Path


def refresh_sections() -> None:
    """Write the generated parts anew."""
    for (page, name), write in SECTIONS.items():
        text = page_of(page).read_text(encoding="utf-8")
        found = marked(name).search(text)
        if found is not None:
            page_of(page).write_text(text[: found.start()] + write() + text[found.end() :], encoding="utf-8")


def refresh_console(page: Path) -> None:
    """Run the commands of a page and write down lines that they no longer print."""
    for path, text in files(page):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    content = page.read_text(encoding="utf-8")
    for block in blocks(page, "console"):
        new = block
        for command in commands(block):
            if command.line.startswith("trnsim "):
                text, code = run(command.line)
                if not shows(command.shown, text):
                    lines = refreshed(command.shown, text)
                    new = new.replace("\n".join(command.shown), "\n".join(lines), 1)
                    verdict = "refreshed" if shows(lines, text) else "differs, look at it"
                    print(f"{name_of(page)}: {command.line}: {verdict}")  # noqa: T201
                if code != command.code:
                    print(f"{name_of(page)}: {command.line}: exit code {code}, not {command.code}")  # noqa: T201
        content = content.replace(block, new)
    page.write_text(content, encoding="utf-8")


def main() -> None:
    """Refresh every page."""
    refresh_sections()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for page in PAGES:
            refresh_console(page)
        os.chdir(page.parent)


if __name__ == "__main__":
    main()
