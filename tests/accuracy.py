"""Errors of the measured sets as they were last written down: `python tests/accuracy.py` writes study/accuracy.json anew.

`whole` are the tables that come with trnsim, and what docs/accuracy.md shows; `sample` is every so manyth row of each set,
for the tests of every day.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trnsim.study.measured import shipped
from trnsim.study.validation import validate

if TYPE_CHECKING:
    from trnsim.study.validation.scores import Score

FILE = Path(__file__).parent / "study" / "accuracy.json"
EVERY = {
    "korthikanti22": 4,
    "llm-foundry": 12,
    "maxtext": 8,
    "megascale": 4,
    "megatron-sc21": 7,
    "simumax-b200": 6,
    "tpu-recipes": 9,
    "vtrain-multi": 8,
    "vtrain-single": 35,
}
SETS = (*EVERY, "trn1")
TOLERANCE_PERCENT = 0.5


def sample(folder: Path) -> list[Path]:
    """Write the sample of the tables and return their paths; the Trainium table is whole."""
    head, *lines = shipped("training").read_text(encoding="utf-8").splitlines()
    of_set = {name: [line for line in lines if line.split(",")[1] == name] for name in EVERY}
    kept = [line for name, every in EVERY.items() for line in of_set[name][every - 1 :: every]]
    path = folder / "sample.csv"
    path.write_text("\n".join([head, *kept]) + "\n", encoding="utf-8")
    return [path, shipped("trainium-training")]


def scores(tables: list[Path]) -> dict[str, dict[str, Any]]:
    """Return the numbers of each set that has simulated rows, as the JSON document has them."""
    sets = validate(tables).sets()
    return {name: found.to_dict() | {"regimes": _regimes(found)} for name, found in sets.items() if found.simulated}


def _regimes(found: Score) -> dict[str, list[float]]:
    return {name: [count, round(100 * errors.mean, 2)] for name, (count, errors) in found.regimes.items()}


def stated(which: str) -> dict[str, dict[str, Any]]:
    """Return the numbers that are written down."""
    found: dict[str, dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))[which]
    return found


def grown(which: str, found: dict[str, dict[str, Any]]) -> dict[str, tuple[float, float]]:
    """Return the sets whose error is larger than it was, by more than the tolerance; before and after."""
    errors = {name: (stated(which)[name]["mape_percent"], found[name]["mape_percent"]) for name in SETS}
    return {name: pair for name, pair in errors.items() if pair[1] > pair[0] + TOLERANCE_PERCENT}


def main() -> None:
    """Write the errors down."""
    with tempfile.TemporaryDirectory() as folder:
        found = {"sample": scores(sample(Path(folder))), "whole": scores([])}
    FILE.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for name, numbers in found["whole"].items():
        sys.stdout.write(f"{name:<24}{numbers['simulated']:>5}{numbers['mape_percent']:>9.2f}\n")


if __name__ == "__main__":
    main()
