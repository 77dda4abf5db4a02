"""The command line with nothing faked, on a small machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from trnsim.cli import main
from trnsim.simulation.catalog import PLURALS

SCENARIO = """\
schema: 1
name: a small model on one instance
cluster: {server: trn2.48xlarge, servers: 1}
model: {layers: 4, hidden_size: 1024, attention_heads: 8, ffn_size: 4096, vocabulary: 32000}
training: {sequence_length: 1024, global_batch: 32, recompute: none}
layout: {tp: 4, pp: 2, dp: auto}
"""


@pytest.fixture
def scenario_file(tmp_path: Path) -> str:
    file = tmp_path / "small.yaml"
    file.write_text(SCENARIO)
    return str(file)


def trnsim(*arguments: str) -> int:
    with pytest.raises(SystemExit) as exit_info:
        main(arguments)
    assert isinstance(exit_info.value.code, int)
    return exit_info.value.code


def test_run(scenario_file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # tp 4 x pp 2 x dp 2 = 16 chips; the parts sum to the step; the trace holds the events that the engine counted.
    out = tmp_path / "out"
    assert trnsim("run", scenario_file, "--json", "-", "--out", str(out)) == 0
    document = json.loads(capsys.readouterr().out)
    assert document == json.loads((out / "result.json").read_text())
    assert document["cluster"]["ranks"] == document["cluster"]["chips"] == 16
    assert sum(document["step"]["breakdown_s"].values()) == pytest.approx(document["step"]["time_s"], rel=1e-12)
    assert document["step"]["tokens"] == 32 * 1024
    trace = json.loads((out / "trace.json").read_text())
    assert trace["otherData"]["engine_events"] == document["engine"]["events"]


def test_override_changes_the_run(scenario_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert trnsim("run", scenario_file, "--json", "-", "--set", "training.global_batch=64") == 0
    assert json.loads(capsys.readouterr().out)["step"]["tokens"] == 64 * 1024


@pytest.mark.parametrize(
    ("overrides", "code", "sentence"),
    [
        (["layout.tp=3"], 2, "layout.tp = 3"),
        (["layout.tensor=4"], 2, "did you mean layout.tp?"),
        (["layout.dp=4"], 3, "32 ranks"),
        (["model.layers=400", "model.hidden_size=16384", "model.ffn_size=65536"], 3, "layout"),
        (["layout.tp"], 2, "write an override as key=value"),
    ],
)
def test_check_and_run_refuse_alike(
    overrides: list[str], code: int, sentence: str, scenario_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    # Exit 2 for a broken rule, 3 for a cluster that is too small (ranks, memory); check finds what run would find.
    options = [option for override in overrides for option in ("--set", override)]
    for command in ("check", "run"):
        assert trnsim(command, scenario_file, *options) == code
        captured = capsys.readouterr()
        assert captured.out == ""
        assert sentence in captured.err


def test_check_says_what_it_derived(scenario_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert trnsim("check", scenario_file) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{scenario_file}: no problems\n")
    assert "  dp: 2 = " in out
    assert " of 91.2 GiB a rank (stage " in out


def test_missing_file_and_unknown_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert trnsim("run", "nowhere.yaml") == 2
    assert "no such file" in capsys.readouterr().err
    assert trnsim("run", "trn3-milion") == 2
    assert "did you mean trn3-million" in capsys.readouterr().err


def test_compare_reports_the_problems_of_all_its_scenarios(
    scenario_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    # Two cluster too small (ranks, memory: 3) and one broken rule (2): one report, and exit 2 wins. Twice the same is once.
    texts = {
        "ranks.yaml": SCENARIO.replace("dp: auto", "dp: 4"),
        "memory.yaml": SCENARIO.replace("layers: 4, hidden_size: 1024", "layers: 400, hidden_size: 16384"),
        "rule.yaml": SCENARIO.replace("tp: 4", "tp: 4, cp: 2"),
    }
    files = {name: Path(scenario_file).with_name(name) for name in texts}
    for name, text in texts.items():
        files[name].write_text(text)
    assert trnsim("compare", scenario_file, *map(str, files.values()), str(files["rule.yaml"])) == 2
    err = capsys.readouterr().err
    assert [line.partition(": ")[2] for line in err.splitlines() if not line.startswith(" ")] == ["1 problem"] * 3
    assert trnsim("compare", scenario_file, str(files["ranks.yaml"]), str(files["memory.yaml"])) == 3
    assert capsys.readouterr().out == ""


def test_compare_with_itself(scenario_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    # A scenario is exactly as fast as itself, so it passes a gate of 1.
    assert trnsim("compare", scenario_file, scenario_file, "--json", "-", "--min-speedup", "1") == 0
    ratios = json.loads(capsys.readouterr().out)["scenarios"][1]["ratio"]
    assert ratios["tokens_per_s"] == ratios["time_s"] == 1.0


def test_run_without_tables_needs_no_table_package(scenario_file: str) -> None:
    # `trnsim run` imports no pandas, matplotlib or numpy.
    code = (
        "import sys, atexit\n"
        "heavy = {'pandas', 'pyarrow', 'matplotlib', 'numpy', 'joblib', 'IPython'}\n"
        "atexit.register(lambda: print(heavy & set(sys.modules), file=sys.stderr))\n"
        f"from trnsim.cli import main; main(['run', {scenario_file!r}, '--out', {str(Path(scenario_file).parent / 'o')!r}])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stderr.splitlines()[-1] == "set()"


def test_json_has_the_same_bytes_whatever_the_hash_seed(scenario_file: str) -> None:
    code = f"from trnsim.cli import main; main(['run', {scenario_file!r}, '--json', '-'])"
    texts = [
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("0", "1")
    ]
    assert texts[0] == texts[1] != b""


def test_schema_is_json_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert trnsim("schema") == 0
    schema = json.loads(capsys.readouterr().out)
    assert {"cluster", "model", "training", "layout", "schedule", "run"} <= schema["properties"].keys()


@pytest.mark.parametrize("kind", PLURALS)
def test_list(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert trnsim("list", kind) == 0
    lines = capsys.readouterr().out.splitlines()
    assert trnsim("list", kind, "--json") == 0
    entries = json.loads(capsys.readouterr().out)[kind]
    groups = {entry["group"] for entry in entries}
    assert [line.split()[0] for line in lines if line not in groups] == [entry["name"] for entry in entries]


def test_describe(scenario_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert trnsim("describe", scenario_file) == 0
    assert capsys.readouterr().out.startswith("scenario a small model on one instance\n")
    assert trnsim("describe", "llama3.1-405b", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["parameters"], document["layers"], document["hidden_size"]) == (405_853_388_800, 126, 16_384)
    assert trnsim("describe", "chip:trainium9") == 2
    assert "did you mean trainium1" in capsys.readouterr().err
