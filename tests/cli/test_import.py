"""`trnsim import`."""

from __future__ import annotations

from pathlib import Path

import pytest
from commandline import modules_loaded_by, trnsim

THEIRS = """\
[model]
flavor = "8B"
[training]
local_batch_size = 1
seq_len = 8192
[parallelism]
data_parallel_shard_degree = 1
data_parallel_replicate_degree = 2
tensor_parallel_degree = 8
teapot = true
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("theirs.toml").write_text(THEIRS)
    return tmp_path


def test_file_is_written_and_the_report_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert trnsim("import", "torchtitan", "theirs.toml", "--server", "trn2.48xlarge", "-o", "ours.yaml") == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("theirs.toml read as a scenario\nchoices:\n")
    assert "not understood:\n  parallelism.teapot = true\n" in said.err
    assert trnsim("check", "ours.yaml") == 0


def test_standard_output_holds_the_scenario_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    assert trnsim("import", "torchtitan", "theirs.toml", "--server", "trn2.48xlarge") == 0
    text = capsys.readouterr().out
    assert text.startswith("# Imported from theirs.toml, a configuration of torchtitan.\n# choices:\n")
    Path("again.yaml").write_text(text)
    assert trnsim("check", "again.yaml") == 0


def test_paths_are_relative_to_the_scenario() -> None:
    Path("machines").mkdir()
    Path("out").mkdir()
    Path("machines/model.yaml").write_text(
        "{layers: 4, hidden_size: 1024, attention_heads: 8, ffn_size: 4096, vocabulary: 32000}\n"
    )
    arguments = ("--server", "trn2.48xlarge", "--model", "machines/model.yaml", "-o", "out/ours.yaml")
    assert trnsim("import", "torchtitan", "theirs.toml", *arguments) == 0
    assert "model: ../machines/model.yaml #" in Path("out/ours.yaml").read_text()
    assert trnsim("check", "out/ours.yaml") == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["torchtitan", "theirs.toml"], "cluster.server  missing"),
        (["torchtitan", "nowhere.toml"], "no such file"),
        (["torchtitan", "."], "cannot be read"),
        (["torchtitans", "theirs.toml"], "did you mean torchtitan?"),
        (["nxdt", "theirs.toml"], "theirs.toml: "),
        (["megatron-args", "theirs.toml"], "no arguments"),
        (["torchtitan", "theirs.toml", "--servers", "0"], "--servers"),
        (["torchtitan", "theirs.toml", "-o", "theirs.toml"], "the same file"),
        (["torchtitan", "theirs.toml", "-o", "no/such/folder.yaml"], "does not exist"),
        (["torchtitan"], "FILE"),
    ],
)
def test_mistake_ends_in_a_sentence_and_writes_nothing(
    arguments: list[str], sentence: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert trnsim("import", *arguments) == 2
    assert sentence in capsys.readouterr().err
    assert [file.name for file in folder.iterdir()] == ["theirs.toml"]
    assert Path("theirs.toml").read_text() == THEIRS


def test_broken_toml_names_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    Path("theirs.toml").write_text("[model]\nflavor = \n")
    assert trnsim("import", "torchtitan", "theirs.toml", "--server", "trn2.48xlarge") == 2
    assert capsys.readouterr().err == "theirs.toml: 1 problem\n  line 2  not TOML: invalid value\n"


def test_help_loads_no_reader() -> None:
    loaded = modules_loaded_by("import", "--help")
    assert not {"pydantic", "ruamel.yaml", "numpy", "trnsim.scenario"} & loaded
