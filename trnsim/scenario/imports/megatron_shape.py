"""The shape of a model in Megatron's arguments, with the defaults that Megatron has for what is not given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trnsim.scenario.imports.shape import named_shape, written_shape

if TYPE_CHECKING:
    from trnsim.scenario.imports.translation import Translation
    from trnsim.workload import Transformer

__all__ = ["shape"]

_SIZES: Final = {
    "layers": "num_layers",
    "hidden_size": "hidden_size",
    "attention_heads": "num_attention_heads",
    "ffn_size": "ffn_hidden_size",
}


def shape(translation: Translation) -> Transformer | None:
    """Write the model; ``None`` with problems where a size without a default is missing."""
    if translation.value("group_query_attention"):
        translation.write("model.kv_heads", translation.value("num_query_groups", 1), "num_query_groups")
    if translation.options.model is not None:
        return named_shape(translation)
    _mlp(translation)
    _attention(translation)
    _rest(translation)
    _mixture(translation)
    padded = translation.value("padded_vocab_size")
    if padded is not None and "model.vocabulary" not in translation.entries and translation.options.vocabulary is None:
        reason = "padded_vocab_size, with its padding: vocab_size is not given"
        translation.choose("model.vocabulary", padded, reason)
    return written_shape(translation, _SIZES)


def _mlp(translation: Translation) -> None:
    gated = bool(translation.value("swiglu") or translation.value("quick_geglu"))
    translation.write("model.gated_mlp", gated, "swiglu" if gated else "no --swiglu")
    hidden = translation.value("hidden_size")
    if "model.ffn_size" in translation.entries or hidden is None:
        return
    if gated and translation.value("swiglu"):
        reason = "Megatron's default with swiglu: 4 x hidden_size x 2 / 3, cut to a multiple of 64"
        translation.choose("model.ffn_size", int(4 * hidden * 2 / 3 / 64) * 64 or 64, reason)
    else:
        translation.choose("model.ffn_size", 4 * hidden, "Megatron's default: 4 x hidden_size")


def _attention(translation: Translation) -> None:
    value = translation.value
    if value("multi_latent_attention"):
        translation.refuse("multi_latent_attention", "its widths are not read; pass --model FILE")
    if value("num_query_groups") is not None and not value("group_query_attention"):
        translation.without_effect["num_query_groups"] = "used with group_query_attention only"
    if value("qk_layernorm"):
        translation.write("model.qk_norm", True, "qk_layernorm")
    if value("add_bias_linear", True):
        for bias in ("qkv_bias", "attention_output_bias", "mlp_bias"):
            translation.choose(f"model.{bias}", True, "Megatron's default, without disable_bias_linear")
    elif value("add_qkv_bias"):
        translation.write("model.qkv_bias", True, "add_qkv_bias")


def _rest(translation: Translation) -> None:
    value = translation.value
    norm = value("normalization", "LayerNorm").casefold()
    said = value("normalization") is not None
    translation.write("model.norm", norm, "normalization" if said else "no --normalization: Megatron's default")
    tied = not value("untie_embeddings_and_output_weights", False)
    origin = "untie_embeddings_and_output_weights"
    translation.write("model.tied_embeddings", tied, f"no --{origin.replace('_', '-')}" if tied else origin)
    positions = value("position_embedding_type", "learned_absolute")
    if positions == "learned_absolute":
        rows = translation.due("max_position_embeddings", "model.learned_positions")
        translation.choose(
            "model.learned_positions", rows, "position_embedding_type learned_absolute, Megatron's default"
        )
    elif positions == "relative":
        translation.leave_out("position_embedding_type", "the bias of relative positions")
    if value("hidden_dropout", 0.1) > 0:
        translation.choose(
            "model.dropout", True, f"hidden_dropout {value('hidden_dropout', 0.1)}; Megatron's default is 0.1"
        )


def _mixture(translation: Translation) -> None:
    value = translation.value
    experts = value("num_experts")
    if experts is None:
        return
    translation.write("model.mixture.experts", experts, "num_experts")
    translation.write("model.mixture.experts_per_token", value("moe_router_topk", 2), "moe_router_topk, by default 2")
    width = value("moe_ffn_hidden_size") or translation.entries.get("model.ffn_size", 1)
    origin = "moe_ffn_hidden_size, by default ffn_hidden_size"
    translation.write("model.mixture.expert_ffn_size", width, origin)
    if (shared := value("moe_shared_expert_intermediate_size")) is not None:
        translation.write("model.mixture.shared_ffn_size", shared, "moe_shared_expert_intermediate_size")
    if value("moe_layer_freq", "1") != "1":
        translation.refuse("moe_layer_freq", "which layers stay dense is not read; pass --model FILE")
