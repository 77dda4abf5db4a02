"""Every command in the documentation is run; it ends and prints as the page shows it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from console import PAGES, REPOSITORY, blocks, commands, files, name_of, run, shows

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a reader start in an empty folder."""
    monkeypatch.chdir(tmp_path)


def write_files(page: Path, folder: Path) -> None:
    """Write the files that a page tells its reader to write."""
    for path, text in files(page):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "console")], ids=name_of)
def test_commands_print_what_the_page_shows(page: Path, tmp_path: Path) -> None:
    write_files(page, tmp_path)
    for block in blocks(page, "console"):
        for command in commands(block):
            if command.line.startswith("trnsim "):
                text, code = run(command.line)
                assert (command.line, code) == (command.line, command.code), text
                assert shows(command.shown, text), f"{command.line} prints otherwise; {REFRESH}:\n{text}"


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "console")], ids=name_of)
def test_targets_of_make_exist(page: Path) -> None:
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    for block in blocks(page, "console"):
        for command in commands(block):
            if command.line.startswith("make "):
                assert re.search(rf"^{command.line.split()[1]}:", makefile, re.MULTILINE), command.line


def test_ellipses_stand_for_any_text_and_nothing_else_does() -> None:
    # a line of dots skips lines, dots in a line skip text; a line that is not printed, or printed elsewhere, fails
    text = "one\ntwo 2\nthree\n"
    assert shows((), text)
    assert shows(("one", "..."), text)
    assert shows(("one", "two ...", "three"), text)
    assert not shows(("one", "three"), text)
    assert not shows(("...", "four"), text)
    assert not shows(("three", "...", "one"), text)


REFRESH = "python tests/refresh_docs.py brings the pages up to date"
