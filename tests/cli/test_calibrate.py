"""`trnsim calibrate`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from commandline import trnsim
from measured import KORTHIKANTI, table

from trnsim.hardware import load_family

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_scenario_takes_the_family_of_one_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # law: fitted to one step, the simulator says of that step what was measured
    mine = tmp_path / "mine.yaml"
    step = {**KORTHIKANTI, "value": 0.9}
    assert (
        trnsim("calibrate", "--measured", str(table(tmp_path, step)), "--family", "megatron-a100", "-o", str(mine)) == 0
    )
    shown = capsys.readouterr().out
    assert shown.startswith("megatron-a100: 1 number fitted to 1 measured step (1 of korthikanti22)\n  gemm_efficiency")
    assert "and no deviation: there are no more steps than numbers" in shown
    assert "no measurement of its error" in shown
    assert load_family(str(mine)).fitted == ("gemm_efficiency",)


def test_what_cannot_be_fitted_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = table(tmp_path, KORTHIKANTI)
    assert trnsim("calibrate", "--measured", str(path), "--family", "megatron-a100", "-o", str(path)) == 2
    assert "would overwrite" in capsys.readouterr().err or path.read_text(encoding="utf-8").startswith("id")
    out = str(tmp_path / "out.yaml")
    assert trnsim("calibrate", "--measured", str(path), "--family", "neuron-trn3", "-o", out) == 2
    assert "no row for a fit is simulated with neuron-trn3" in capsys.readouterr().err
    arguments = ["calibrate", "--measured", str(path), "--family", "megatron-a100", "-o", out]
    assert trnsim(*arguments, "--fit", "byte_term") == 2
    assert "gemm_efficiency" in capsys.readouterr().err
