"""`trnsim memory`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from commandline import modules_loaded_by, trnsim

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_one_screen_by_term_and_stage(capsys: pytest.CaptureFixture[str]) -> None:
    assert trnsim("memory", "trn3-ultraserver") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 48
    assert max(map(len, lines)) <= 110
    assert next(line for line in lines if line.startswith("stage")).split() == [
        *(
            "stage",
            "layers",
            "weights",
            "gradients",
            "optimizer",
            "activations",
            "communication",
            "buffers",
            "peak",
            "of",
        ),
        "limit",
    ]
    assert "backward pass of microbatch 0" in lines[-1]


def test_json_says_the_same(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file, picture = tmp_path / "memory.json", tmp_path / "memory.svg"
    assert trnsim("memory", "trn3-ultraserver", "--json", str(file), "--plot", str(picture)) == 0
    document = json.loads(file.read_text(encoding="utf-8"))
    capsys.readouterr()
    assert trnsim("memory", "trn3-ultraserver", "--json", "-") == 0
    assert json.loads(capsys.readouterr().out) == document
    assert document["worst"] == max(document["stages"], key=lambda peak: peak["bytes"])
    assert document["worst"]["bytes"] == sum(document["worst"]["terms"].values())
    assert document["worst"]["bytes"] == max(sum(point["terms"].values()) for point in document["timeline"])
    assert picture.stat().st_size > 1000


def test_what_does_not_fit_is_shown_all_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("memory", "trn3-ultraserver", "--set", "training.micro_batch=4", "--set", "training.recompute=none")
    assert trnsim(*arguments) == 3
    shown = capsys.readouterr()
    assert "most: rank 0 of stage 0" in shown.out
    assert "may use" in shown.err


def test_no_table_package_is_loaded_without_a_plot() -> None:
    loaded = modules_loaded_by("memory", "trn3-ultraserver")
    assert not {"pandas", "matplotlib"} & loaded
