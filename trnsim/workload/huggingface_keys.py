"""The keys of a Hugging Face configuration: read once each, and none that matters left behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trnsim.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["Keys"]

MOST: Final = 10_000_000
"""No shape of a model has a larger number: counts stay in seconds."""

SPELLINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "hidden size": ("hidden_size", "n_embd", "d_model"),
    "number of layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "number of attention heads": ("num_attention_heads", "n_head", "n_heads"),
    "number of key and value heads": ("num_key_value_heads", "kv_n_heads", "n_kv_heads", "num_kv_heads"),
    "width of a head": ("head_dim", "d_head"),
    "width of the MLP": ("intermediate_size", "ffn_hidden_size", "n_inner", "ffn_dim", "d_ff"),
    "vocabulary size": ("vocab_size",),
    "number of positions": ("max_position_embeddings", "n_positions", "max_seq_len"),
}
"""Sizes that configurations spell in more than one way."""

_NESTED: Final = ("attn_config", "ffn_config")

_OTHER_ATTENTION: Final = {
    "add_cross_attention": "cross-attention",
    "alibi": "attention with linear biases (ALiBi)",
    "attention_chunk_size": "chunked attention",
    "attn_layer_period": "a mixture of attention and state-space layers",
    "cross_attention_layers": "cross-attention",
    "is_encoder_decoder": "an encoder with a decoder",
    "linear_attn_config": "linear attention",
    "sparse_attention": "sparse attention",
    "use_alibi": "attention with linear biases (ALiBi)",
}

_IRRELEVANT: Final = """
    _attn_implementation _attn_implementation_autoset alibi_bias_max attn_impl attn_uses_sequence_id prefix_lm _name_or_path activation_function architectures
    attention_dropout attn_implementation attn_pdrop auto_map aux_loss_alpha bad_words_ids begin_suppress_tokens
    bos_token_id cache_implementation chunk_size_feed_forward classifier_dropout clip_qkv
    cross_attention_hidden_size decoder_start_token_id diversity_penalty do_sample dtype early_stopping emb_pdrop
    embd_pdrop encoder_no_repeat_ngram_size eos_token_id ep_size exponential_decay_length_penalty ffn_act_fn
    finetuning_task forced_bos_token_id forced_eos_token_id gradient_checkpointing hidden_act hidden_activation
    id2label init_std initializer_range is_decoder label2id layer_norm_eps layer_norm_epsilon length_penalty
    max_length max_position_embeddings max_seq_len max_window_layers min_length model_type moe_jitter_eps
    moe_loss_weight moe_normalize_expert_weights move_model_to_device n_ctx n_group n_positions no_repeat_ngram_size
    norm_eps norm_topk_prob num_beam_groups num_beams num_return_sequences original_max_position_embeddings
    output_attentions output_hidden_states output_router_logits output_scores pad_token_id partial_rotary_factor
    prefix pretraining_tp problem_type pruned_heads quantization_config remove_invalid_values
    reorder_and_upcast_attn repetition_penalty return_dict return_dict_in_generate rms_norm_eps rope_interleave
    rope_parameters rope_scaling rope_theta rotary_emb_base rotary_pct routed_scaling_factor router_aux_loss_coef
    router_jitter_noise scale_attn_by_inverse_layer_idx scale_attn_weights scoring_func selective_checkpoint_enabled
    sep_token_id seq_aux sequence_parallel_enabled summary_activation summary_first_dropout summary_proj_to_labels
    summary_type summary_use_proj suppress_tokens task_specific_params temperature tf_legacy_loss
    tie_encoder_decoder tokenizer_class top_k top_p topk_group topk_method torch_dtype torchscript
    transformers_version typical_p uniform_expert_assignment use_bfloat16 use_cache use_parallel_residual
    use_sliding_window
    """
"""Keys that change neither a parameter nor a FLOP, in any of the supported kinds."""

_SHAPE_WORDS: Final = """
    attention attn bias block blocks channel channels chunk conv d depth dim dims embd embedding embeddings expert
    experts ffn group groups head heads hidden inner intermediate kv layer layers lora mamba mlp moe multi n num
    query rank ranks router shared size sizes ssm state tie tied vocab width window
    """
"""Words in the name of a key that may change the shape."""

_MIXTURE_WORDS: Final = frozenset({"expert", "experts", "moe"})


class Keys:
    """A configuration that remembers which of its keys were read.

    Parameters
    ----------
    config
        As Hugging Face writes it. Keys in ``attn_config`` and ``ffn_config`` are read as if they stood at the top.
    table
        Key of the table that `config` is, where it is not the whole file.

    Attributes
    ----------
    problems : list of Problem
        What is wrong so far; a size that cannot be read counts as 1 meanwhile.
    notes : list of str
        What was derived so far.
    """

    def __init__(self, config: Mapping[str, Any], table: str = "") -> None:
        self.problems: list[Problem] = []
        self.notes: list[str] = []
        self._entries: dict[str, tuple[str, Any]] = {}
        self._read: set[str] = set()
        self._prefix = f"{table}." if table else ""
        nested = {key: config[key] for key in _NESTED if isinstance(config.get(key), dict)}
        for outer, inner in nested.items():
            self._entries.update({key: (f"{self._prefix}{outer}.{key}", value) for key, value in inner.items()})
        plain = {key: value for key, value in config.items() if key not in nested}
        self._entries.update({key: (f"{self._prefix}{key}", value) for key, value in plain.items()})

    def __contains__(self, key: str) -> bool:
        return key in self._entries

    def path(self, key: str) -> str:
        """Return the dotted path of a key."""
        return self._entries[key][0] if key in self._entries else f"{self._prefix}{key}"

    def value(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, which counts as read."""
        self._read.add(key)
        return self._entries.get(key, (key, default))[1]

    def ignore(self, *keys: str) -> None:
        """Count keys as read."""
        self._read.update(keys)

    def refuse(self, key: str, message: str) -> None:
        """Note a problem of a key."""
        self.problems.append(Problem(self.path(key), message))

    def spelled(self, size: str) -> str:
        """Return the spelling of a size in this file, or the usual one; two spellings must not contradict."""
        found = [key for key in SPELLINGS[size] if key in self._entries]
        for other in found[1:]:
            if self.value(other) != self.value(found[0]):
                self.refuse(
                    other, f"{self.value(other)} contradicts {found[0]} = {self.value(found[0])}: both are the {size}"
                )
        return found[0] if found else SPELLINGS[size][0]

    def size(self, size: str) -> int:
        """Read a size that has several spellings and must be there."""
        key = self.spelled(size)
        others = ", ".join(SPELLINGS[size][1:])
        return self.count(key, f"{size}, also spelled {others}" if others else size)

    def count(self, key: str, what: str, minimum: int = 1) -> int:
        """Read a whole number that must be there."""
        value = self.value(key)
        if isinstance(value, int) and not isinstance(value, bool) and minimum <= value <= MOST:
            return value
        state = "null" if key in self else "missing"
        shown = state if value is None else f"a whole number from {minimum} to {MOST:,} is due, not {value!r}"
        self.refuse(key, f"{shown}: the {what}")
        return 1

    def listed(self, key: str) -> list[Any]:
        """Read a list; a missing or null key is an empty one."""
        value = self.value(key)
        if value is not None and not isinstance(value, list):
            self.refuse(key, f"a list is due, not {value!r}")
        return value if isinstance(value, list) else []

    def flag(self, key: str, default: bool) -> bool:
        """Read true or false; a missing or null key is the default of its kind."""
        value = self.value(key, default)
        if value is not None and not isinstance(value, bool):
            self.refuse(key, f"true or false is due, not {value!r}")
        return value if isinstance(value, bool) else default

    def window(self, layers: int, *, is_on: bool) -> int:
        """Read the tokens of a sliding window that all layers have; 0 where there is none.

        Windows in some of the layers are refused.

        Parameters
        ----------
        layers
            Of the model; those from ``max_window_layers`` on have the window.
        is_on
            Whether a ``sliding_window`` counts where ``use_sliding_window`` is missing.
        """
        kinds = {str(kind) for kind in self.listed("layer_types")}
        others = sorted(kinds - {"full_attention", "sliding_attention"})
        if others:
            self.refuse("layer_types", f"{', '.join(others)} is not modelled; full_attention and sliding_attention are")
        if len(kinds) > 1 and not others:
            self.refuse(
                "layer_types", "sliding windows in some of the layers are not modelled; in all or none they are"
            )
        if (
            not self.value("sliding_window")
            or not self.value("use_sliding_window", is_on)
            or kinds == {"full_attention"}
        ):
            return 0
        first = 0 if kinds or not self.value("max_window_layers") else self.count("max_window_layers", "layer", 0)
        if 0 < first < layers:
            message = f"windows from layer {first} on are not modelled; in all layers or none they are"
            self.refuse("max_window_layers", message)
        return 0 if first else self.count("sliding_window", "tokens of the window")

    def refuse_other_attention(self) -> None:
        """Refuse every kind of attention but causal attention over all tokens or a window, by its name."""
        positions = self.value("position_embedding_type")
        if positions not in (None, "absolute", "rope", "rotary"):
            self.refuse(
                "position_embedding_type", f"{positions} positions are not modelled; absolute, rope and rotary are"
            )
        for key, kind in _OTHER_ATTENTION.items():
            if key not in self._read and self.value(key):
                self.refuse(key, f"{kind} is not modelled")

    def refuse_leftovers(self, model_type: str) -> None:
        """Refuse unread keys that may change the shape; note those that do not look so.

        Parameters
        ----------
        model_type
            The kind of model for which the keys were read.
        """
        ignored = []
        shape_words = frozenset(_SHAPE_WORDS.split())
        for key, value in self._unread():
            words = set(key.lower().split("_"))
            if words & _MIXTURE_WORDS:
                self.refuse(key, f"speaks of a mixture of experts and is not understood for model_type {model_type}")
            elif words & shape_words:
                self.refuse(key, f"may change the shape and is not understood for model_type {model_type}: {value!r}")
            else:
                ignored.append(self.path(key))
        if ignored:
            self.notes.append(f"ignored keys: {', '.join(sorted(ignored))}")

    def _unread(self) -> Iterator[tuple[str, Any]]:
        """Yield the keys that say something and were neither read nor known to be irrelevant."""
        irrelevant = frozenset(_IRRELEVANT.split())
        for key, (_, value) in self._entries.items():
            if key not in self._read and key not in irrelevant and value not in (None, False, 0, "", [], {}):
                yield key, value
