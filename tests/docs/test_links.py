"""Links and paths in the documentation lead somewhere."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from console import PAGES, REPOSITORY, name_of

if TYPE_CHECKING:
    from pathlib import Path

ROOTS = ("trnsim/", "scenarios/", "topologies/", "tests/", "notebooks/", "benchmarks/", "docs/", ".github/", ".ci/")


def text_of(page: Path) -> str:
    """Return a page without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """Return the anchors that the headings of a page have on GitHub."""
    headings = re.findall(r"^#+ (.+)$", text_of(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_relative_links_lead_to_files_and_headings(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", text_of(page)):
        if "://" not in target:
            path, _, anchor = target.partition("#")
            file = (page.parent / path).resolve() if path else page
            assert file.exists(), target
            assert not anchor or anchor in anchors(file), target


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_paths_of_the_repository_exist(page: Path) -> None:
    # words in capitals stand for a name of the reader's
    for word in re.findall(r"`([\w./-]+)`", text_of(page)):
        if word.startswith(ROOTS) and not re.search(r"[A-Z]{3}", word):
            assert (REPOSITORY / word).exists(), word


def test_the_index_names_every_page() -> None:
    index = (REPOSITORY / "docs" / "README.md").read_text(encoding="utf-8")
    for page in PAGES:
        if page.parent == REPOSITORY / "docs" and page.name != "README.md":
            assert f"]({page.name})" in index, page.name


def test_the_list_of_decisions_names_each() -> None:
    folder = REPOSITORY / "docs" / "adr"
    listed = (folder / "README.md").read_text(encoding="utf-8")
    for page in sorted(folder.glob("0*.md")):
        assert f"]({page.name})" in listed, page.name
