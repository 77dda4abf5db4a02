from typing import Any

from trnsim.scenario import json_schema


def tables() -> dict[str, Any]:
    definitions: dict[str, Any] = json_schema()["$defs"]
    return definitions


def test_every_key_of_the_contract_is_there_and_no_other() -> None:
    # the tables of the contract, key for key
    keys = {name: set(table["properties"]) for name, table in tables().items()}
    assert set(json_schema()["properties"]) == {
        "schema", "name", "cluster", "model", "training", "layout", "schedule", "collectives", "run", "perturbations",
    }  # fmt: skip
    assert keys["ClusterTable"] == {"server", "servers", "fabric", "lnc", "allow_idle", "software"}
    assert keys["TrainingTable"] == {
        "sequence_length", "global_batch", "micro_batch", "precision", "fp8_matmuls", "fp8_operands",
        "attention", "gradient_dtype", "reduce_dtype", "states", "fused_update", "optimizer_offload", "cross_entropy", "recompute",
        "recompute_early_stop", "bucket_parameters", "data_parallel_overlap", "tensor_parallel_overlap", "prefetch",
    }  # fmt: skip
    assert keys["LayoutTable"] == {
        "rank", "order", "tp", "cp", "pp", "ep", "dp", "zero", "zero_group", "reshard_after_forward",
        "sequence_parallel", "stages", "rules",
    }  # fmt: skip
    assert keys["ScheduleTable"] == {"kind", "virtual_stages", "sends"}
    assert keys["CollectivesTable"] == {"algorithm", "policy"}
    assert keys["PerturbationTable"] == {"name", "of", "speed", "failed", "at", "count", "fraction", "each"}
    assert keys["RunTable"] == {"steps", "seed", "fidelity", "folding", "engine", "skew", "mfu_peak", "trace_ranks"}


def test_an_editor_learns_meaning_choices_and_what_is_due() -> None:
    # every key is described; choices are enums; no table takes unknown keys
    for table in (json_schema(), *tables().values()):
        assert table["additionalProperties"] is False
        assert all(key.get("description") for key in table["properties"].values())
    assert tables()["TrainingTable"]["properties"]["precision"]["enum"] == ["bf16", "fp8", "mxfp8"]
    assert tables()["ScheduleTable"]["properties"]["kind"]["enum"] == [
        "1f1b",
        "breadth-first",
        "gpipe",
        "interleaved-1f1b",
    ]
    assert tables()["LayoutTable"]["properties"]["tp"]["minimum"] == 1
    assert json_schema()["required"] == ["schema", "cluster", "model", "training"]
    assert tables()["TrainingTable"]["required"] == ["sequence_length", "global_batch"]
