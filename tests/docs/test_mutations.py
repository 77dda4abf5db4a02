"""What is said to be noticed when it is broken is there to be broken, and the tests that notice are there."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from mutations import MUTATIONS, REPOSITORY, Mutation, survives

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("mutation", MUTATIONS, ids=[each.breaks for each in MUTATIONS])
def test_it_can_be_broken(mutation: Mutation) -> None:
    assert (REPOSITORY / "trnsim" / mutation.file).read_text(encoding="utf-8").count(mutation.old) == 1
    file, _, name = mutation.test.partition("::")
    assert f"def {name}(" in (REPOSITORY / "tests" / file).read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("mutation", MUTATIONS, ids=[each.breaks for each in MUTATIONS])
def test_it_is_noticed(mutation: Mutation, tmp_path: Path) -> None:
    shutil.copytree(REPOSITORY, tmp_path / "copy", ignore=shutil.ignore_patterns(".*", "__pycache__"))
    assert not survives(mutation, tmp_path / "copy")
