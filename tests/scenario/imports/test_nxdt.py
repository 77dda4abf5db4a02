"""Experiments of NeuronX Distributed Training."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import trnsim
from trnsim.errors import InputError

if TYPE_CHECKING:
    from importing import Importer

WHOLE: dict[str, Any] = {
    "model_source": "megatron",
    "trainer": {"devices": 32, "num_nodes": 2},
    "distributed_strategy": {
        "tensor_model_parallel_size": 8,
        "pipeline_model_parallel_size": 4,
        "virtual_pipeline_model_parallel_size": 1,
        "zero1": True,
        "sequence_parallel": True,
    },
    "data": {"micro_batch_size": 1, "global_batch_size": 64},
    "model": {
        "encoder_seq_length": 2048,
        "max_position_embeddings": "${.encoder_seq_length}",
        "num_layers": 8,
        "hidden_size": 1024,
        "ffn_hidden_size": 4096,
        "num_attention_heads": 16,
        "num_kv_heads": 8,
        "normalization": "layernorm",
        "activation": "gelu",
        "has_bias": True,
        "share_embeddings_and_output_weights": True,
        "position_embedding_type": "learned_absolute",
        "hidden_dropout": 0.1,
        "activations_checkpoint_granularity": "selective",
        "activations_checkpoint_recompute": ["CoreAttention"],
    },
    "precision": {"type": "mixed_precision"},
}
"""A whole experiment: 2 x 32 = 64 ranks = tp 8 x pp 4 x dp 2."""

GIVEN = {"server": "trn1.32xlarge", "vocabulary": 50257}


def experiment(**changes: Any) -> str:
    """Return the experiment with keys replaced (``table__key``), or left out where the value is ``...``."""
    data = json.loads(json.dumps(WHOLE))
    for path, value in changes.items():
        *tables, last = path.split("__")
        table = data
        for step in tables:
            table = table.setdefault(step, {})
        table.pop(last, None)
        if value is not ...:
            table[last] = value
    return json.dumps(data)


def test_every_key_becomes_the_one_with_its_meaning(imported: Importer) -> None:
    data = imported.document("nxdt", experiment(), **GIVEN).data
    assert data["cluster"] == {"server": "trn1.32xlarge", "servers": 2, "fabric": "ultracluster"}
    assert data["training"] == {
        "sequence_length": 2048,
        "micro_batch": 1,
        "global_batch": 64,
        "precision": "bf16",
        "gradient_dtype": "fp32",
        "recompute": ["CoreAttention"],
    }
    assert data["layout"] == {"rank": "logical_core", "tp": 8, "pp": 4, "dp": 2, "zero": 1, "sequence_parallel": True}
    assert data["schedule"] == {"kind": "1f1b"}
    assert data["model"] == {
        "layers": 8,
        "hidden_size": 1024,
        "ffn_size": 4096,
        "attention_heads": 16,
        "kv_heads": 8,
        "vocabulary": 50257,
        "norm": "layernorm",
        "gated_mlp": False,
        "tied_embeddings": True,
        "qkv_bias": True,
        "attention_output_bias": True,
        "mlp_bias": True,
        "learned_positions": 2048,
        "dropout": True,
    }


def test_imported_scenario_keeps_the_rules(imported: Importer) -> None:
    assert trnsim.load(imported.written("nxdt", experiment(), **GIVEN)).ranks == 64


@pytest.mark.parametrize(
    ("changes", "table", "key", "value"),
    [
        ({"distributed_strategy__virtual_pipeline_model_parallel_size": 2}, "schedule", "virtual_stages", 2),
        ({"distributed_strategy__context_parallel_size": 2}, "layout", "cp", 2),
        ({"distributed_strategy__expert_model_parallel_size": 2}, "layout", "ep", 2),
        ({"distributed_strategy__zero1": False}, "layout", "zero", 0),
        ({"trainer__lnc": 1}, "cluster", "lnc", 1),
        ({"model__activation": "swiglu"}, "model", "gated_mlp", True),
        ({"model__kv_channels": 128}, "model", "head_dim", 128),
        ({"model__activations_checkpoint_granularity": "full"}, "training", "recompute", "full"),
        ({"model__activations_checkpoint_granularity": None}, "training", "recompute", "none"),
        ({"model__activations_checkpoint_recompute": ...}, "training", "recompute", "selective"),
        (
            {"model__pipeline_cuts": ["model.layers.2", "model.layers.3", "model.layers.5"]},
            "layout",
            "stages",
            [3, 1, 2, 2],
        ),
        ({"precision__type": "fp32"}, "training", "precision", "fp32"),
        ({"precision__type": "bf16SR"}, "training", "gradient_dtype", "bf16"),
        ({"precision__type": "mixed_precisionSR"}, "training", "gradient_dtype", "fp32"),
        ({"precision__type": "manual", "precision__xla_downcast_bf16": "1"}, "training", "gradient_dtype", "bf16"),
        (
            {"precision__type": "manual", "precision__xla_use_bf16": "1", "precision__fp32_grad_acc": True},
            "training",
            "gradient_dtype",
            "fp32",
        ),
        ({"precision__type": "manual"}, "training", "precision", "fp32"),
    ],
)
def test_value_decides(imported: Importer, changes: dict[str, Any], table: str, key: str, value: Any) -> None:
    assert imported.document("nxdt", experiment(**changes), **GIVEN).data[table][key] == value


def test_mixture_is_never_read_as_dense(imported: Importer) -> None:
    text = experiment(model__moe={"num_experts": 8, "top_k": 2, "capacity_factor": 2.0})
    data = imported.document("nxdt", text, **GIVEN).data
    assert data["model"]["mixture"] == {"experts": 8, "experts_per_token": 2, "expert_ffn_size": 4096}
    with pytest.raises(InputError, match=r"frequency = 2 .* pass --model"):
        imported("nxdt", experiment(model__moe={"num_experts": 8, "top_k": 2, "frequency": 2}), **GIVEN)


HUGGINGFACE = {
    "model_type": "llama",
    "hidden_size": 1024,
    "num_hidden_layers": 8,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "intermediate_size": 4096,
    "vocab_size": 32000,
    "tie_word_embeddings": False,
}


def test_configuration_of_hugging_face_is_read_where_it_is(imported: Importer) -> None:
    # the file's layers replace those of the configuration, as they do there
    (imported.folder / "config.json").write_text(json.dumps(HUGGINGFACE))
    text = experiment(model_source="hf", model__model_config="config.json", model__num_layers=4)
    path = imported.written("nxdt", text, server="trn1.32xlarge")
    model = trnsim.load(path).model
    assert (model.layers, model.hidden_size, model.kv_heads, model.vocabulary) == (4, 1024, 8, 32000)
    assert (model.gated_mlp, model.norm, model.dropout) == (True, "rmsnorm", False)
    assert "model.model_config, with num_hidden_layers of this file" in path.read_text()


@pytest.mark.parametrize("config", [{"layers": 8}, {**HUGGINGFACE, "num_attention_heads": 0}])
def test_configuration_without_a_shape_is_refused(imported: Importer, config: dict[str, Any]) -> None:
    (imported.folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError):
        imported("nxdt", experiment(model_source="hf", model__model_config="config.json"), server="trn1.32xlarge")


@pytest.mark.parametrize(
    ("changes", "options", "rule"),
    [
        ({"model_source": "hf"}, {}, "model.model_config .*missing, and the model's shape is in it; pass --model"),
        ({"model_source": "hf", "model__model_config": "/no/such.json"}, {}, "no such file here"),
        ({}, {"vocabulary": None}, "model.vocabulary  missing: .* pass --vocabulary N"),
        ({"model__hidden_size": ...}, {}, "model.hidden_size  missing"),
        ({"model__activation": ...}, {}, "model.activation  missing"),
        ({"distributed_strategy__tensor_model_parallel_size": ...}, {}, "tensor_model_parallel_size  missing"),
        ({"distributed_strategy__zero1": ...}, {}, "zero1  missing"),
        ({"data__global_batch_size": ...}, {}, "data.global_batch_size  missing"),
        ({"precision": {}}, {}, "precision.type  missing"),
        ({}, {"server": None}, r"--server NAME \(hosts of 32: trn1.32xlarge"),
        ({}, {"server": "trn9"}, "--server = trn9 .*unknown server"),
        ({"trainer__devices": 64}, {}, "trainer.devices = 64 .*16 chips x 2 = 32 logical cores"),
        ({}, {"server": "dgx-h100"}, "--server = dgx-h100 .*logical NeuronCore, and h100 has none; choose hosts of 32"),
        ({"trainer__lnc": 2}, {}, "trainer.lnc = 2 .*LNC 1"),
        ({"distributed_strategy__tensor_model_parallel_size": 128}, {}, "one replica takes 512 ranks"),
        ({"distributed_strategy__tensor_model_parallel_size": "many"}, {}, "size = many .*whole number"),
        ({"distributed_strategy__tensor_model_parallel_size": "${multiply:2, 4}"}, {}, "whole number"),
        ({"distributed_strategy__sequence_parallel": "perhaps"}, {}, "true or false is due"),
        ({"model__activations_checkpoint_recompute": ["Teapot"]}, {}, "unknown operator .*Teapot"),
        ({"model__pipeline_cuts": ["model.layers.5", "model.layers.2"]}, {}, "rising layers below 8"),
        ({"model__pipeline_cuts": ["layer 5"]}, {}, "rising layers below 8"),
        ({"model__num_kv_heads": 5}, {}, "model.num_kv_heads = 5 .*16 query heads cannot share 5"),
    ],
)
def test_what_is_missing_or_wrong_is_said(
    imported: Importer, changes: dict[str, Any], options: dict[str, Any], rule: str
) -> None:
    with pytest.raises(InputError, match=rule) as caught:
        imported("nxdt", experiment(**changes), **(GIVEN | options))
    assert caught.value.exit_code == 2


def test_problems_come_all_at_once(imported: Importer) -> None:
    text = experiment(model__hidden_size=..., data__global_batch_size="x", trainer__devices=0)
    with pytest.raises(InputError) as caught:
        imported("nxdt", text, vocabulary=50257)
    keys = {problem.key for problem in caught.value.problems}
    assert {"model.hidden_size", "data.global_batch_size", "trainer.devices", "cluster.server"} <= keys


def test_model_of_the_user_must_not_contradict_the_file(imported: Importer) -> None:
    text = experiment(model__num_layers=32, model__hidden_size=4096)
    with pytest.raises(InputError) as caught:
        imported("nxdt", text, server="trn1.32xlarge", model="llama2-7b")
    said = {problem.key: problem.message for problem in caught.value.problems}
    assert said == {
        "model.ffn_hidden_size": "Llama 2 7B, which --model names, has 11008",
        "model.num_attention_heads": "Llama 2 7B, which --model names, has 32",
        "model.num_kv_heads": "Llama 2 7B, which --model names, has 32",
        "model.normalization": "Llama 2 7B, which --model names, has rmsnorm",
        "model.share_embeddings_and_output_weights": "Llama 2 7B, which --model names, has False",
    }


def test_part_of_one_instance_leaves_the_rest_idle(imported: Importer) -> None:
    # 8 of 32 cores: one server, allowed to idle; 8 ranks = tp 8
    text = experiment(trainer={"devices": 8, "num_nodes": 1}, distributed_strategy__pipeline_model_parallel_size=1)
    data = imported.document("nxdt", text, **GIVEN).data
    assert data["cluster"] == {"server": "trn1.32xlarge", "servers": 1, "allow_idle": True}
    assert data["layout"]["dp"] == 1


def test_servers_of_the_user_beat_those_of_the_file(imported: Importer) -> None:
    # 4 x 32 = 128 ranks = tp 8 x pp 4 x dp 4
    result = imported("nxdt", experiment(), **GIVEN, servers=4)
    assert "--servers beats the 64 ranks of" in " ".join(" ".join(result.report).split())
    assert imported.document("nxdt", experiment(), **GIVEN, servers=4).data["layout"]["dp"] == 4


def test_report_names_every_key_that_was_left_out(imported: Importer) -> None:
    text = experiment(
        exp_manager={"name": "run"},
        model__fusions={"flash_attention": True, "softmax": False},
        model__optim={"lr": 1e-4},
        distributed_strategy__kv_replicator=4,
        distributed_strategy__tensor_model_parallel_sizes=4,
        surprise=["one"],
    )
    result = imported("nxdt", text, **GIVEN)
    report = "\n".join(result.report)
    left_out, unknown, rest = (
        report.partition(f"{title}:")[2].partition("\nnot understood")[0].partition("\nunderstood,")[0]
        for title in ("as not modelled", "not understood", "without effect on a step")
    )
    assert "model.fusions.flash_attention = true" in left_out
    assert "distributed_strategy.kv_replicator = 4: copies of each KV head; 8 KV heads on tp 8 take 1" in left_out
    assert "surprise = [one]" in unknown
    assert "sizes = 4; did you mean distributed_strategy.tensor_model_parallel_size?" in " ".join(unknown.split())
    assert "logs and checkpoints: exp_manager.name" in rest
    assert "switched off: model.fusions.softmax" in rest
    for line in report.partition("\nunderstood, without")[0].splitlines():
        assert f"# {line}\n" in result.text
