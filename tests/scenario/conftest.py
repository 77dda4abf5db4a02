from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from trnsim.documents import Document, read_document
from trnsim.errors import InputError, Problem
from trnsim.scenario import Scenario, load

BASE = """\
schema: 1
name: base
cluster:
  server: trn3-gen2-ultraserver
  servers: 16
  fabric: ultracluster
model: llama3.1-405b
training:
  sequence_length: 8192
  global_batch: 2304
layout:
  order: [tp, cp, pp, dp]
  tp: 8
  pp: 9
  dp: auto
"""
"""16 servers x 144 chips = 2,304 ranks = tp 8 x pp 9 x dp 32; 126 layers, 128 query and 8 kv heads."""


PROJECT = Path(__file__).resolve().parents[2]
read_once = cache(read_document)


@pytest.fixture(autouse=True)
def _files_of_the_project_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the suite quick: the models of the catalog do not change between two tests."""

    def read(path: Path) -> Document:
        return read_once(path) if path.resolve().is_relative_to(PROJECT) else read_document(path)

    monkeypatch.setattr("trnsim.workload.reading.read_document", read)


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write the base scenario with lines replaced: {"  tp: 8": "  tp: 24"}."""

    def writer(changes: dict[str, str] | None = None, name: str = "base.yaml") -> Path:
        text = BASE
        for old, new in (changes or {}).items():
            assert old in text, f"{old!r} is not in the base scenario"
            text = text.replace(old, new, 1)
        path = tmp_path / name
        path.write_text(text)
        return path

    return writer


@pytest.fixture
def base(write: Callable[..., Path]) -> Callable[..., Scenario]:
    """Load the base scenario with overrides."""

    def loader(*overrides: str, changes: dict[str, str] | None = None) -> Scenario:
        return load(write(changes), overrides)

    return loader


@pytest.fixture
def problems(write: Callable[..., Path]) -> Callable[..., list[Problem]]:
    """Load the base scenario with changes or overrides and return what is wrong with it."""

    def loader(*overrides: str, changes: dict[str, str] | None = None) -> list[Problem]:
        with pytest.raises(InputError) as error:
            load(write(changes), overrides)
        return list(error.value.problems)

    return loader
