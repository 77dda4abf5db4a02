"""Files of sets of measured runs: each names what exists, and the rules by which its cells become a scenario."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Any

import pytest

from trnsim.hardware import load_family, load_server
from trnsim.simulation.estimate import Estimate, estimate
from trnsim.study.measured import read_measured, shipped
from trnsim.study.validation import predictions
from trnsim.study.validation.configurations import UnclearRowError, scenarios_of
from trnsim.study.validation.groups import GroupFile, MachineTable, fill_blanks, groups, machine_of
from trnsim.study.validation.measurements import measurements, set_of, time_s
from trnsim.study.validation.predictions import tasks_of
from trnsim.study.validation.validation import SHIPPED_TABLES
from trnsim.topology import load_fabric
from trnsim.workload import load_model

if TYPE_CHECKING:
    from pathlib import Path

    from trnsim.scenario import Scenario
    from trnsim.study.measured import MeasuredRow

GROUPS = groups()
MACHINES = {
    (server, machine.fabric, machine.software)
    for group in GROUPS.values()
    for machine in group.hardware.values()
    for server in (machine.server, *machine.slices.values())
}
CELLS = {
    "id": "a", "group": "set", "model": "small", "metric": "iteration_time", "value": "1", "unit": "s", "source": "somewhere",
    "layers": "14", "hidden": "1024", "heads": "8", "ffn": "4096", "vocab": "32000", "seq": "2048", "global_batch": "64",
    "micro_batch": "1", "tp": "1", "pp": "8", "dp": "2", "zero_fsdp": "ZeRO-1", "recompute": "none", "precision": "bf16",
    "hardware": "GPU", "accelerators": "16", "software": "Megatron-LM",
}  # fmt: skip
MACHINE = MachineTable(server="dgx-a100", fabric="infiniband-hdr", software="megatron-a100")


def group(**keys: Any) -> GroupFile:
    return GroupFile(assumed=[], hardware={"*": MACHINE}, **keys)


def row(folder: Path, known: GroupFile, **cells: str) -> MeasuredRow:
    """Read a table of one line."""
    written = {**CELLS, **cells}
    path = folder / "measured.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, written)
        writer.writeheader()
        writer.writerow(written)
    (found,) = read_measured(path, lambda read: fill_blanks(read, {"set": known}))
    return found


def scenario(folder: Path, known: GroupFile, **cells: str) -> dict[str, Any]:
    (document,) = scenarios_of(row(folder, known, **cells), known)
    return dict(document.data)


@pytest.mark.parametrize("name", sorted({server for server, _, _ in MACHINES}))
def test_server_exists(name: str) -> None:
    assert load_server(name).name == name


@pytest.mark.parametrize(("server", "software"), sorted({(server, software) for server, _, software in MACHINES}))
def test_family_describes_the_chip(server: str, software: str) -> None:
    assert load_server(server).chip.name.partition("@")[0] in load_family(software).chips


def test_a_server_stands_for_slices_of_its_size() -> None:
    slices = [
        each for group in GROUPS.values() for machine in group.hardware.values() for each in machine.slices.items()
    ]
    assert len(slices) >= 9
    assert all(load_server(server).chips == int(chips) for chips, server in slices)


@pytest.mark.parametrize(
    ("accelerators", "nodes", "server", "servers"),
    [("64", "1", "tpu-v5p-4x4x4", 1), ("512", "2", "tpu-v5p-8x8x8@8x8x4", 2), ("128", "2", "tpu-v5p-4x4x4", 2)],
)
def test_a_slice_is_the_chips_of_a_node(
    tmp_path: Path, accelerators: str, nodes: str, server: str, servers: int
) -> None:
    machine = MachineTable(
        server="tpu-v5p-4x4x4", fabric="tpu-dcn", software="maxtext-v5p", slices={"256": "tpu-v5p-8x8x8@8x8x4"}
    )
    known = GroupFile(assumed=[], hardware={"*": machine}, layout={"rules": "nxd"})
    cells = {"accelerators": accelerators, "nodes": nodes, "tp": "1", "pp": "1", "dp": ""}
    found = scenario(tmp_path, known, **cells)["cluster"]
    assert (found["server"], found["servers"]) == (server, servers)


def test_a_batch_that_follows_from_the_chips(tmp_path: Path) -> None:
    known = group(blanks={"global_batch": "3 x accelerators", "recompute": "full"})
    found = scenario(tmp_path, known, global_batch="", micro_batch="", recompute="", grad_accum="1", dp="2")["training"]
    assert (found["global_batch"], found["micro_batch"], found["recompute"]) == (3 * 16, 24, "full")
    assert scenario(tmp_path, known, global_batch="32")["training"]["global_batch"] == 32  # what is stated stays


def test_further_keys_of_a_model_by_cell(tmp_path: Path) -> None:
    known = group(model={"tied_embeddings": True}, model_by={"model": {"sm*": {"head_dim": 256}}})
    assert scenario(tmp_path, known)["model"]["head_dim"] == 256
    assert scenario(tmp_path, known)["model"]["tied_embeddings"] is True
    assert scenario(tmp_path, known, model="large")["model"]["head_dim"] == 128
    # heads that are not a width divided by their number: PaLM's FLOPs follow them
    wide, usual = (
        {**CELLS, "metric": "mfu", "unit": "%", "value": "40"} | {"model": name} for name in ("small", "large")
    )
    known = group(model_flops="palm", model_by={"model": {"sm*": {"head_dim": 256}}})
    times = [time_s(row(tmp_path, known, **cells), known) for cells in (wide, usual)]
    tokens, layers, width, sequence = 64 * 2048, 14, 1024, 2048
    more = tokens * layers * (6 * 4 * width * width + 12 * width * sequence)
    peak = load_server("dgx-a100").chip.peak_flops_per_s["bf16"].value
    assert times[0] - times[1] == pytest.approx(more / (0.4 * 16 * peak))  # type: ignore[operator]


def test_fabrics_and_models_exist() -> None:
    assert all(load_fabric(fabric).name == fabric for _, fabric, _ in MACHINES)
    for known in GROUPS.values():
        assert all(load_model(model) for model in known.models.values())


def test_every_set_of_the_shipped_tables_has_a_file() -> None:
    rows = [row for name in SHIPPED_TABLES for row in read_measured(shipped(name))]
    assert {set_of(row) for row in rows} <= set(GROUPS)


def test_a_set_says_what_it_assumes_or_simulates_nothing() -> None:
    assert [name for name, known in GROUPS.items() if known.hardware and not known.assumed] == []


@pytest.mark.parametrize("name", ["training", "trainium-training"])
def test_what_is_left_out_has_a_reason(name: str) -> None:
    rows = read_measured(shipped(name), lambda cells: fill_blanks(cells, GROUPS))
    found, skipped = measurements(rows, GROUPS)
    tasks, unclear = tasks_of(found, GROUPS)
    assert tasks
    assert all(one.reason for one in (*skipped, *unclear))


def test_blanks_by_another_column(tmp_path: Path) -> None:
    # The nearer rule wins, and a cell that is filled stays.
    known = group(blanks={"heads": "8"}, blanks_by={"model": {"wide*": {"heads": "16", "hidden": "2048"}}})
    assert row(tmp_path, known, heads="", hidden="").heads == 8
    wide = row(tmp_path, known, model="wide one", heads="", hidden="4096")
    assert (wide.heads, wide.hidden) == (16, 4096)


def test_batch_is_that_of_all_replicas(tmp_path: Path) -> None:
    known = group()
    assert row(tmp_path, known, global_batch="", grad_accum="4", micro_batch="2").global_batch == 2 * 4 * 2
    assert row(tmp_path, known, global_batch="").global_batch is None
    assert row(tmp_path, known, global_batch="64", grad_accum="4").global_batch == 64


def test_rows_that_are_left_out_are_steps_once(tmp_path: Path) -> None:
    # By a pattern: neither its start nor its end alone is enough.
    known = group(skip={"software": {"*LoRA": "adapters only"}})
    found, skipped = measurements(
        [row(tmp_path, known, software="x LoRA"), row(tmp_path, known, software="LoRA x")], {"set": known}
    )
    assert [one.row.software for one in found] == ["LoRA x"]
    assert [(one.reason, one.is_step) for one in skipped] == [("adapters only", True)]
    both = [
        row(tmp_path, known, software="x LoRA", metric=metric, unit=unit)
        for metric, unit in (("mfu", "%"), ("iteration_time", "s"))
    ]
    assert len(measurements(both, {"set": known})[1]) == 1


def test_keys_by_a_column(tmp_path: Path) -> None:
    known = group(
        training={"reduce_dtype": "bf16"}, training_by={"software": {"*ring": {"tensor_parallel_overlap": "ring"}}}
    )
    assert scenario(tmp_path, known)["training"].get("tensor_parallel_overlap") is None
    training = scenario(tmp_path, known, software="with a ring")["training"]
    assert (training["tensor_parallel_overlap"], training["reduce_dtype"]) == ("ring", "bf16")


@pytest.mark.parametrize(
    ("written", "keys"),
    [
        ("", {"zero": 0}),
        ("ZeRO-1", {"zero": 1}),
        ("ZeRO-1 over 8", {"zero": 1, "zero_group": 8}),
        ("ZeRO-1 over all", {"zero": 1}),
        ("HSDP", {"zero": 3, "zero_group": "server"}),
        ("FSDP2 32", {"zero": 3}),
        ("FSDP SHARD_GRAD_OP", {"zero": 3, "reshard_after_forward": False}),
    ],
)
def test_what_replicas_share(tmp_path: Path, written: str, keys: dict[str, Any]) -> None:
    layout = scenario(tmp_path, group(), zero_fsdp=written)["layout"]
    assert {
        key: value for key, value in layout.items() if key in {"zero", "zero_group", "reshard_after_forward"}
    } == keys


def test_ends_count_as_layers_where_that_divides(tmp_path: Path) -> None:
    # 14 + 2 = 8 x 2; 16 layers divide as they are; 15 + 2 do not divide, and are left to the rules of the layout.
    known = group(ends_count=True)
    assert scenario(tmp_path, known)["layout"]["stages"] == [1, 2, 2, 2, 2, 2, 2, 1]
    assert "stages" not in scenario(tmp_path, known, layers="16")["layout"]
    assert "stages" not in scenario(tmp_path, known, layers="15")["layout"]
    assert "stages" not in scenario(tmp_path, group())["layout"]


def test_flops_of_a_gated_mlp(tmp_path: Path) -> None:
    # PaLM, appendix B, by hand: 6 (layers (2 h h (1 + kv / heads) + matrices h ffn) + vocabulary h) + 12 layers h s.
    cells = {"metric": "achieved_tflops_per_gpu", "unit": "TFLOP/s", "value": "100", "kv_heads": "2"}
    for gated, matrices in ((True, 3), (False, 2)):
        known = group(model_flops="palm", model={"gated_mlp": gated})
        (step,), _ = measurements([row(tmp_path, known, **cells)], {"set": known})
        layer = 2 * 1024**2 * (1 + 2 / 8) + matrices * 1024 * 4096
        flops = 64 * 2048 * (6 * (14 * layer + 32000 * 1024) + 12 * 14 * 1024 * 2048)
        assert step.time_s == pytest.approx(flops / (100e12 * 16), rel=1e-12)


def test_a_machine_without_a_family_is_refused(tmp_path: Path) -> None:
    known = GroupFile(assumed=[], hardware={"other GPU": MACHINE})
    with pytest.raises(UnclearRowError, match="no software family describes GPU"):
        scenarios_of(row(tmp_path, known), known)


@pytest.mark.parametrize(
    ("hardware", "server"), [("NVIDIA A100-SXM4-80GB", "dgx-a100"), ("", "dgx-a100"), ("Cray", None)]
)
def test_a_machine_is_known_by_its_name(hardware: str, server: str | None, tmp_path: Path) -> None:
    known = GROUPS["megatron-sc21"]
    machine = machine_of(row(tmp_path, known, hardware=hardware), known)
    assert (machine and machine.server) == server


def test_scenarios_that_are_equal_are_simulated_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def recording(made: Scenario) -> Estimate:
        asked.append(made.name)
        return estimate(made)

    monkeypatch.setattr(predictions, "estimate", recording)
    known = {"set": group(layout={"rules": "nxd"})}
    written = (("a", "10", "16"), ("b", "20", "16"), ("c", "30", "8"))
    rows = [row(tmp_path, known["set"], id=name, value=value, layers=layers) for name, value, layers in written]
    found, _ = measurements(rows, known)
    tasks, _ = tasks_of(found, known)
    one, two, three = predictions.predict(tasks, jobs=1)
    assert sorted(asked) == ["a", "c"]
    assert isinstance(one, predictions.Prediction)
    assert isinstance(two, predictions.Prediction)
    assert isinstance(three, predictions.Prediction)
    assert one.time_s == two.time_s > three.time_s
    assert two.error == pytest.approx((one.error + 1) / 2 - 1)
