"""Configurations of torchtitan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from trnsim.errors import InputError

if TYPE_CHECKING:
    from importing import Importer

WHOLE: dict[str, dict[str, str]] = {
    "model": {"name": '"llama3"', "flavor": '"70B"'},
    "training": {"local_batch_size": "2", "seq_len": "8192"},
    "parallelism": {"data_parallel_shard_degree": "-1", "tensor_parallel_degree": "8"},
    "activation_checkpoint": {"mode": '"full"'},
}
GIVEN = {"server": "trn2-ultraserver", "servers": 4}
"""4 x 64 = 256 ranks = tp 8 x dp 32."""


def settings(**changes: str | None) -> str:
    """Return the settings with keys replaced (``table__key``), or left out where the value is ``None``."""
    data = {table: dict(keys) for table, keys in WHOLE.items()}
    for path, value in changes.items():
        table, _, key = path.partition("__")
        data.setdefault(table, {}).pop(key, None)
        if value is not None:
            data[table][key] = value
    return "\n".join(
        line
        for table, keys in data.items()
        for line in (f"[{table}]", *(f"{key} = {value}" for key, value in keys.items()))
    )


def test_every_key_becomes_the_one_with_its_meaning(imported: Importer) -> None:
    data = imported.document("torchtitan", settings(), **GIVEN).data
    assert data["cluster"] == {"server": "trn2-ultraserver", "servers": 4, "fabric": "ultracluster"}
    assert data["model"] == "llama3-70b"
    assert data["training"] == {
        "sequence_length": 8192,
        "micro_batch": 2,
        "global_batch": 64,
        "recompute": "full",
        "precision": "bf16",
        "gradient_dtype": "fp32",
    }
    assert data["layout"] == {"rank": "chip", "tp": 8, "dp": 32, "zero": 3, "sequence_parallel": True}


@pytest.mark.parametrize(
    ("changes", "table", "key", "value"),
    [
        ({"training__global_batch_size": "512"}, "training", "global_batch", 512),
        ({"training__mixed_precision_param": '"float32"'}, "training", "precision", "fp32"),
        ({"training__mixed_precision_reduce": '"bfloat16"'}, "training", "gradient_dtype", "bf16"),
        ({"model__converters": '["float8"]'}, "training", "precision", "fp8"),
        ({"model__converters": '"quantize.linear.mx"'}, "training", "precision", "fp8"),
        ({"parallelism__fsdp_reshard_after_forward": '"never"'}, "layout", "reshard_after_forward", False),
        ({"parallelism__pipeline_parallel_degree": "4"}, "layout", "reshard_after_forward", False),
        (
            {"parallelism__pipeline_parallel_degree": "4", "parallelism__fsdp_reshard_after_forward": '"always"'},
            "layout",
            "zero",
            3,
        ),
        ({"parallelism__data_parallel_replicate_degree": "32"}, "layout", "zero", 0),
        ({"parallelism__data_parallel_replicate_degree": "4"}, "layout", "zero", 3),
        ({"parallelism__data_parallel_replicate_degree": "4"}, "layout", "zero_group", 8),
        ({"parallelism__pipeline_parallel_degree": "4"}, "training", "micro_batch", 1),
        ({"parallelism__pipeline_parallel_degree": "4"}, "training", "global_batch", 16),
        ({"parallelism__pipeline_parallel_degree": "4"}, "schedule", "kind", "1f1b"),
        (
            {
                "parallelism__pipeline_parallel_degree": "4",
                "parallelism__pipeline_parallel_split_points": '["layers.19", "layers.40", "layers.61"]',
            },
            "layout",
            "stages",
            [19, 21, 21, 19],
        ),
        (
            {
                "parallelism__pipeline_parallel_degree": "4",
                "parallelism__pipeline_parallel_schedule": '"Interleaved1F1B"',
                "parallelism__pipeline_parallel_layers_per_stage": "5",
            },
            "schedule",
            "virtual_stages",
            4,
        ),
        ({"parallelism__context_parallel_degree": "2"}, "layout", "cp", 2),
        ({"activation_checkpoint__mode": '"none"'}, "training", "recompute", "none"),
        (
            {"activation_checkpoint__mode": None, "activation_checkpoint__selective_ac_option": '"op"'},
            "training",
            "recompute",
            ["input_norm", "attention_output", "attention_residual", "post_attention_norm", "activation"],
        ),
        ({"activation_checkpoint__mode": None}, "training", "recompute", "full"),
        ({"training__local_batch_size": None, "training__batch_size": "4"}, "training", "micro_batch", 4),
        ({"parallelism__tensor_parallel_degree": None, "training__tensor_parallel_degree": "4"}, "layout", "tp", 4),
    ],
)
def test_value_or_its_absence_decides(
    imported: Importer, changes: dict[str, str | None], table: str, key: str, value: Any
) -> None:
    assert imported.document("torchtitan", settings(**changes), **GIVEN).data[table][key] == value


def test_ranks_follow_from_degrees_that_are_given(imported: Importer) -> None:
    # 2 replicas x 16 shards x tp 8 = 256 ranks = 4 UltraServers
    text = settings(parallelism__data_parallel_shard_degree="16", parallelism__data_parallel_replicate_degree="2")
    data = imported.document("torchtitan", text, server="trn2-ultraserver").data
    assert (data["cluster"]["servers"], data["layout"]["dp"]) == (4, 32)


@pytest.mark.parametrize(
    ("changes", "options", "rule"),
    [
        ({}, {"servers": None}, "cluster.servers  missing"),
        ({}, {"server": None}, "cluster.server  missing"),
        ({"model__flavor": '"7B"'}, {}, "model.flavor = 7B .*known: 405B, 70B, 8B; or pass --model"),
        ({"model__flavor": None}, {}, "model.flavor  missing"),
        ({"model__name": '"qwen3"'}, {}, "model.name = qwen3 .*only flavors of llama3"),
        ({"training__seq_len": None}, {}, "training.seq_len  missing"),
        ({"training__local_batch_size": None}, {}, "training.local_batch_size  missing"),
        ({"training__seq_len": '"long"'}, {}, "line 6  training.seq_len = long  a whole number"),
        ({"parallelism__tensor_parallel_degree": "3"}, {}, "256 ranks / .tp 3. is no whole number"),
        ({"parallelism__data_parallel_replicate_degree": "5"}, {}, "5 replicas do not divide dp 32"),
        ({"parallelism__pipeline_parallel_schedule": '"Snake"'}, {}, "one of 1F1B, GPipe"),
        (
            {
                "parallelism__pipeline_parallel_degree": "4",
                "parallelism__pipeline_parallel_split_points": '["layers.19", "layers.4", "norm"]',
            },
            {},
            "rising layers",
        ),
        (
            {"parallelism__pipeline_parallel_degree": "4", "parallelism__pipeline_parallel_layers_per_stage": "33"},
            {},
            "3 stages are no multiple of pp 4",
        ),
        (
            {"activation_checkpoint__mode": None, "activation_checkpoint__selective_ac_option": '"odd"'},
            {},
            "op or a whole number",
        ),
    ],
)
def test_what_is_missing_or_wrong_is_said(
    imported: Importer, changes: dict[str, str | None], options: dict[str, Any], rule: str
) -> None:
    with pytest.raises(InputError, match=rule) as caught:
        imported("torchtitan", settings(**changes), **(GIVEN | options))
    assert caught.value.exit_code == 2


def test_report_names_every_key_that_was_left_out(imported: Importer) -> None:
    text = settings(
        parallelism__data_parallel_replicate_degree="4",
        parallelism__enable_async_tensor_parallel="true",
        parallelism__teapot="1",
        optimizer__lr="1e-4",
        training__steps="100",
    )
    report = "\n".join(imported("torchtitan", text, **GIVEN).report)
    left_out = report.partition("as not modelled:")[2].partition("\nnot understood")[0]
    assert "parallelism.enable_async_tensor_parallel = true" in left_out
    assert "not understood:\n  parallelism.teapot = 1\n" in report
    assert "the optimizer's settings: optimizer.lr" in report
