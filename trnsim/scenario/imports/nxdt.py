"""NeuronX Distributed Training: the YAML of an experiment.

References
----------
aws-neuron-sdk, libraries/nxd-training/general/config_overview.rst; aws-neuron/neuronx-distributed-training,
examples/conf; both read 2026-11-30.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from trnsim.documents import Document, read_document
from trnsim.scenario.imports.keys import Key, Vocabulary, by_key, count, flag, fraction, one_of, text, words
from trnsim.scenario.imports.machine import Asked, place
from trnsim.scenario.imports.pipeline import write_virtual_stages
from trnsim.scenario.imports.shape import huggingface_shape, named_shape, written_shape
from trnsim.workload import kv_replication, recomputed_operators

if TYPE_CHECKING:
    from pathlib import Path

    from trnsim.scenario.imports.translation import Translation
    from trnsim.workload import Transformer

__all__ = ["TOOL", "VOCABULARY", "read", "translate"]

TOOL: Final = "an experiment of NeuronX Distributed Training"

VOCABULARY: Final = Vocabulary(
    keys={
        "model_source": Key(one_of("hf", "megatron")),
        "trainer.devices": Key(count),
        "trainer.num_nodes": Key(count),
        "trainer.lnc": Key(count, "cluster.lnc"),
        "distributed_strategy.tensor_model_parallel_size": Key(count, "layout.tp"),
        "distributed_strategy.pipeline_model_parallel_size": Key(count, "layout.pp"),
        "distributed_strategy.virtual_pipeline_model_parallel_size": Key(count),
        "distributed_strategy.context_parallel_size": Key(count, "layout.cp"),
        "distributed_strategy.expert_model_parallel_size": Key(count, "layout.ep"),
        "distributed_strategy.zero1": Key(flag),
        "distributed_strategy.sequence_parallel": Key(flag, "layout.sequence_parallel"),
        "distributed_strategy.kv_replicator": Key(count),
        "data.micro_batch_size": Key(count, "training.micro_batch"),
        "data.global_batch_size": Key(count, "training.global_batch"),
        "model.encoder_seq_length": Key(count, "training.sequence_length"),
        "model.model_config": Key(text),
        "model.num_layers": Key(count, "model.layers"),
        "model.hidden_size": Key(count, "model.hidden_size"),
        "model.num_attention_heads": Key(count, "model.attention_heads"),
        "model.num_kv_heads": Key(count, "model.kv_heads"),
        "model.kv_channels": Key(count, "model.head_dim"),
        "model.ffn_hidden_size": Key(count, "model.ffn_size"),
        "model.max_position_embeddings": Key(count),
        "model.normalization": Key(one_of("rmsnorm", "layernorm"), "model.norm"),
        "model.activation": Key(one_of("swiglu", "gelu")),
        "model.has_bias": Key(flag),
        "model.share_embeddings_and_output_weights": Key(flag, "model.tied_embeddings"),
        "model.position_embedding_type": Key(one_of("rope", "learned_absolute")),
        "model.hidden_dropout": Key(fraction),
        "model.moe.num_experts": Key(count),
        "model.moe.top_k": Key(count),
        "model.moe.frequency": Key(count),
        "model.pipeline_cuts": Key(words),
        "model.activations_checkpoint_granularity": Key(one_of("selective", "full")),
        "model.activations_checkpoint_recompute": Key(words),
        "precision.type": Key(one_of("mixed_precision", "mixed_precisionSR", "bf16SR", "fp32", "autocast", "manual")),
        "precision.fp32_grad_acc": Key(flag),
        "precision.xla_use_bf16": Key(flag),
        "precision.xla_downcast_bf16": Key(flag),
    },
    not_modelled={
        "bucket_size_collectives": "size in MB at which collectives are joined; trnsim counts buckets in parameters",
        "distributed_strategy.token_shuffle_group_size": "tokens shuffled among the ranks of an expert",
        "model.attention_dropout": "dropout in the attention",
        "model.ffn_dropout": "dropout in the MLP",
        "model.fusions": "choice of kernels; attention is one that never writes its scores, norms and activations are apart",
        "model.moe": "settings of the mixture of experts",
        "model.optim.name": "kind and number format of the optimizer",
        "model.transformer_block_type": "order of norms and sums; pre_ln is what runs",
        "model_alignment_strategy": "fine-tuning: adapters, packing, reference model",
        "neuron_experimental_compress_rg": "compressed replica groups",
        "precision.fp32_grads_cc": "number format in which gradients travel, where it is not that in which they are kept",
        "precision.master_weights": "number format of the optimizer's copy of the weights",
        "precision.neuron_rt_stochastic_rounding_en": "stochastic rounding",
        "precision.parallel_layers_reduce_dtype": "number format of tensor-parallel sums; bf16 travels",
    },
    without_effect=by_key(
        {
            "the runtime's queue and time-out": "aync_exec_max_inflight_requests neuron_rt_exec_timeout",
            "the compiler": "compiler",
            "where the data comes from": "data",
            "logs and checkpoints": "exp_manager",
            "values, not sizes": "model.apply_query_key_layer_scaling model.layernorm_epsilon model.rope_theta "
            "model.rotary_percentage",
            "the optimizer's settings": "model.do_layer_norm_weight_decay model.optim",
            "how weights are stored": "model.fuse_qkv model.qkv_linear",
            "initial weights": "model.init_method_std model.use_cpu_initialization model.use_scaled_init_method "
            "model.weight_init_only",
            "padding of the vocabulary, which layout.rules decides": "model.make_vocab_size_divisible_by",
            "choice of kernels": "model.persist_layer_norm",
            "names": "name",
            "random numbers": "seed",
            "length of the training, logs, validation": "trainer",
        }
    ),
)

_SIZES: Final = {
    "layers": "model.num_layers",
    "hidden_size": "model.hidden_size",
    "attention_heads": "model.num_attention_heads",
    "ffn_size": "model.ffn_hidden_size",
}

_REFERENCE: Final = re.compile(r"\$\{(\.*)([\w.]+)\}")
_CUT: Final = re.compile(r"model\.layers\.(\d+)")


def read(path: Path) -> tuple[Document, tuple[str, ...]]:
    """Read an experiment; a value that refers to another key, such as ``${trainer.max_steps}``, has that key's."""
    document = read_document(path)
    return replace(document, data=_resolved(document, document.data, ())), ()


