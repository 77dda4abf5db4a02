"""Measured steps simulated: no set gets worse, and nothing that was measured is seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from accuracy import grown, sample, scores, stated
from measured import KORTHIKANTI, table
from msgspec.structs import replace

import trnsim
from trnsim.scenario import resolve
from trnsim.simulation.estimate import estimate
from trnsim.study.measured import read_measured
from trnsim.study.validation import predictions
from trnsim.study.validation.groups import fill_blanks, groups
from trnsim.study.validation.measurements import measurements
from trnsim.study.validation.predictions import predict, tasks_of

if TYPE_CHECKING:
    from pathlib import Path


def test_no_error_grows_on_a_sample(tmp_path: Path) -> None:
    assert grown("sample", scores(sample(tmp_path))) == {}


@pytest.mark.slow
def test_no_error_grows_on_the_whole_tables() -> None:
    assert grown("whole", scores([])) == {}


def test_nearly_all_rows_of_the_main_sets_are_simulated() -> None:
    for name in ("vtrain-single", "vtrain-multi", "korthikanti22", "megatron-sc21", "megascale", "llm-foundry"):
        assert stated("whole")[name]["simulated"] >= 0.95 * stated("whole")[name]["rows"]


def test_predictions_do_not_change_when_the_measured_column_is_scrambled(tmp_path: Path) -> None:
    rows = [{**KORTHIKANTI, "id": f"{micro}", "micro_batch": micro, "value": 2.0 + micro} for micro in (1, 2, 4)]
    scrambled = [{**row, "value": 9.0 - micro} for row, micro in zip(rows, (1, 2, 4), strict=True)]
    first, second = (
        trnsim.validate([table(tmp_path, *each)], jobs=1).to_dict(rows=True)["rows"] for each in (rows, scrambled)
    )
    assert [row["predicted_s"] for row in first] == [row["predicted_s"] for row in second]
    assert [row["regime"] for row in first] == [row["regime"] for row in second]
    assert [row["measured_s"] for row in first] != [row["measured_s"] for row in second]
    assert len({row["predicted_s"] for row in first}) == 3


def test_a_batch_above_the_peak_is_not_simulated(tmp_path: Path) -> None:
    # 6 x 1.6e9 parameters x 65,536 tokens on 8 x 312 TFLOP/s take 0.25 s or more
    found = trnsim.validate([table(tmp_path, {**KORTHIKANTI, "value": 0.2})], jobs=1)
    assert found.sets()["korthikanti22"].skipped == {"batch and time imply more than the peak of the chips": 1}


def test_what_trnsim_refuses_is_skipped_with_its_reason(tmp_path: Path) -> None:
    found = trnsim.validate([table(tmp_path, {**KORTHIKANTI, "global_batch": 33})], jobs=1)
    (reason,) = found.sets()["korthikanti22"].skipped
    assert "33 sequences are no multiple of micro_batch 4" in reason


@pytest.mark.parametrize("bound_s", [None, 0.0])
def test_the_fastest_predicted_counts_and_not_the_nearest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound_s: float | None
) -> None:
    # whatever is measured, the prediction is the least over all that is tried; leaving out what cannot be changes nothing
    if bound_s is not None:
        monkeypatch.setattr(predictions, "least_time_s", lambda _: bound_s)
    known = groups()
    cells = {
        **KORTHIKANTI,
        "group": "megatron-sc21",
        "zero_fsdp": "none",
        "micro_batch": "",
        "vpp": "",
        "pp": 4,
        "tp": 2,
    }
    rows = read_measured(table(tmp_path, cells), lambda each: dict(fill_blanks(each, known)))
    (task,), _ = tasks_of(measurements(rows, known)[0], known)
    times = [estimate(resolve(document)).time_s for document in task.documents]
    assert len(times) == len(set(times)) == 8
    for measured_s in (min(times), max(times), 100.0):
        asked = replace(task, measurement=replace(task.measurement, time_s=measured_s))
        (one,) = predict([asked], jobs=1)
        assert one.time_s == min(times)  # type: ignore[union-attr]


def test_outcomes_come_in_the_order_of_the_table(tmp_path: Path) -> None:
    # simulated are the longest first: the middle row here
    rows = [{**KORTHIKANTI, "id": name, "micro_batch": micro} for name, micro in (("a", 4), ("b", 1), ("c", 2))]
    found = trnsim.validate([table(tmp_path, *rows)], jobs=1)
    assert [one.measurement.row.id for one in found.predictions] == ["a", "b", "c"]


def test_sets_and_their_parts(tmp_path: Path) -> None:
    rows = [{**KORTHIKANTI, "group": "llm-foundry", "hardware": hardware} for hardware in ("h100_80gb", "a100_40gb")]
    sets = trnsim.validate([table(tmp_path, *rows, {**rows[0], "precision": "fp8"})], jobs=1).sets()
    assert {name: found.rows for name, found in sets.items()} == {
        "llm-foundry": 2,
        "llm-foundry/h100_80gb": 1,
        "llm-foundry/a100_40gb": 1,
        "llm-foundry/other": 1,
    }
