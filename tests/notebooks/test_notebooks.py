"""Every notebook executes from top to bottom, and git holds none of its outputs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Execute the notebooks as `make notebooks` does; nbclient raises what a cell raises, and after 300 s of a cell."""
    out = tmp_path_factory.mktemp("executed")
    command = [sys.executable, str(FOLDER / "execute.py"), "--out", str(out)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return out


def code_cells(path: Path) -> list[dict[str, Any]]:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def outputs(path: Path) -> list[dict[str, Any]]:
    return [output for cell in code_cells(path) for output in cell["outputs"]]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_executes_and_draws(path: Path, executed: Path) -> None:
    found = outputs(executed / path.name)
    assert all(cell["execution_count"] for cell in code_cells(executed / path.name))
    assert not [output for output in found if output.get("name") == "stderr"]
    figures = [output for output in found if "image/png" in output.get("data", {})]
    assert len(figures) == len(list(executed.glob(f"{path.stem}-*.png"))) > 0


def test_scaling_curves_say_where_they_start_and_stop(executed: Path) -> None:
    # 405B needs 18 bytes a parameter without sharding: 405.9e9 x 18 / 64 chips = 106 GiB, more than a Trn2 chip has.
    text = "".join("".join(output.get("text", [])) for output in outputs(executed / "scaling_curves.ipynb"))
    assert text.count("left out:") == 1
    assert "may use 91.2 GiB" in text
    assert "Llama 3.1 405B on trn2-ultraserver: from 128 to 131,072 chips" in text
    assert "Llama 3.1 405B on trn3-gen2-ultraserver: from 144 to 147,456 chips" in text
    assert (
        "llama3-70b stops before 147,456 chips of trn2-ultraserver: dp 9,216 exceeds the global batch of 2,304" in text
    )
    assert "1,000,000 chips keep" in text
    assert "1,000,080 chips keep" in text


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_stripped(path: Path) -> None:
    for cell in code_cells(path):
        assert cell["outputs"] == [], "python notebooks/execute.py --strip"
        assert cell["execution_count"] is None, "python notebooks/execute.py --strip"