def translate(translation: Translation) -> None:
    """Write what the keys of the table do not say alone."""
    model = _shape(translation)
    _layout(translation, model)
    _machine(translation)
    _training(translation)


def _resolved(document: Document, value: Any, path: tuple[str, ...]) -> Any:
    if isinstance(value, dict):
        return {key: _resolved(document, inner, (*path, key)) for key, inner in value.items()}
    reference = _REFERENCE.fullmatch(value) if isinstance(value, str) else None
    if reference is None:
        return value
    around = path[: -len(reference[1])] if reference[1] else ()
    found: Any = document.data
    for step in (*around, *reference[2].split(".")):
        found = found.get(step) if isinstance(found, dict) else None
    return found if isinstance(found, int | float | str) else value


def _shape(translation: Translation) -> Transformer | None:
    if translation.options.model is not None:
        return named_shape(translation)
    if translation.value("model_source") == "megatron":
        _megatron_shape(translation)
        return written_shape(translation, _SIZES)
    for to in [key for key in translation.entries if key.startswith("model.")]:
        origin = translation.origins[to]
        if to not in {"model.layers", "model.hidden_size"}:
            translation.leave_out(origin, "the model's shape is that of model.model_config")
        del translation.entries[to], translation.origins[to]
    overrides = {"model.num_layers": "num_hidden_layers", "model.hidden_size": "hidden_size"}
    return huggingface_shape(translation, "model.model_config", overrides)


def _megatron_shape(translation: Translation) -> None:
    """Write what a file that describes its model itself says beside the sizes."""
    value = translation.value
    if (activation := translation.due("model.activation", "model.gated_mlp")) is not None:
        translation.write("model.gated_mlp", activation == "swiglu", "model.activation")
    translation.due("model.normalization", "model.norm")
    translation.due("model.share_embeddings_and_output_weights", "model.tied_embeddings")
    if translation.due("model.has_bias", "model.qkv_bias"):
        for bias in ("qkv_bias", "attention_output_bias", "mlp_bias"):
            translation.write(f"model.{bias}", True, "model.has_bias")
    positions = translation.due("model.position_embedding_type", "model.learned_positions")
    if positions == "learned_absolute":
        rows = translation.due("model.max_position_embeddings", "model.learned_positions")
        translation.write("model.learned_positions", rows, "model.max_position_embeddings")
    if value("model.hidden_dropout", 0) > 0:
        translation.write("model.dropout", True, "model.hidden_dropout")
    if value("model.moe.num_experts", 1) > 1:
        _mixture(translation)


def _mixture(translation: Translation) -> None:
    translation.write("model.mixture.experts", translation.value("model.moe.num_experts"), "model.moe.num_experts")
    top_k = translation.due("model.moe.top_k", "model.mixture.experts_per_token")
    translation.write("model.mixture.experts_per_token", top_k, "model.moe.top_k")
    width = translation.due("model.ffn_hidden_size", "model.mixture.expert_ffn_size")
    translation.write("model.mixture.expert_ffn_size", width, "model.ffn_hidden_size")
    if translation.value("model.moe.frequency", 1) > 1:
        translation.refuse("model.moe.frequency", "which layers stay dense is not read; pass --model FILE")


