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
    lines = (REPOSITORY / "tests" / file).read_text(encoding="utf-8").splitlines()
    assert any(line.startswith((f"def {name}(", f"{name} = ")) for line in lines)


@pytest.mark.slow
@pytest.mark.parametrize("mutation", MUTATIONS, ids=[each.breaks for each in MUTATIONS])
def test_it_is_noticed(mutation: Mutation, tmp_path: Path) -> None:
    shutil.copytree(REPOSITORY, tmp_path / "copy", ignore=shutil.ignore_patterns(".*", "__pycache__"))
    assert not survives(mutation, tmp_path / "copy")
