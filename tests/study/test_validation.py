"""The rules by which measured rows become measured steps, sets and scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from measured import KORTHIKANTI, table
from msgspec.structs import replace

from trnsim.study.measured import read_measured, shipped
from trnsim.study.validation.configurations import UnclearRowError, scenarios_of
from trnsim.study.validation.groups import fill_blanks, groups
from trnsim.study.validation.measurements import Skipped, measurements
from trnsim.study.validation.predictions import Ideal
from trnsim.study.validation.releases import releases
from trnsim.study.validation.scores import Baseline, Errors, Reached, score

if TYPE_CHECKING:
    from pathlib import Path

    from trnsim.study.measured import MeasuredRow
    from trnsim.study.validation.measurements import Measurement

KNOWN = groups()
MEGASCALE = {
    "group": "megascale",
    "model": "175B",
    "layers": 96,
    "hidden": 12288,
    "heads": 96,
    "ffn": 49152,
    "seq": 2048,
    "global_batch": 768,
    "tp": 8,
    "pp": 8,
    "dp": 4,
    "accelerators": 256,
    "hardware": "NVIDIA A100",
    "metric": "iteration_time",
    "value": 40.0,
    "unit": "s",
    "software": "Megatron-LM",
    "table": "Tables 1+2",
}
LLM_FOUNDRY = {
    "group": "llm-foundry",
    "hardware": "h100_80gb",
    "metric": "throughput",
    "value": 1.0,
    "unit": "tokens/s",
    "model": "7B",
}
TRN1 = {
    "system": "trn1.32xlarge",
    "chips": 256,
    "nodes": 16,
    "model": "Llama2-7B pre-training",
    "seq_len": 4096,
    "global_batch": 1024,
    "micro_batch": 1,
    "tp": 8,
    "pp": 1,
    "dp": 64,
    "metric": "throughput",
    "value": 95.0,
    "unit": "seq/s",
}


def rows_of(folder: Path, *rows: dict[str, Any]) -> tuple[MeasuredRow, ...]:
    numbered = [{"id": f"row-{number}", **row} for number, row in enumerate(rows)]
    return read_measured(table(folder, *numbered), lambda cells: dict(fill_blanks(cells, KNOWN)))


def steps(folder: Path, *rows: dict[str, Any]) -> tuple[tuple[Measurement, ...], tuple[Skipped, ...]]:
    return measurements(rows_of(folder, *rows), KNOWN)


def test_rows_that_differ_only_in_metric_are_one_step_and_the_most_direct_metric_counts(tmp_path: Path) -> None:
    direct = [
        {"metric": "mfu", "value": 50, "unit": "%"},
        {"metric": "achieved_tflops_per_gpu", "value": 140, "unit": "TFLOP/s"},
        {"metric": "throughput", "value": 16, "unit": "seq/s"},
        {"metric": "iteration_time", "value": 3, "unit": "s"},
    ]
    for count, metric in ((4, "iteration_time"), (3, "throughput"), (2, "achieved_tflops_per_gpu"), (1, "mfu")):
        found, skipped = steps(tmp_path, *({**KORTHIKANTI, **cells, "id": cells["metric"]} for cells in direct[:count]))
        assert [one.row.metric for one in found] == [metric]
        assert skipped == ()
    found, _ = steps(tmp_path, KORTHIKANTI, {**KORTHIKANTI, "micro_batch": 2})
    assert len(found) == 2


def test_the_same_metric_again_is_another_step(tmp_path: Path) -> None:
    found, _ = steps(tmp_path, KORTHIKANTI, {**KORTHIKANTI, "value": 3.0})
    assert [one.time_s for one in found] == [2.0, 3.0]


@pytest.mark.parametrize(
    ("metric", "value", "unit", "time_s"),
    [
        ("iteration_time", 2.5, "s", 2.5),
        ("step_time", 2500, "ms", 2.5),
        ("throughput", 16, "seq/s", 32 / 16),
        ("throughput", 16, "samples/s", 32 / 16),
        ("throughput", 32768, "tokens/s", 32 * 2048 / 32768),
        ("throughput", 32.768, "k tokens/s", 32 * 2048 / 32768),
        ("throughput_per_gpu", 4096, "tokens/s/GPU", 32 * 2048 / (4096 * 8)),
        # equation 3 of SC21, without recompute: 72 B s l h^2 (1 + s / 6h + V / 12lh)
        (
            "achieved_tflops_per_gpu",
            100,
            "TFLOP/s",
            72 * 32 * 2048 * 24 * 2304**2 * (1 + 2048 / (6 * 2304) + 51200 / (12 * 24 * 2304)) / 8e14,
        ),
        (
            "mfu",
            50,
            "% of 312 TFLOP/s",
            72 * 32 * 2048 * 24 * 2304**2 * (1 + 2048 / (6 * 2304) + 51200 / (12 * 24 * 2304)) / (8 * 0.5 * 312e12),
        ),
    ],
)
def test_time_of_a_step_from_each_metric(tmp_path: Path, metric: str, value: float, unit: str, time_s: float) -> None:
    (one,), _ = steps(tmp_path, {**KORTHIKANTI, "metric": metric, "value": value, "unit": unit})
    assert one.time_s == pytest.approx(time_s, rel=1e-12)


def test_flops_with_recompute_by_the_rule_of_sc21(tmp_path: Path) -> None:
    # Table 1: 76.1 B parameters, 1,024 GPUs, batch 1,792, 140 TFLOP/s: 16.06 s
    (row,) = (row for row in read_measured(shipped("training")) if row.id == "sc21-T1-6-tf")
    (one,), _ = measurements([row], KNOWN)
    assert one.time_s == pytest.approx(16.058, rel=1e-3)
    assert steps(tmp_path, {**KORTHIKANTI, "metric": "achieved_hw_tflops_per_gpu", "unit": "TFLOP/s"})[0] == ()


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ({"unit": "parsec"}, "the unit parsec of iteration_time is not understood; s or ms is due"),
        ({"unit": ""}, "unit is blank"),
        ({"metric": "throughput", "unit": "furlongs/s"}, "the unit furlongs/s of throughput is not understood"),
        ({"metric": "achieved_tflops_per_gpu", "unit": "s"}, "the unit s of achieved_tflops_per_gpu is not understood"),
        ({"metric": "mfu", "unit": "fraction"}, "the unit fraction of mfu is not understood; % is due"),
        ({"metric": "throughput", "unit": "seq/s", "global_batch": ""}, "the batch, the sequence or the number"),
        ({"value": "0"}, "a iteration_time of 0 is no measurement"),
        ({"value": "-2"}, "value is -2, and a number of at least 0 is due"),
        ({"value": "nan"}, "value is nan, and a number of at least 0 is due"),
        (
            {"group": "simumax-b200", "metric": "mfu", "unit": "%"},
            "the rule by which its MFU counts FLOPs is not stated",
        ),
    ],
)
def test_what_tells_no_time_is_skipped_with_the_reason(tmp_path: Path, cells: dict[str, str], reason: str) -> None:
    found, (skipped,) = steps(tmp_path, {**KORTHIKANTI, **cells})
    assert found == ()
    assert skipped.reason.startswith(reason)
    assert skipped.is_step


@pytest.mark.parametrize("metric", ["activation_memory", "layer_forward_time", "time_to_train", "cost"])
def test_other_metrics_are_no_steps(tmp_path: Path, metric: str) -> None:
    found, (skipped,) = steps(tmp_path, {**KORTHIKANTI, "metric": metric})
    assert (found, skipped.is_step) == ((), False)


@pytest.mark.parametrize(
    ("row", "cells", "group"),
    [
        ({**KORTHIKANTI, "group": "megatron-sc21"}, {"zero_fsdp": "none"}, "megatron-sc21"),
        ({**KORTHIKANTI, "group": "megatron-sc21"}, {"zero_fsdp": ""}, "megatron-sc21"),
        ({**KORTHIKANTI, "group": "megatron-sc21"}, {"zero_fsdp": "ZeRO-3 (DeepSpeed)"}, "megatron-sc21/other"),
        (MEGASCALE, {}, "megascale"),
        (MEGASCALE, {"software": "MegaScale"}, "megascale/other"),
        (MEGASCALE, {"software": "Megatron-LM + PTB"}, "megascale/other"),
        (MEGASCALE, {"table": "Table 3"}, "megascale/other"),
        (LLM_FOUNDRY, {"precision": "bf16"}, "llm-foundry"),
        (LLM_FOUNDRY, {"precision": "amp_fp8"}, "llm-foundry/other"),
        (TRN1, {}, "trn1"),
        (TRN1, {"model": "Llama2-7B fine-tuning"}, "trn1/other"),
        (TRN1, {"nodes": 8, "chips": 128, "dp": 32}, "trn1/other"),
        ({**TRN1, "system": "trn2.48xlarge"}, {}, "trn2"),
        ({**KORTHIKANTI, "group": "nobody"}, {}, "nobody"),
    ],
)
def test_sets_hold_only_what_the_rules_name(
    tmp_path: Path, row: dict[str, Any], cells: dict[str, Any], group: str
) -> None:
    assert rows_of(tmp_path, {**row, **cells})[0].group == group


def test_blank_cells_are_what_the_file_of_the_set_says(tmp_path: Path) -> None:
    (row,) = rows_of(tmp_path, MEGASCALE)
    assert (row.micro_batch, row.recompute, row.seq_parallel, row.vpp, row.vocab) == (1, "selective", True, 6, 51200)
    (row,) = rows_of(tmp_path, {**MEGASCALE, "micro_batch": 2, "vocab": 64000})
    assert (row.micro_batch, row.vocab) == (2, 64000)


def test_axes_of_gpu_rows_are_those_of_megatron(tmp_path: Path) -> None:
    for row in (KORTHIKANTI, MEGASCALE):
        (one,) = rows_of(tmp_path, row)
        (document,) = scenarios_of(one, KNOWN[one.group])
        assert "order" not in document.data["layout"]  # tp, cp, dp, pp is the default of trnsim


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ({"dp": 2}, "degrees do not multiply to the accelerators: tp 4 x pp 2 x dp 2 = 16 of 8"),
        ({"cp": 2, "tp": 2}, "context parallelism is not modelled yet"),
        ({"ep": 2}, "expert parallelism is not modelled yet"),
        ({"micro_batch": ""}, "the micro-batch is not stated"),
        ({"precision": "int4"}, "the precision int4 is not modelled"),
        ({"recompute": "some"}, "the recompute mode some is not understood"),
        ({"ffn": ""}, "the width of the MLP is not stated"),
        ({"accelerators": ""}, "the number of accelerators is not stated"),
        ({"heads": 7}, "a hidden size of 2304 does not divide into 7 heads"),
    ],
)
def test_what_makes_no_scenario_is_refused_with_the_reason(tmp_path: Path, cells: dict[str, Any], reason: str) -> None:
    (row,) = rows_of(tmp_path, {**KORTHIKANTI, **cells})
    with pytest.raises(UnclearRowError, match=reason):
        scenarios_of(row, KNOWN["korthikanti22"])


def test_a_machine_without_a_family_and_a_set_without_a_file_are_refused(tmp_path: Path) -> None:
    (row,) = rows_of(tmp_path, {**LLM_FOUNDRY, "hardware": "abacus"})
    with pytest.raises(UnclearRowError, match="no software family describes abacus"):
        scenarios_of(row, KNOWN["llm-foundry"])
    with pytest.raises(UnclearRowError, match="nothing is known of this set"):
        scenarios_of(row, None)


def test_table_1_of_sc21_tries_what_it_leaves_open(tmp_path: Path) -> None:
    # micro-batch 1, 2, 4, 8 and virtual stages 1, L / p; 32 sequences on 2 replicas are rounds of 4 stages of 16, 8, 4, 2
    # microbatches, so that 8 does not go with an interleaved schedule.
    cells = {
        **KORTHIKANTI,
        "group": "megatron-sc21",
        "micro_batch": "",
        "vpp": "",
        "pp": 4,
        "dp": 2,
        "accelerators": 32,
    }
    (row,) = rows_of(tmp_path, cells)
    tried = {
        (document.data["training"]["micro_batch"], document.data["schedule"].get("virtual_stages", 1))
        for document in scenarios_of(row, KNOWN["megatron-sc21"])
    }
    assert tried == {(micro, virtual) for micro in (1, 2, 4, 8) for virtual in (1, 6)} - {(8, 6)}
    (row,) = rows_of(tmp_path, {**cells, "micro_batch": 2})
    assert len(scenarios_of(row, KNOWN["megatron-sc21"])) == 1


def test_scenarios_do_not_see_what_was_measured(tmp_path: Path) -> None:
    for row in read_measured(shipped("training"), lambda cells: dict(fill_blanks(cells, KNOWN))):
        if row.group in KNOWN and not row.skipped:
            other = replace(row, value=row.value * 7, metric="step_time", unit="fortnights")
            assert _documents(row) == _documents(other)


def _documents(row: MeasuredRow) -> object:
    try:
        return [document.data for document in scenarios_of(row, KNOWN[row.group])]
    except UnclearRowError as error:
        return str(error)


def test_the_newest_software_counts_and_older_ones_print_their_spread(tmp_path: Path) -> None:
    versions = {"2.9.1": 80.0, "2.21.0": 100.0, "2.18.0": 110.0}
    rows = [{**TRN1, "notes": f"Neuron SDK {version}", "value": value} for version, value in versions.items()]
    found, older = steps(tmp_path, *rows)
    assert [each.row.software for each in found] == ["Neuron SDK 2.21.0"]
    assert {each.row.group for each in older} == {"trn1/older"}
    (spread,) = releases([found[0].row], [each.row for each in older], KNOWN)
    assert spread.rows == 2
    assert [spread.least, spread.most] == pytest.approx([100 / 110, 100 / 80])


def test_both_layouts_of_columns_are_read(tmp_path: Path) -> None:
    (row,) = rows_of(tmp_path, TRN1)
    assert (row.hardware, row.accelerators, row.seq, row.zero_fsdp) == ("trn1.32xlarge", 256, 4096, "ZeRO-1")
    assert len(read_measured(shipped("trainium-training"))) == 58


def test_a_table_without_splits_is_all_test_and_shipped_ones_have_both() -> None:
    assert {row.split for row in read_measured(shipped("memory"))} == {"test"}
    rows = [row for name in ("training", "trainium-training") for row in read_measured(shipped(name))]
    assert {row.split for row in rows} == {"calibration", "test"}
    assert {row.split for row in rows if row.id.startswith("sc21-T1")} == {"test"}  # what is open is tried


def test_rows_of_one_step_are_of_one_split() -> None:
    rows = read_measured(shipped("training"), lambda cells: dict(fill_blanks(cells, KNOWN)))
    by_step: dict[object, set[str]] = {}
    for row in rows:
        by_step.setdefault(replace(row, id="", metric="", value=0.0, unit="", split="", skipped="", line=0), set()).add(
            row.split
        )
    assert max(map(len, by_step.values())) == 1


def test_errors_are_of_step_time() -> None:
    assert Errors.of([-0.25, 0.5, 0.0]) == Errors(mean=0.25, median=0.25, largest=0.5, bias=0.0)
    assert Errors.of([]) is None


def test_the_baseline_sees_calibration_rows_alone(tmp_path: Path) -> None:
    # ideal 1 s, measured 2 s twice and 4 s; the test row does not move the efficiency
    found, _ = steps(
        tmp_path,
        {**KORTHIKANTI, "split": "calibration"},
        {**KORTHIKANTI, "split": "calibration", "micro_batch": 4},
        {**KORTHIKANTI, "value": 4.0, "split": "test", "micro_batch": 2},
    )
    ideal = Ideal(1.0, "a100-80", "NVIDIA")
    assert Baseline.fitted((one, ideal) for one in found).efficiency("korthikanti22", ideal) == 0.5


@pytest.mark.parametrize(
    ("chip", "maker", "expected"),
    [
        ("a", "X", 0.5),  # other sets on the chip, each by its median: of 0.4 and of 0.6
        ("c", "X", 0.4),  # no other set has it; of its maker's: 0.4, 0.6 and 0.2
        ("d", "Y", 0.5),  # nor is there one of its maker: of 0.4, 0.6, 0.2 and 0.8
    ],
)
def test_a_row_is_no_baseline_of_itself(chip: str, maker: str, expected: float) -> None:
    shares = {
        "one": [("a", "X", 0.1), ("a", "X", 0.4), ("a", "X", 0.9)],
        "two": [("a", "X", 0.6), ("a", "X", 0.6)],
        "three": [("b", "X", 0.2), ("b", "X", 0.2)],
        "four": [("e", "Z", 0.8), ("e", "Z", 0.8)],
    }
    others = tuple(Reached(name, *each) for name, found in shares.items() for each in found)
    itself = Reached("alone", chip, maker, 0.99)
    for reached in (others, (*others, itself)):
        assert Baseline(reached).efficiency("alone", Ideal(1.0, chip, maker)) == pytest.approx(expected)
    assert Baseline((*others, itself, itself)).efficiency("alone", Ideal(1.0, chip, maker)) == pytest.approx(0.99)
    assert Baseline((itself,)).efficiency("alone", Ideal(1.0, chip, maker)) is None


def test_a_score_counts_every_row() -> None:
    found = score([], ["a", "b", "a"], Baseline(()))
    assert (found.rows, found.simulated, found.skipped) == (3, 0, {"a": 2, "b": 1})
    assert found.to_dict()["mape_percent"] is None
