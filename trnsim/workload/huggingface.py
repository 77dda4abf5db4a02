"""Models as Hugging Face writes them in ``config.json``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from trnsim.documents import refuse_unknown
from trnsim.errors import InputError, Problem
from trnsim.record import Record
from trnsim.workload.huggingface_keys import Keys
from trnsim.workload.model import LatentAttention, Mixture, ShapeError, Transformer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["is_huggingface", "parse_huggingface"]


class _Kind(Record):
    """What a ``model_type`` fixes by itself.

    Parameters
    ----------
    norm, gated_mlp, qk_norm, learned_positions
        As in `Transformer`; with learned positions their number is read.
    qkv_bias, output_bias, mlp_bias
        Biases, where no key says otherwise.
    bias_keys
        Those of ``attention_bias``, ``mlp_bias`` and ``no_bias`` that are understood.
    tied_embeddings
        Whether tables are tied where ``tie_word_embeddings`` is missing.
    kv_heads
        Whether the key is read, may be missing, or does not exist (as many as query heads).
    head_dim
        Whether ``head_dim`` must be there, because its default is not hidden size over heads.
    window_is_on
        Whether ``sliding_window`` counts without ``use_sliding_window``.
    ffn_factor
        Width of the MLP over hidden size where the file gives none; ``None`` when it must.
    mixture
        Reads the mixture of experts.
    latent
        Whether attention is latent.
    note
        What is simplified.
    """

    norm: Literal["rmsnorm", "layernorm"] = "rmsnorm"
    gated_mlp: bool = True
    qk_norm: bool = False
    learned_positions: bool = False
    qkv_bias: bool = False
    output_bias: bool = False
    mlp_bias: bool = False
    bias_keys: tuple[str, ...] = ()
    tied_embeddings: bool = False
    kv_heads: Literal["due", "optional", "none"] = "due"
    head_dim: Literal["due", "optional"] = "optional"
    window_is_on: bool = True
    ffn_factor: int | None = None
    mixture: Callable[[Keys, int], Mixture] | None = None
    latent: bool = False
    note: str = ""


def is_huggingface(config: Mapping[str, Any]) -> bool:
    """Whether a table is a model as Hugging Face writes it: it has ``model_type`` or ``architectures``."""
    return "model_type" in config or "architectures" in config


def parse_huggingface(config: Mapping[str, Any], name: str = "config.json") -> Transformer:
    """Read the shape of a model from a Hugging Face configuration.

    Parameters
    ----------
    config
        The table, as JSON gives it. A decoder nested in ``text_config`` is read and the rest left out, with a note.
    name
        Shown where the configuration has no ``_name_or_path``.

    Raises
    ------
    InputError
        With every problem: sizes that are missing or no whole numbers, kinds of model or attention that are not
        modelled, and keys that may change the shape and are not understood. Keys known to change nothing are ignored.

    Notes
    -----
    Nothing is taken from another kind of model: a key that speaks of experts in the file of a dense kind is refused.

    Examples
    --------
    >>> model = parse_huggingface({
    ...     "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    ...     "intermediate_size": 11008, "vocab_size": 32000, "tie_word_embeddings": False})
    >>> model.parameters
    6738415616
    >>> model.notes
    ('num_key_value_heads is missing: as many as attention heads, 32',)
    """
    keys = _keys(config)
    model_type = _model_type(keys, config)
    if model_type is None:
        raise InputError(keys.problems, file=name)
    fields = _fields(keys, _KINDS[model_type])
    keys.refuse_other_attention()
    keys.refuse_leftovers(model_type)
    if keys.problems:
        raise InputError(keys.problems, file=name)
    shown = str(config.get("_name_or_path") or name)
    try:
        return Transformer(
            shown, **fields, source=f"Hugging Face configuration of model_type {model_type}", notes=tuple(keys.notes)
        )
    except ShapeError as error:
        problems = [Problem(_key_of(keys, field), rule) for field, rule in error.broken]
        raise InputError(problems, file=name) from None


def _keys(config: Mapping[str, Any]) -> Keys:
    """Return the keys of the file, or of the text decoder in it with a note on what is left out around it."""
    text = config.get("text_config")
    if not isinstance(text, dict):
        return Keys(config)
    around = {key: config[key] for key in ("vocab_size", "tie_word_embeddings") if key in config}
    keys = Keys(around | text, table="text_config")
    others = [key for key in config if key.endswith("_config") and key not in ("text_config", "quantization_config")]
    keys.notes.append("only the decoder in text_config is counted" + (f", not {', '.join(others)}" if others else ""))
    return keys


def _model_type(keys: Keys, config: Mapping[str, Any]) -> str | None:
    """Return the kind of model by its ``model_type``, or else by its architecture."""
    named = str(keys.value("model_type") or config.get("model_type") or "")
    if named in _KINDS:
        return named
    for architecture in keys.listed("architectures") or config.get("architectures") or ():
        if isinstance(architecture, str) and architecture in _ARCHITECTURES:
            kind = _ARCHITECTURES[architecture]
            keys.notes.append(f"read as {kind}, the kind of {architecture}" + (f", not {named}" if named else ""))
            return kind
    keys.refuse("model_type", refuse_unknown("model_type", named, _KINDS))
    return None


def _fields(keys: Keys, kind: _Kind) -> dict[str, Any]:
    """Read everything but the name; problems are noted in `keys`."""
    layers, hidden_size = keys.size("number of layers"), keys.size("hidden size")
    heads = keys.size("number of attention heads")
    mla = _latent_attention(keys) if kind.latent else None
    if kind.note:
        keys.notes.append(kind.note)
    return {
        "layers": layers,
        "hidden_size": hidden_size,
        "attention_heads": heads,
        "kv_heads": _kv_heads(keys, kind, heads),
        "head_dim": mla.nope_head_dim + mla.rope_head_dim if mla else _head_dim(keys, kind, hidden_size, heads),
        "ffn_size": _ffn_size(keys, kind, hidden_size),
        "gated_mlp": kind.gated_mlp,
        "vocabulary": keys.size("vocabulary size"),
        "tied_embeddings": _tied_embeddings(keys, kind),
        "norm": kind.norm,
        "qkv_bias": _bias(keys, kind, "attention_bias", kind.qkv_bias),
        "attention_output_bias": _bias(keys, kind, "attention_bias", kind.output_bias),
        "mlp_bias": _bias(keys, kind, "mlp_bias", kind.mlp_bias),
        "learned_positions": _learned_positions(keys, kind),
        "sliding_window": keys.window(layers, is_on=kind.window_is_on),
        "qk_norm": kind.qk_norm,
        "dropout": any(_is_positive(keys.value(key)) for key in ("resid_pdrop", "hidden_dropout")),
        "mixture": kind.mixture(keys, layers) if kind.mixture else None,
        "mla": mla,
    }


def _bias(keys: Keys, kind: _Kind, key: str, default: bool) -> bool:
    if "no_bias" in kind.bias_keys:
        return not keys.flag("no_bias", False)
    return keys.flag(key, default) if key in kind.bias_keys else default


def _tied_embeddings(keys: Keys, kind: _Kind) -> bool:
    if keys.value("tie_word_embeddings") is None:
        state = "tied" if kind.tied_embeddings else "not tied"
        keys.notes.append(f"tie_word_embeddings is missing: {state}, as is usual for its kind")
    return keys.flag("tie_word_embeddings", kind.tied_embeddings)


def _learned_positions(keys: Keys, kind: _Kind) -> int:
    if not kind.learned_positions or not keys.flag("learned_pos_emb", True):
        return 0
    if keys.flag("alibi", False):
        keys.notes.append("alibi: no table of positions; what it adds to the scores has no count")
        return 0
    return keys.size("number of positions")


def _kv_heads(keys: Keys, kind: _Kind, heads: int) -> int:
    if kind.kv_heads == "none":
        return heads
    attention = keys.value("attn_type", "grouped_query_attention")
    if attention in ("multihead_attention", "multiquery_attention"):
        return heads if attention == "multihead_attention" else 1
    what = "number of key and value heads"
    key = keys.spelled(what)
    is_null = key in keys and keys.value(key) is None
    if is_null or (kind.kv_heads == "optional" and key not in keys):
        keys.notes.append(f"{key} is {'null' if is_null else 'missing'}: as many as attention heads, {heads}")
        return heads
    return keys.size(what)


def _head_dim(keys: Keys, kind: _Kind, hidden_size: int, heads: int) -> int:
    what = "width of a head"
    key = keys.spelled(what)
    is_null = key in keys and keys.value(key) is None
    if (key in keys or kind.head_dim == "due") and not is_null:
        return keys.size(what)
    head_dim, rest = divmod(hidden_size, heads)
    if rest and hidden_size > 1:  # 1 stands for a size that could not be read, which is a problem already
        keys.refuse(key, f"must be given: hidden size {hidden_size} / {heads} heads is not whole")
    elif is_null:
        keys.notes.append(f"{key} is null: hidden size {hidden_size} / {heads} heads = {head_dim}")
    return max(head_dim, 1)


def _ffn_size(keys: Keys, kind: _Kind, hidden_size: int) -> int:
    what = "width of the MLP"
    key = keys.spelled(what)
    if kind.ffn_factor is None or keys.value(key) is not None:
        return keys.size(what)
    factor = keys.count("expansion_ratio", "width of the MLP over hidden size") if "expansion_ratio" in keys else 0
    width = (factor or kind.ffn_factor) * hidden_size
    if not factor:
        keys.notes.append(f"{key} is {'null' if key in keys else 'missing'}: {kind.ffn_factor} x hidden size = {width}")
    return width


def _latent_attention(keys: Keys) -> LatentAttention:
    if keys.value("attention_bias"):
        keys.refuse("attention_bias", "biases of latent attention are not modelled")
    keys.ignore("head_dim", "qk_head_dim")  # sums and copies of the widths below
    return LatentAttention(
        query_rank=None
        if keys.value("q_lora_rank") is None
        else keys.count("q_lora_rank", "width of the latent query"),
        key_value_rank=keys.count("kv_lora_rank", "width of the latent keys and values"),
        nope_head_dim=keys.count("qk_nope_head_dim", "width of a head without rotary positions"),
        rope_head_dim=keys.count("qk_rope_head_dim", "width of a head's rotary part"),
        value_head_dim=keys.count("v_head_dim", "width of a value head"),
    )


def _mixtral_mixture(keys: Keys, layers: int) -> Mixture:  # noqa: ARG001 - every layer is a mixture
    return Mixture(
        experts=keys.count("num_local_experts", "number of experts"),
        experts_per_token=keys.count("num_experts_per_tok", "experts of a token"),
        expert_ffn_size=keys.size("width of the MLP"),
    )


def _dbrx_mixture(keys: Keys, layers: int) -> Mixture:  # noqa: ARG001 - every layer is a mixture
    return Mixture(
        experts=keys.count("moe_num_experts", "number of experts"),
        experts_per_token=keys.count("moe_top_k", "experts of a token"),
        expert_ffn_size=keys.size("width of the MLP"),
    )


def _qwen3_mixture(keys: Keys, layers: int) -> Mixture:
    step = keys.count("decoder_sparse_step", "distance of the mixture layers") if "decoder_sparse_step" in keys else 1
    dense = keys.listed("mlp_only_layers")
    return Mixture(
        experts=keys.count("num_experts", "number of experts"),
        experts_per_token=keys.count("num_experts_per_tok", "experts of a token"),
        expert_ffn_size=keys.count("moe_intermediate_size", "width of an expert"),
        dense_layers=tuple(layer for layer in range(layers) if layer in dense or (layer + 1) % step),
    )


def _deepseek_mixture(keys: Keys, layers: int) -> Mixture:
    first = keys.count("first_k_dense_replace", "number of dense layers in front", minimum=0)
    step = keys.count("moe_layer_freq", "distance of the mixture layers") if "moe_layer_freq" in keys else 1
    width = keys.count("moe_intermediate_size", "width of an expert")
    shared = (
        0 if keys.value("n_shared_experts") is None else keys.count("n_shared_experts", "number of shared experts", 0)
    )
    predicting = keys.value("num_nextn_predict_layers")
    if predicting:
        keys.notes.append(f"multi-token-prediction layers are not counted: {predicting}")
    return Mixture(
        experts=keys.count("n_routed_experts", "number of routed experts"),
        experts_per_token=keys.count("num_experts_per_tok", "experts of a token"),
        expert_ffn_size=width,
        shared_ffn_size=shared * width,
        dense_layers=tuple(layer for layer in range(layers) if layer < first or layer % step),
        router_bias=keys.value("topk_method") == "noaux_tc",
    )


def _is_positive(value: Any) -> bool:
    return isinstance(value, int | float) and value > 0


def _key_of(keys: Keys, field: str) -> str:
    """Return the key behind a field of `Transformer` that contradicts another: KV heads, or the experts of a token."""
    if field == "kv_heads":
        return keys.path(keys.spelled("number of key and value heads"))
    return keys.path("moe_top_k" if "moe_top_k" in keys else "num_experts_per_tok")


_KINDS: Final[Mapping[str, _Kind]] = {
    "dbrx": _Kind(
        mixture=_dbrx_mixture, note="LayerNorm without bias is counted as RMSNorm, which has as many parameters"
    ),
    "deepseek_v2": _Kind(mixture=_deepseek_mixture, latent=True),
    "deepseek_v3": _Kind(mixture=_deepseek_mixture, latent=True),
    "gpt2": _Kind(
        norm="layernorm",
        gated_mlp=False,
        learned_positions=True,
        qkv_bias=True,
        output_bias=True,
        mlp_bias=True,
        tied_embeddings=True,
        kv_heads="none",
        ffn_factor=4,
    ),
    "gpt_neox": _Kind(
        norm="layernorm",
        gated_mlp=False,
        qkv_bias=True,
        output_bias=True,
        mlp_bias=True,
        bias_keys=("attention_bias",),
        kv_heads="none",
        note="attention and MLP are modelled one after the other, also where the model runs them side by side",
    ),
    "llama": _Kind(bias_keys=("attention_bias", "mlp_bias"), kv_heads="optional"),
    "mistral": _Kind(),
    "mixtral": _Kind(mixture=_mixtral_mixture),
    "mpt": _Kind(
        norm="layernorm",
        gated_mlp=False,
        learned_positions=True,
        bias_keys=("no_bias",),
        tied_embeddings=True,
        ffn_factor=4,
        note="LayerNorms count as with a bias, also under no_bias",
    ),
    "qwen2": _Kind(qkv_bias=True, window_is_on=False),
    "qwen3": _Kind(qk_norm=True, bias_keys=("attention_bias",), head_dim="due", window_is_on=False),
    "qwen3_moe": _Kind(
        qk_norm=True, bias_keys=("attention_bias",), head_dim="due", window_is_on=False, mixture=_qwen3_mixture
    ),
}
"""What each supported ``model_type`` fixes, as the classes of Hugging Face transformers 4.57 have it."""

_ARCHITECTURES: Final = {
    "DbrxForCausalLM": "dbrx",
    "DeepseekV2ForCausalLM": "deepseek_v2",
    "DeepseekV3ForCausalLM": "deepseek_v3",
    "GPT2LMHeadModel": "gpt2",
    "GPTNeoXForCausalLM": "gpt_neox",
    "LlamaForCausalLM": "llama",
    "MistralForCausalLM": "mistral",
    "MPTForCausalLM": "mpt",
    "MixtralForCausalLM": "mixtral",
    "MptForCausalLM": "mpt",
    "Qwen2ForCausalLM": "qwen2",
    "Qwen3ForCausalLM": "qwen3",
    "Qwen3MoeForCausalLM": "qwen3_moe",
}
