"""Arguments of Megatron-LM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import trnsim
from trnsim.errors import InputError

if TYPE_CHECKING:
    from importing import Importer

LLAMA = {
    "nproc_per_node": "8",
    "nnodes": "8",
    "tensor-model-parallel-size": "4",
    "pipeline-model-parallel-size": "2",
    "num-layers": "32",
    "hidden-size": "4096",
    "ffn-hidden-size": "14336",
    "num-attention-heads": "32",
    "group-query-attention": "",
    "num-query-groups": "8",
    "seq-length": "8192",
    "max-position-embeddings": "8192",
    "position-embedding-type": "rope",
    "normalization": "RMSNorm",
    "swiglu": "",
    "disable-bias-linear": "",
    "untie-embeddings-and-output-weights": "",
    "hidden-dropout": "0",
    "vocab-size": "128256",
    "micro-batch-size": "1",
    "global-batch-size": "128",
    "bf16": "",
    "sequence-parallel": "",
    "use-distributed-optimizer": "",
    "overlap-grad-reduce": "",
}
"""Llama 3 8B: 8 x 8 = 64 ranks = tp 4 x pp 2 x dp 8."""

GIVEN = {"server": "trn2-ultraserver"}


def command(**changes: str | None) -> str:
    """Return a command with options replaced, or left out where the value is ``None``."""
    options = LLAMA | {name.replace("_", "-") if name not in LLAMA else name: value for name, value in changes.items()}
    given = (f"--{name} {value}".rstrip() for name, value in options.items() if value is not None)
    return " \\\n  ".join(("torchrun pretrain_gpt.py", *given))


def test_every_argument_becomes_the_key_with_its_meaning(imported: Importer) -> None:
    data = imported.document("megatron-args", command(), **GIVEN).data
    assert data["cluster"] == {"server": "trn2-ultraserver", "servers": 1}
    assert data["training"] == {
        "sequence_length": 8192,
        "micro_batch": 1,
        "global_batch": 128,
        "data_parallel_overlap": "buckets",
        "recompute": "none",
        "precision": "bf16",
        "gradient_dtype": "fp32",
    }
    assert data["layout"] == {
        "rank": "chip",
        "rules": "megatron",
        "tp": 4,
        "pp": 2,
        "dp": 8,
        "zero": 1,
        "sequence_parallel": True,
    }
    assert data["schedule"] == {"kind": "1f1b"}


def test_shape_is_that_of_the_catalog(imported: Importer) -> None:
    model = trnsim.load(imported.written("megatron-args", command(), **GIVEN)).model
    by_name = trnsim.load(imported.written("megatron-args", command(), **GIVEN, model="llama3-8b")).model
    words = {"name", "source", "notes"}
    assert all(
        getattr(model, field) == getattr(by_name, field) for field in model.__struct_fields__ if field not in words
    )


@pytest.mark.parametrize(
    ("changes", "table", "key", "value"),
    [
        ({"context_parallel_size": "2", "nnodes": "16"}, "layout", "cp", 2),
        ({"num_layers_per_virtual_pipeline_stage": "4"}, "schedule", "virtual_stages", 4),
        ({"num_virtual_stages_per_pipeline_rank": "2"}, "schedule", "virtual_stages", 2),
        ({"num_virtual_stages_per_pipeline_rank": "2"}, "schedule", "kind", "interleaved-1f1b"),
        (
            {"num_virtual_stages_per_pipeline_rank": "2", "no_overlap_p2p_communication": ""},
            "schedule",
            "sends",
            "blocking",
        ),
        ({"use_distributed_optimizer": None}, "layout", "zero", 0),
        ({"use_distributed_optimizer": None, "use_torch_fsdp2": ""}, "layout", "zero", 3),
        ({"use_torch_fsdp2": "", "torch_fsdp2_no_reshard_after_forward": ""}, "layout", "reshard_after_forward", False),
        ({"optimizer_cpu_offload": ""}, "training", "optimizer_offload", True),
        ({"use_megatron_fsdp": "", "data_parallel_sharding_strategy": "optim_grads"}, "layout", "zero", 2),
        ({"use_custom_fsdp": "", "data_parallel_sharding_strategy": "optim_grads_params"}, "layout", "zero", 3),
        ({"use_megatron_fsdp": ""}, "layout", "zero", 0),
        ({"sequence_parallel": None}, "layout", "sequence_parallel", False),
        ({"use_tp_pp_dp_mapping": ""}, "layout", "order", ["tp", "cp", "pp", "dp"]),
        ({"decoder_first_pipeline_num_layers": "12"}, "layout", "stages", [12, 20]),
        ({"account_for_embedding_in_pipeline_split": "", "num_layers": "31"}, "layout", "stages", [15, 16]),
        ({"overlap_grad_reduce": None}, "training", "data_parallel_overlap", "none"),
        ({"overlap_param_gather": ""}, "training", "data_parallel_overlap", "prefetch"),
        ({"ddp_bucket_size": "1000000"}, "training", "bucket_parameters", 1_000_000),
        ({"global_batch_size": None}, "training", "global_batch", 8),
        ({"recompute_granularity": "full", "recompute_method": "uniform"}, "training", "recompute", "full"),
        ({"recompute_activations": ""}, "training", "recompute", "selective"),
        ({"recompute_granularity": "selective"}, "training", "recompute", "selective"),
        (
            {"recompute_granularity": "selective", "recompute_modules": "core_attn layernorm"},
            "training",
            "recompute",
            ["core_attention", "input_norm", "post_attention_norm"],
        ),
        ({"fp8_format": "hybrid"}, "training", "precision", "fp8"),
        ({"bf16": None}, "training", "precision", "fp32"),
        ({"bf16": None, "fp16": ""}, "training", "precision", "bf16"),
        ({"bf16": None, "fp16": ""}, "training", "gradient_dtype", "bf16"),
        ({"bf16": None, "fp16": "", "accumulate_allreduce_grads_in_fp32": ""}, "training", "gradient_dtype", "fp32"),
        ({"grad_reduce_in_bf16": ""}, "training", "gradient_dtype", "bf16"),
        ({"ffn_hidden_size": None}, "model", "ffn_size", 10_880),  # 4 x 4096 x 2 / 3 = 10922.7, cut to 170 x 64
        ({"ffn_hidden_size": None, "swiglu": None}, "model", "ffn_size", 16_384),
        ({"swiglu": None}, "model", "gated_mlp", False),
        ({"num_query_groups": None}, "model", "kv_heads", 1),
        ({"kv_channels": "64"}, "model", "head_dim", 64),
        ({"position_embedding_type": None}, "model", "learned_positions", 8192),
        ({"normalization": None}, "model", "norm", "layernorm"),
        ({"untie_embeddings_and_output_weights": None}, "model", "tied_embeddings", True),
        ({"disable_bias_linear": None}, "model", "mlp_bias", True),
        ({"add_qkv_bias": ""}, "model", "qkv_bias", True),
        ({"qk_layernorm": ""}, "model", "qk_norm", True),
        ({"hidden_dropout": None}, "model", "dropout", True),
    ],
)
def test_value_or_its_absence_decides(
    imported: Importer, changes: dict[str, str | None], table: str, key: str, value: Any
) -> None:
    renamed = {name.replace("_", "-") if name != "nproc_per_node" else name: said for name, said in changes.items()}
    assert imported.document("megatron-args", command(**renamed), **GIVEN).data[table][key] == value


def test_interleaved_import_keeps_the_rules(imported: Importer) -> None:
    # 32 layers on pp 2 with 4 layers each = 4 virtual stages a rank; 128 / 8 = 16 microbatches, a multiple of pp
    text = command(**{"num-layers-per-virtual-pipeline-stage": "4"})
    scenario = trnsim.load(imported.written("megatron-args", text, **GIVEN))
    assert (scenario.schedule.kind, scenario.schedule.virtual_stages) == ("interleaved-1f1b", 4)


def test_servers_of_gpus(imported: Importer) -> None:
    # 64 GPUs = 8 DGX; their network is named by the user
    path = imported.written("megatron-args", command(), server="dgx-h100", fabric="infiniband-ndr")
    cluster = trnsim.load(path).cluster
    assert (cluster.server.name, cluster.servers, cluster.chips) == ("dgx-h100", 8, 64)


def test_kv_heads_without_the_flag_are_those_of_the_queries(imported: Importer) -> None:
    text = command(**{"group-query-attention": None})
    result = imported("megatron-args", text, **GIVEN)
    assert "kv_heads" not in result.text
    assert "used with group_query_attention only: num_query_groups" in "\n".join(result.report)


def test_mixture_is_never_read_as_dense(imported: Importer) -> None:
    text = command(**{"num-experts": "8", "moe-router-topk": "2", "moe-ffn-hidden-size": "1024"})
    data = imported.document("megatron-args", text, **GIVEN).data
    assert data["model"]["mixture"] == {"experts": 8, "experts_per_token": 2, "expert_ffn_size": 1024}
    for further in ({"moe-layer-freq": "([0]*3+[1]*29)"}, {"multi-latent-attention": ""}):
        with pytest.raises(InputError, match="pass --model FILE"):
            imported("megatron-args", text + "".join(f" --{name} {value}" for name, value in further.items()), **GIVEN)


@pytest.mark.parametrize(
    ("changes", "options", "rule"),
    [
        ({"num-layers": None}, {}, "num_layers  missing"),
        ({"hidden-size": None}, {}, "hidden_size  missing"),
        ({"num-attention-heads": None}, {}, "num_attention_heads  missing"),
        ({"vocab-size": None}, {}, "model.vocabulary  missing: .* --vocabulary N"),
        ({}, {"vocabulary": 1000}, "vocab_size = 128256 .*--vocabulary says 1000"),
        ({"seq-length": None}, {}, "seq_length  missing"),
        ({"micro-batch-size": None}, {}, "micro_batch_size  missing"),
        ({"position-embedding-type": None, "max-position-embeddings": None}, {}, "max_position_embeddings  missing"),
        ({"num-layers": "$LAYERS"}, {}, r"num_layers = \$LAYERS .*whole number"),
        ({"num-layers": ""}, {}, "num_layers = true .*whole number"),
        ({"num-attention-heads": "33"}, {}, "num_attention_heads = 33 .*4096 / 33 heads is not whole"),
        ({"num-layers-per-virtual-pipeline-stage": "5"}, {}, "is not whole"),
        ({"decoder-first-pipeline-num-layers": "32"}, {}, "cannot be split evenly"),
        ({"nproc_per_node": None, "nnodes": None}, {}, "cluster.servers  missing: .* --servers N"),
        ({"nnodes": "9", "tensor-model-parallel-size": "16"}, {}, "72 ranks / .tp 16 x pp 2. is no whole number"),
        ({}, {"server": "dgx-h100"}, "cluster.fabric  missing: 8 servers need a network; pass --fabric NAME"),
        ({}, {"server": None}, "--server NAME .trnsim list servers"),
        ({}, {"model": "llama3-70b"}, "num_layers = 32 .*Llama 3 70B, which --model names, has 80"),
        ({"vocab-size": None}, {"model": "llama3-8b", "vocabulary": 5}, "--vocabulary = 5 .*has 128256"),
        ({}, {"model": "llama3-9b"}, "--model = llama3-9b .*did you mean"),
    ],
)
def test_what_is_missing_or_wrong_is_said(
    imported: Importer, changes: dict[str, str | None], options: dict[str, Any], rule: str
) -> None:
    with pytest.raises(InputError, match=rule) as caught:
        imported("megatron-args", command(**changes), **(GIVEN | options))
    assert caught.value.exit_code == 2


def test_later_option_wins_and_is_said(imported: Importer) -> None:
    result = imported("megatron-args", command() + " --num-layers 16", **GIVEN)
    assert "  layers: 16 # num_layers" in result.text
    assert "num_layers = 16: line 26 comes later; line 6 says 32" in "\n".join(result.report)


def test_condition_never_decides_between_two_values(imported: Importer) -> None:
    text = command() + "\nif [ $BIG ]; then\n  X=(--num-layers 80)\nfi\n"
    with pytest.raises(InputError, match=r"num_layers = 80 .*line 6 says 32, and a condition decides"):
        imported("megatron-args", text, **GIVEN)


def test_condition_that_adds_an_option_is_taken_and_said(imported: Importer) -> None:
    result = imported("megatron-args", command() + "\nif [ $FP8 ]; then\n  X=(--fp8-format hybrid)\nfi\n", **GIVEN)
    assert "precision: fp8" in result.text
    assert "fp8 = hybrid: a condition around line 28 is taken as true" in "\n".join(result.report)


PRINTED = """\
[default0]:------------------------ arguments ------------------------
[default0]:  accumulate_allreduce_grads_in_fp32 .............. True
[default0]:  add_bias_linear ................................. False
[default0]:  bf16 ............................................ True
[default0]:  ffn_hidden_size ................................. 14336
[default0]:  fp8 ............................................. None
[default0]:  global_batch_size ............................... 128
[default0]:  group_query_attention ........................... True
[default0]:  hidden_dropout .................................. 0.0
[default0]:  hidden_size ..................................... 4096
[default0]:  main_grads_dtype ................................ torch.float32
[default0]:  micro_batch_size ................................ 1
[default0]:  normalization ................................... RMSNorm
[default0]:  num_attention_heads ............................. 32
[default0]:  num_layers ...................................... 32
[default0]:  num_query_groups ................................ 8
[default0]:  padded_vocab_size ............................... 128512
[default0]:  position_embedding_type ......................... rope
[default0]:  recompute_granularity ........................... selective
[default0]:  recompute_modules ............................... ['core_attn', 'mlp']
[default0]:  seq_length ...................................... 8192
[default0]:  sequence_parallel ............................... True
[default0]:  swiglu .......................................... True
[default0]:  tensor_model_parallel_size ...................... 4
[default0]:  untie_embeddings_and_output_weights ............. True
[default0]:  use_distributed_optimizer ....................... True
[default0]:  vocab_size ...................................... None
[default0]:  window_size ..................................... (128, 0)
[default0]:  world_size ...................................... 64
[default0]:-------------------- end of arguments ---------------------
"""


def test_arguments_printed_in_a_log(imported: Importer) -> None:
    # 64 ranks = tp 4 x dp 16; the padded vocabulary is taken where no other is given
    result = imported("megatron-args", PRINTED, **GIVEN)
    data = imported.document("megatron-args", PRINTED, **GIVEN).data
    assert (data["layout"]["tp"], data["layout"]["dp"], data["layout"]["zero"]) == (4, 16, 1)
    assert data["training"]["recompute"] == ["core_attention", "mlp_up", "activation", "mlp_down"]
    assert data["training"]["precision"] == "bf16"
    assert (data["model"]["vocabulary"], data["model"]["kv_heads"]) == (128_512, 8)
    report = "\n".join(result.report)
    assert "window_size = [128, 0]: sliding window" in report
    assert "padded_vocab_size, with its padding" in report


@pytest.mark.parametrize("text", ["", "nothing here", "echo hello # --num-layers 4\n", "a ... 1\n"])
def test_text_without_arguments(imported: Importer, text: str) -> None:
    with pytest.raises(InputError, match="no arguments"):
        imported("megatron-args", text, **GIVEN)


def test_arguments_that_change_a_step_and_are_not_modelled_are_listed(imported: Importer) -> None:
    text = command(
        **{
            "tp-comm-overlap": "",
            "recompute-granularity": "full",
            "recompute-method": "block",
            "recompute-num-layers": "4",
            "rampup-batch-size": "16 16 1000",
            "lr": "1e-4",
            "teapot": "1",
        }
    )
    report = "\n".join(imported("megatron-args", text, **GIVEN).report)
    left_out = report.partition("as not modelled:")[2].partition("\nnot understood")[0]
    assert "tp_comm_overlap = true" in left_out
    assert "recompute_num_layers = 4: only 4 layers of each stage" in left_out
    assert "rampup_batch_size = 16: growing batch" in left_out
    assert "not understood:\n  teapot = 1\n" in report
    assert "the learning rate: lr" in report
