"""Every Python example of the documentation is run, from top to bottom of its page."""

from __future__ import annotations

import doctest
from typing import TYPE_CHECKING, Any

import pytest
from console import PAGES, blocks, files, name_of

if TYPE_CHECKING:
    from pathlib import Path

OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def examples(page: Path) -> list[str]:
    """Return the Python blocks of a page that are no files."""
    written = {text for _, text in files(page)}
    return [block for block in blocks(page, "python") if block not in written]


@pytest.mark.parametrize("page", [page for page in PAGES if examples(page)], ids=name_of)
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path, text in files(page):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    names: dict[str, Any] = {}
    for block in examples(page):
        if ">>>" in block:
            test = doctest.DocTestParser().get_doctest(block, names, name_of(page), str(page), 0)
            complaints: list[str] = []
            doctest.DocTestRunner(optionflags=OPTIONS).run(test, out=complaints.append, clear_globs=False)
            names = test.globs
            assert not complaints, "".join(complaints)
        else:
            exec(compile(block, str(page), "exec"), names)  # noqa: S102 - the example of a page of ours
