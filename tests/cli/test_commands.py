"""What each command prints and writes, with results made by hand."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from fakes import fake_result

from trnsim import scenario, simulation
from trnsim.cli import main
from trnsim.results import TABLES, json_text, trace_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnsim.results import Result


class FakeScenario(NamedTuple):
    name: str


RESULTS = {
    "base": fake_result(name="base"),
    "faster": fake_result(name="faster", time_s=5.0),
    "slower": fake_result(name="slower", time_s=12.5),
    "larger": fake_result(name="larger", tokens=2_000_000),
}


@pytest.fixture(autouse=True)
def results_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let names stand for results made by hand."""

    def load(name: str, overrides: Sequence[str] = ()) -> FakeScenario:
        return FakeScenario(name)

    def simulate(loaded: FakeScenario) -> Result:
        return RESULTS[loaded.name]

    monkeypatch.setattr(scenario, "load", load, raising=False)
    monkeypatch.setattr(simulation, "simulate", simulate, raising=False)
    monkeypatch.setattr("trnsim.simulation.check.check", lambda _: None)


def trnsim(*arguments: str) -> int:
    with pytest.raises(SystemExit) as exit_info:
        main(arguments)
    assert isinstance(exit_info.value.code, int)
    return exit_info.value.code


def test_run_prints_the_summary(capsys: pytest.CaptureFixture[str]) -> None:
    assert trnsim("run", "base") == 0
    captured = capsys.readouterr()
    assert captured.out == RESULTS["base"].summary()
    assert captured.err.startswith("simulated in ")


def test_run_with_json_on_stdout_prints_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    assert trnsim("run", "base", "--json", "-") == 0
    captured = capsys.readouterr()
    assert captured.out == json_text(RESULTS["base"].to_dict())
    assert RESULTS["base"].summary() in captured.err


def test_run_writes_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    json_file, trace, profile = (tmp_path / name for name in ("a.json", "trace.json", "profile.json"))
    arguments = ["--json", str(json_file), "--trace", str(trace), "--profile", str(profile)]
    assert trnsim("run", "base", *arguments) == 0
    assert json_file.read_text() == json_text(RESULTS["base"].to_dict())
    assert trace.read_text() == trace_text(RESULTS["base"])
    assert json.loads(profile.read_text()).keys() == {"load_s", "simulate_s", "peak_memory_bytes", "events"}
    assert "the trace shows 2 of 16 ranks" in capsys.readouterr().err


def test_run_writes_a_directory(tmp_path: Path) -> None:
    # JSON, a CSV file per table, the trace; the directory may exist already.
    for _ in range(2):
        assert trnsim("run", "base", "--out", str(tmp_path / "out")) == 0
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"result.json", "trace.json", *(f"{name}.csv" for name in TABLES)}


def test_run_says_what_the_system_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # The directory vanishes while the simulation runs.
    folder = tmp_path / "gone"
    folder.mkdir()

    def simulate(_: object) -> Result:
        folder.rmdir()
        return RESULTS["base"]

    monkeypatch.setattr(simulation, "simulate", simulate, raising=False)
    assert trnsim("run", "base", "--json", str(folder / "a.json")) == 2
    assert f"cannot write {folder / 'a.json'}: No such file or directory" in capsys.readouterr().err


def test_a_full_disk_leaves_no_part_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def write_text(path: Path, text: str, **_: object) -> int:
        path.write_bytes(text[:9].encode())
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(simulation, "simulate", lambda _: RESULTS["base"], raising=False)
    monkeypatch.setattr(Path, "write_text", write_text)
    assert trnsim("run", "base", "--json", str(tmp_path / "a.json")) == 2
    assert f"cannot write {tmp_path / 'a.json'}: No space left on device" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--json", "a.json", "--trace", "./a.json"], "--trace and --json are the same file, a.json"),
        (["--profile", "base"], "--profile and the scenario are the same file, base"),
    ],
)
def test_no_output_takes_the_place_of_another_or_of_the_scenario(
    arguments: list[str],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    # Exit 2 before anything runs, and the scenario is left alone; /dev/null takes everything.
    monkeypatch.chdir(tmp_path)
    (tmp_path / "base").write_text("schema: 1")
    assert trnsim("run", "base", *arguments) == 2
    assert sentence in capsys.readouterr().err
    assert (tmp_path / "base").read_text() == "schema: 1"
    assert trnsim("run", "base", "--json", os.devnull, "--trace", os.devnull) == 0


def test_compare_prints_ratios_to_the_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert trnsim("compare", "base", "faster") == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0].split() == ["base", "faster"]
    assert "200,000  2.000x" in out


def test_compare_writes_json_and_markdown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    markdown = tmp_path / "table.md"
    assert trnsim("compare", "base", "slower", "--json", "-", "--markdown", str(markdown)) == 0
    document = json.loads(capsys.readouterr().out)
    assert [entry["name"] for entry in document["scenarios"]] == ["base", "slower"]
    assert document["scenarios"][1]["ratio"]["tokens_per_s"] == pytest.approx(0.8)
    assert markdown.read_text().startswith("|  | base | slower |\n| --- | ---: | ---: |\n")


@pytest.mark.parametrize(("gate", "code"), [("0.8", 0), ("0.81", 1), ("2.0", 1)])
def test_gate_of_compare(gate: str, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    # slower takes 12.5 s where base takes 10: 0.8 x the tokens per s; faster 2 x. The gate holds for every later one.
    assert trnsim("compare", "base", "slower", "faster", "--min-speedup", gate) == code
    err = capsys.readouterr().err
    assert ("gate failed: slower has 0.8000 x the tokens per s of base" in err) == (code == 1)
    assert "faster has" not in err


def test_compare_warns_about_different_batches(capsys: pytest.CaptureFixture[str]) -> None:
    assert trnsim("compare", "base", "larger") == 0
    assert "warning: global batches differ" in capsys.readouterr().out
