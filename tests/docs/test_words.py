"""The pages name what the code names: words of the glossary, parts of the step, rooms of the house."""

from __future__ import annotations

import re
import tomllib
from typing import get_args

import pytest
from console import REPOSITORY

from trnsim.cli.app import _COMMANDS
from trnsim.collectives import algorithm_names, op_names
from trnsim.hardware import Kind
from trnsim.parallel import AXES
from trnsim.results import PART_NAMES
from trnsim.schedules import schedule_names
from trnsim.workload import EMBEDDING_OPERATORS, HEAD_OPERATORS, LAYER_OPERATORS


def read(page: str) -> str:
    return (REPOSITORY / page).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "word", [*AXES, *op_names(), *algorithm_names(), *schedule_names(), *PART_NAMES, *get_args(Kind)]
)
def test_glossary_has_every_name(word: str) -> None:
    assert re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", read("docs/glossary.md"))


def test_glossary_has_each_word_once() -> None:
    words = re.findall(r"^\| ([^|]+?) \|", read("docs/glossary.md"), re.MULTILINE)
    words = [word for word in words if word not in {"word", "---"}]
    assert len(words) == len(set(words)) > 50


def test_model_explains_every_part_and_operator() -> None:
    page = read("docs/model.md")
    for name in (*PART_NAMES, *LAYER_OPERATORS, *EMBEDDING_OPERATORS, *HEAD_OPERATORS):
        assert f"`{name}`" in page, name


def test_readme_has_every_command_and_exit_code() -> None:
    page = read("README.md")
    for name in _COMMANDS:
        assert f"`trnsim {name}" in page, name
    assert re.findall(r"^\| (\d+) \|", page, re.MULTILINE) == ["0", "1", "2", "3", "4", "70", "130"]


def test_architecture_draws_the_house_that_is_enforced() -> None:
    # the layers of import-linter, line by line; above them stands the module for `python -m trnsim`
    contracts = tomllib.loads(read("pyproject.toml"))["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    house = re.findall(r"^ +(\w+(?: · \w+)*)(?:  |$)", read("docs/architecture.md"), re.MULTILINE)
    assert ["__main__", *(line.replace(" · ", " | ") for line in house[: len(layers) - 1])] == layers