def _layout(translation: Translation, model: Transformer | None) -> None:
    strategy, value = "distributed_strategy", translation.value
    for degree, to in (("tensor_model", "layout.tp"), ("pipeline_model", "layout.pp")):
        translation.due(f"{strategy}.{degree}_parallel_size", to)
    if (zero := translation.due(f"{strategy}.zero1", "layout.zero")) is not None:
        translation.write("layout.zero", int(zero), f"{strategy}.zero1")
    translation.due(f"{strategy}.sequence_parallel", "layout.sequence_parallel")
    write_virtual_stages(
        translation,
        value(f"{strategy}.virtual_pipeline_model_parallel_size", 1),
        f"{strategy}.virtual_pipeline_model_parallel_size",
    )
    _stages(translation, model)
    copies, tp = value(f"{strategy}.kv_replicator"), translation.entries.get("layout.tp", 1)
    if copies is not None and model is not None and copies != (needed := kv_replication(model.kv_heads, tp)):
        what = f"copies of each KV head; {model.kv_heads} KV heads on tp {tp} take {needed}"
        translation.leave_out(f"{strategy}.kv_replicator", what)


def _stages(translation: Translation, model: Transformer | None) -> None:
    """Write the layers of each stage; a cut names the last layer of one."""
    cuts = [_CUT.fullmatch(cut) for cut in translation.value("model.pipeline_cuts", ())]
    if not cuts or model is None:
        return
    ends = [int(cut[1]) + 1 for cut in cuts if cut is not None]
    stages = [end - start for start, end in pairwise((0, *ends, model.layers))]
    if len(ends) < len(cuts) or any(layers < 1 for layers in stages):
        rule = f"rising layers below {model.layers} are due, as model.layers.18; the last layer of each stage but one"
        translation.refuse("model.pipeline_cuts", rule)
    else:
        translation.write("layout.stages", stages, "model.pipeline_cuts")


def _machine(translation: Translation) -> None:
    devices = translation.due("trainer.devices", "layout.dp")
    nodes = translation.due("trainer.num_nodes", "cluster.servers")
    known = devices is not None and nodes is not None
    asked = Asked(
        rank="logical_core",
        why="a device of NxD is a logical NeuronCore",
        ranks=devices * nodes if known else None,
        origin=f"trainer.devices {devices} x trainer.num_nodes {nodes}",
        hosts=nodes or 1,
        hosts_key="trainer.devices",
    )
    place(translation, asked)


def _training(translation: Translation) -> None:
    translation.due("model.encoder_seq_length", "training.sequence_length")
    translation.due("data.global_batch_size", "training.global_batch")
    translation.due("data.micro_batch_size", "training.micro_batch")
    _recompute(translation)
    kind = translation.due("precision.type", "training.precision")
    if kind is not None:
        _precision(translation, kind)


def _recompute(translation: Translation) -> None:
    granularity = translation.value("model.activations_checkpoint_granularity")
    modules = translation.value("model.activations_checkpoint_recompute")
    origin = "model.activations_checkpoint_granularity"
    if granularity is None:
        translation.choose("training.recompute", "none", f"{origin} is null or missing, which recomputes nothing")
    elif granularity == "selective" and modules is not None:
        try:
            recomputed_operators(modules)
        except ValueError as error:
            translation.refuse("model.activations_checkpoint_recompute", str(error))
        translation.write("training.recompute", list(modules), "model.activations_checkpoint_recompute")
    else:
        translation.write("training.recompute", granularity, origin)
    if modules is not None and granularity != "selective":
        translation.without_effect["model.activations_checkpoint_recompute"] = (
            "modules, where recompute is not selective"
        )


def _precision(translation: Translation, kind: str) -> None:
    """Write the number formats; what each type stands for is said in the configuration overview."""
    manual = kind == "manual"
    if manual:
        is_bf16 = translation.value("precision.xla_use_bf16") or translation.value("precision.xla_downcast_bf16")
        gradients = "fp32" if translation.value("precision.fp32_grad_acc") else "bf16"
        why = "precision.type is manual: xla_use_bf16, xla_downcast_bf16 and fp32_grad_acc decide"
    else:
        is_bf16, gradients = kind != "fp32", "bf16" if kind == "bf16SR" else "fp32"
        why = f"precision.type {kind} computes in {'bf16' if is_bf16 else 'fp32'} and sums gradients in {gradients}"
        for key in ("fp32_grad_acc", "xla_use_bf16", "xla_downcast_bf16"):
            if translation.value(f"precision.{key}") is not None:
                translation.without_effect[f"precision.{key}"] = "read where precision.type is manual only"
    translation.choose("training.precision", "bf16" if is_bf16 else "fp32", why)
    translation.choose("training.gradient_dtype", gradients, why)
    if kind in {"mixed_precisionSR", "bf16SR"}:
        translation.not_modelled["precision.type"] = "stochastic rounding, and with bf16SR optimizer states in bf16"
