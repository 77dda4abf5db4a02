"""`trnsim validate`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from commandline import modules_loaded_by, trnsim
from measured import KORTHIKANTI, table

from trnsim.cli import progress

if TYPE_CHECKING:
    from pathlib import Path

WRONG = {**KORTHIKANTI, "id": "b", "dp": 3}
MEMORY = {**KORTHIKANTI, "id": "c", "metric": "activation_memory", "unit": "GiB", "tp": 8}


def test_one_table_by_set_with_what_was_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert trnsim("validate", str(table(tmp_path, KORTHIKANTI, WRONG, MEMORY)), "--jobs", "1") == 0
    shown = capsys.readouterr()
    lines = shown.out.splitlines()
    assert lines[0].split() == ["set", "rows", "simulated", "mean", "median", "max", "bias", "baseline", "peers"]
    assert lines[1].split()[:3] == ["korthikanti22", "2", "1"]
    assert lines[1].endswith("Calculon 3.65")
    assert "      1  degrees do not multiply to the accelerators: tp 4 x pp 2 x dp 3 = 24 of 8".rstrip() in shown.out
    assert "1  activation_memory is not the time of a step" in shown.out
    assert "three virtual stages where the source names none" in " ".join(shown.out.split())  # what is assumed
    assert max(map(len, lines)) <= 110
    assert shown.err.startswith("simulated 1 steps in ")
    assert shown.err.rstrip().endswith("rows/s")


def test_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert trnsim("validate", str(table(tmp_path, KORTHIKANTI)), "--rows", "--jobs", "1") == 0
    head, row = capsys.readouterr().out.splitlines()[-2:]
    assert head.split() == ["row", "set", "measured", "predicted", "error", "band", "regime"]
    assert row.split()[:4] == ["a", "korthikanti22", "2.00", "s"]
    assert row.endswith(("-  general", "-  large, compute-bound")) or 0 < float(row.split()[7]) < 100  # the band


def test_json_has_the_keys_that_are_promised(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    measured, file = str(table(tmp_path, KORTHIKANTI, WRONG)), tmp_path / "validation.json"
    assert trnsim("validate", measured, "--json", str(file), "--jobs", "1") == 0
    document = json.loads(file.read_text(encoding="utf-8"))
    (found,) = document["sets"].values()
    assert list(found) == [
        "rows",
        "simulated",
        "skipped",
        "mape_percent",
        "median_percent",
        "max_percent",
        "bias_percent",
        "baseline_mape_percent",
    ]
    assert (found["rows"], found["simulated"], sum(found["skipped"].values())) == (2, 1, 1)
    assert found["mape_percent"] == found["median_percent"] == found["max_percent"] == abs(found["bias_percent"])
    assert found["baseline_mape_percent"] > 0  # fitted on the rows that ship, not on these
    assert "rows" not in document
    capsys.readouterr()
    assert trnsim("validate", measured, "--json", "-", "--rows", "--jobs", "1") == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert {"id", "group", "predicted_s", "measured_s", "regime"} <= set(row)
    assert (row["id"], row["group"], row["measured_s"], row["split"]) == ("a", "korthikanti22", 2.0, "test")
    assert row["error_fraction"] == pytest.approx(row["predicted_s"] / 2 - 1)


def test_a_table_of_skipped_rows_is_no_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "validation.svg"
    arguments = (str(table(tmp_path, MEMORY)), str(table(tmp_path, WRONG, name="other.csv")))
    assert trnsim("validate", *arguments, "--jobs", "1", "--plot", str(picture)) == 0
    assert "korthikanti22     1          0" in capsys.readouterr().out
    assert picture.stat().st_size > 1000


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("id,group,model,metric,value,unit\n", "the table has no rows"),
        ("", "a column id, group, model, metric, value, unit is due"),
        ("id,group,model,metric,value\na,b,c,iteration_time,1\n", "a column unit is due"),
        (None, "cannot be read"),
    ],
)
def test_what_is_no_table_ends_with_2(
    tmp_path: Path, text: str | None, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "measured.csv"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    assert trnsim("validate", str(path)) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert sentence in shown.err
    assert "Traceback" not in shown.err


def test_a_table_is_not_overwritten(tmp_path: Path) -> None:
    measured = table(tmp_path, KORTHIKANTI)
    before = measured.read_text(encoding="utf-8")
    assert trnsim("validate", str(measured), "--json", str(measured)) == 2
    assert measured.read_text(encoding="utf-8") == before


def test_no_picture_no_drawing_and_runs_load_neither(tmp_path: Path) -> None:
    loaded = modules_loaded_by("validate", str(table(tmp_path, KORTHIKANTI)), "--jobs", "1")
    assert not {"pandas", "matplotlib", "scipy"} & loaded
    assert not {"pandas", "matplotlib", "scipy", "joblib"} & modules_loaded_by("run", "trn3-ultraserver")


def test_a_bar_is_shown_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert list(progress.counting("simulating")(iter("abc"), 3)) == ["a", "b", "c"]
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    assert list(progress.counting("simulating [steps]")(iter("abc"), 3)) == ["a", "b", "c"]
    assert "simulating [steps]" in capsys.readouterr().err
