"""What docs/extending.md tells its reader to add works: in a copy of trnsim, all of it at once."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from console import REPOSITORY, blocks, files

if TYPE_CHECKING:
    from pathlib import Path

PAGE = REPOSITORY / "docs" / "extending.md"
RUN = """\
import json, sys
import trnsim
from trnsim.results import csv_text

scenario = trnsim.load("my-scenario.yaml", [
    "schedule.kind=GPipe-FIFO", "collectives.algorithm=one-way-ring", "run.note=hello", "run.steps=1",
])
result = trnsim.simulate(scenario)
print(json.dumps({
    "package": trnsim.__file__,
    "note": scenario.run.note,
    "algorithms": sorted({use.algorithm for use in result.collectives if use.op != "send-recv"}),
    "in flight": [stage.in_flight for stage in result.stages],
    "columns": csv_text(result, "step").splitlines()[0].split(","),
    "warnings": result.warnings,
}))
"""


def patched(text: str, change: str) -> str:
    """Apply one change: lines that begin with a plus are new, all others are there, once and in a row."""
    lines = change.splitlines()[1:]
    old = "\n".join(line[1:] for line in lines if line[0] in " -")
    new = "\n".join(line[1:] for line in lines if line[0] in " +")
    assert text.count(old) == 1, f"the page changes lines that are not there:\n{old}"
    return text.replace(old, new)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Copy trnsim and make every addition and change of the page."""
    for folder in ("trnsim", "scenarios", "topologies"):
        shutil.copytree(REPOSITORY / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for path, text in files(PAGE):
        (tmp_path / path).write_text(text, encoding="utf-8")
    for change in blocks(PAGE, "diff"):
        file = tmp_path / change.splitlines()[0].removeprefix("--- ")
        file.write_text(patched(file.read_text(encoding="utf-8"), change), encoding="utf-8")
    return tmp_path


def test_everything_on_the_page_works_together(copy: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    run = subprocess.run(
        [sys.executable, "-c", RUN], cwd=copy, env=environment, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert found["package"].startswith(str(copy))
    assert found["note"] == "hello"
    assert found["algorithms"] == ["one-way-ring"]
    assert found["in flight"] == [16, 16]  # all microbatches: 128 sequences / dp 8
    assert "tokens_per_s_per_host" in found["columns"]
    assert found["warnings"] == []
