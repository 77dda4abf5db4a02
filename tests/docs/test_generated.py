"""The generated parts of the documentation are what the code says now."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from generated import SECTIONS, marked, page_of

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize(("place", "write"), SECTIONS.items(), ids=[f"{page} {name}" for page, name in SECTIONS])
def test_part_is_current(place: tuple[str, str], write: Callable[[], str]) -> None:
    page, name = place
    found = marked(name).search(page_of(page).read_text(encoding="utf-8"))
    assert found is not None, f"{page} has no part {name}"
    assert found[1] == write(), "python tests/refresh_docs.py writes it anew"


@pytest.mark.parametrize("page", dict.fromkeys(page for page, _ in SECTIONS))
def test_every_marked_part_is_generated(page: str) -> None:
    for name in re.findall(r"<!-- generated: ([\w-]+) -->", page_of(page).read_text(encoding="utf-8")):
        assert (page, name) in SECTIONS
