"""Fits: what was put in comes out, test rows are not read, and the file is a family."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from measured import KORTHIKANTI, table

from trnsim.errors import InputError
from trnsim.hardware import load_family
from trnsim.study import calibrate, family_yaml
from trnsim.study.calibration import (
    OUTLIER_ERROR,
    Calibration,
    Fitted,
    Judged,
    WithNumbers,
    calibration_tasks,
    softened,
    weights_of,
)
from trnsim.study.validation.predictions import Prediction, predict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

FAMILY = "megatron-a100"
SIZES = [{**KORTHIKANTI, "id": name, "layers": layers} for name, layers in (("a", 4), ("b", 6), ("c", 8), ("d", 10))]


def as_predicted(folder: Path, numbers: Mapping[str, float], rows: Iterable[Mapping[str, Any]] = SIZES) -> list[Any]:
    """Return rows whose measured times are what the family says with other numbers."""
    written = [dict(row) for row in rows]
    tasks = calibration_tasks(table(folder, *written), FAMILY)
    outcomes = predict(tasks, jobs=1, change=WithNumbers(numbers))
    times = [one.time_s for one in outcomes if isinstance(one, Prediction)]
    assert len(times) == len(written)
    return [{**row, "value": time_s} for row, time_s in zip(written, times, strict=True)]


def numbers_of(found: Calibration) -> dict[str, float]:
    return {key: number.value for key, number in found.numbers.items()}


@pytest.mark.parametrize("truth", [0.5, 0.8])
def test_what_was_put_in_comes_out(tmp_path: Path, truth: float) -> None:
    # law: rows that the model itself made with another efficiency are fitted by that efficiency, and without error
    rows = as_predicted(tmp_path, {"gemm_efficiency": truth})
    found = calibrate([table(tmp_path, *rows)], FAMILY, ["gemm_efficiency"], jobs=1)
    assert numbers_of(found)["gemm_efficiency"] == pytest.approx(truth, rel=2e-3)
    deviation = found.numbers["gemm_efficiency"].deviation
    assert deviation is not None
    assert deviation < 0.01
    assert found.sets == {"korthikanti22": 4}
    assert all(judged.error < 0.005 for judged in found.errors.values())


def test_two_numbers_come_out_together(tmp_path: Path) -> None:
    truth = {"gemm_efficiency": 0.7, "collective_skew": 2e-4}
    wide = [{**row, "tp": tp, "dp": 4 // tp} for row, tp in zip(SIZES, (1, 2, 4, 4), strict=True)]
    rows = as_predicted(tmp_path, truth, wide)
    found = calibrate([table(tmp_path, *rows)], FAMILY, list(truth), jobs=1)
    assert numbers_of(found) == pytest.approx(truth, rel=2e-2)


def test_sets_weigh_the_same(tmp_path: Path) -> None:
    # law: the squares of the weights of a set sum to N / S, of N rows in S sets, however many rows it has
    rows = [{**row, "group": group} for row, group in zip(SIZES, ("korthikanti22", "vtrain-single") * 2, strict=True)]
    tasks = calibration_tasks(table(tmp_path, *rows, {**rows[0], "id": "e", "layers": 12}), FAMILY)
    weights = weights_of(tasks)
    for name in ("korthikanti22", "vtrain-single"):
        own = [weight for task, weight in zip(tasks, weights, strict=True) if task.measurement.row.group == name]
        assert sum(weight**2 for weight in own) == pytest.approx(5 / 2)


def test_outliers_pull_in_proportion() -> None:
    # closed form: small errors square to themselves, large ones grow as 2 d |e| - 2 d^2, with d the border between the two
    small, large = softened(np.array([1e-5, -2.0]))
    assert small == pytest.approx(1e-5, rel=1e-6)
    border = OUTLIER_ERROR
    assert (large**2, large < 0) == (pytest.approx(2 * border * 2.0 - 2 * border**2, rel=1e-3), True)


def test_a_fit_does_not_read_test_rows(tmp_path: Path) -> None:
    # law: whatever a test row says was measured, the numbers are the same; its errors are what changes
    rows = [{**row, "split": split} for row, split in zip(SIZES, ("calibration", "test") * 2, strict=True)]
    first = calibrate([table(tmp_path, *rows)], FAMILY, ["gemm_efficiency"], jobs=1)
    scrambled = [{**row, "value": 77.0} if row["split"] == "test" else row for row in rows]
    second = calibrate([table(tmp_path, *scrambled)], FAMILY, ["gemm_efficiency"], jobs=1)
    assert first.rows == second.rows == ("a", "c")
    assert first.numbers == second.numbers


def test_the_same_rows_give_the_same_numbers(tmp_path: Path) -> None:
    path = table(tmp_path, *SIZES)
    assert calibrate([path], FAMILY, jobs=1) == calibrate([path], FAMILY, jobs=2)


def test_few_rows_fit_the_efficiency_alone(tmp_path: Path) -> None:
    # five numbers need fifteen rows
    found = calibrate([table(tmp_path, SIZES[0])], FAMILY, jobs=1)
    assert list(found.numbers) == ["gemm_efficiency"]
    assert found.errors == {}


@pytest.mark.parametrize(
    ("rows", "family", "due"),
    [
        (SIZES, "megatron-a101", "did you mean megatron-a100"),
        (SIZES, "neuron-trn2", "no row for a fit is simulated with neuron-trn2"),
        ([{**SIZES[0], "split": "test"}], FAMILY, "no row for a fit is simulated with megatron-a100"),
        ([{**SIZES[0], "dp": 3}], FAMILY, "no row for a fit"),
    ],
)
def test_nothing_to_fit(tmp_path: Path, rows: list[Any], family: str, due: str) -> None:
    with pytest.raises(InputError, match=due) as raised:
        calibrate([table(tmp_path, *rows)], family, jobs=1)
    assert raised.value.exit_code == 2


def test_what_validate_skips_is_not_fitted(tmp_path: Path) -> None:
    # a time above the peak of the chips, and a batch that does not divide, say nothing of the efficiency
    wrong = [{**SIZES[1], "value": 1e-3}, {**SIZES[2], "global_batch": 33}]
    right = calibrate([table(tmp_path, SIZES[0], name="right.csv")], FAMILY, jobs=1)
    found = calibrate([table(tmp_path, SIZES[0], *wrong)], FAMILY, jobs=1)
    assert found.rows == right.rows == ("a",)
    assert found.numbers == right.numbers


def test_the_file_of_a_fit_is_a_family(tmp_path: Path) -> None:
    found = Calibration(
        FAMILY,
        {"gemm_efficiency": Fitted(0.71234, 0.02), "host_layer": Fitted(1.25e-3, 1e-5)},
        ("a", "b"),
        {"korthikanti22": 2},
        {"general": Judged(0.0512, 4, "that the fit did not see")},
    )
    path = tmp_path / "mine.yaml"
    path.write_text(family_yaml(found, tables="my.csv", date="2026-11-30"), encoding="utf-8")
    family, start = load_family(str(path)), load_family(FAMILY)
    efficiency = family.gemm_efficiency
    assert (efficiency.value, efficiency.low, efficiency.high) == (0.7123, 0.6923, 0.7323)
    assert (efficiency.kind, efficiency.read) == ("inferred", "2026-11-30")
    assert "2 measured steps (2 of korthikanti22) of my.csv" in efficiency.source
    assert family.host_layer_s.value == pytest.approx(1.25e-3)
    assert family.fitted == ("gemm_efficiency", "host_layer")
    assert family.measured_rows == 2
    assert {regime: error.value for regime, error in family.errors.items()} == {"general": 0.0512}
    assert family.collective_skew_s == start.collective_skew_s
