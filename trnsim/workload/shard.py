"""What one tensor-parallel rank takes of a model, and which operators it runs twice."""

from __future__ import annotations

import re
from math import gcd
from typing import TYPE_CHECKING, Final

from trnsim.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trnsim.workload.model import Transformer

__all__ = [
    "EMBEDDING_OPERATORS",
    "HEAD_OPERATORS",
    "LAYER_OPERATORS",
    "LINEAR_OPERATORS",
    "Shard",
    "kv_replication",
    "padded_vocabulary",
    "recomputed_operators",
    "refusal",
]

LAYER_OPERATORS: Final = (
    "input_norm",
    "qkv",
    "core_attention",
    "attention_output",
    "attention_residual",
    "post_attention_norm",
    "mlp_up",
    "activation",
    "mlp_down",
    "mlp_residual",
)
"""The operators of a layer, in the order of the forward pass."""

EMBEDDING_OPERATORS: Final = ("embedding",)
"""The operators in front of the first layer."""

HEAD_OPERATORS: Final = ("final_norm", "output_projection", "loss")
"""The operators behind the last layer."""

LINEAR_OPERATORS: Final = frozenset({"qkv", "attention_output", "mlp_up", "mlp_down", "output_projection"})
"""The operators that multiply with a weight matrix; of the others only core attention has FLOPs."""

_NEURON_MODULES: Final = {
    "coreattention": ("core_attention",),
    "attention": ("qkv", "core_attention", "attention_output"),
    "mlp": ("mlp_up", "activation", "mlp_down"),
    "activationmultiplymlp": ("activation",),
    "rmsnorm": ("input_norm", "post_attention_norm"),
    "layernorm": ("input_norm", "post_attention_norm"),
    "decoderlayer": LAYER_OPERATORS,
}


class Shard(Record):
    """How much of a microbatch and of the model one rank takes, apart from its pipeline stage.

    Parameters
    ----------
    micro_batch
        Sequences of one pass. >= 1.
    sequence_length
        Tokens of a sequence. >= 1, a multiple of `tp` with sequence parallelism.
    tp
        Tensor-parallel degree: a divisor of the attention heads, the MLP width and `vocabulary`.
    sequence_parallel
        Whether norms, residuals and what they keep are split over the sequence; without effect at `tp` 1.
    vocabulary
        The padded vocabulary, see `padded_vocabulary`.
    recompute
        ``"none"``, ``"selective"``, ``"full"`` or the operators of a layer that run again before their backward pass.
    recompute_early_stop
        Whether recompute ends with the last tensor that the backward pass needs, as PyTorch's ``checkpoint`` does.
    attention
        ``"flash"``: one fused kernel, scores never in memory; ``"unfused"``: softmax and dropout pass over them.
    operands
        In what the linear operators of a layer read, keep and gather their operands: ``"bf16"``, ``"fp8"``, ``"mxfp8"``.
    """

    micro_batch: int
    sequence_length: int
    tp: int
    sequence_parallel: bool
    vocabulary: int
    recompute: str | frozenset[str] = "none"
    recompute_early_stop: bool = False
    attention: str = "flash"
    operands: str = "bf16"

    @property
    def tokens(self) -> int:
        """Tokens of one microbatch."""
        return self.micro_batch * self.sequence_length

    @property
    def is_sequence_split(self) -> bool:
        """Whether sequence parallelism has anything to split."""
        return self.sequence_parallel and self.tp > 1

    def operand_bytes(self, elements: int) -> int:
        """Return the bytes of an operand of a layer's linear operators; in mxfp8 32 elements share a scale of one byte."""
        return {"bf16": 2 * elements, "fp8": elements, "mxfp8": elements + -(-elements // 32)}[self.operands]


def padded_vocabulary(vocabulary: int, tp: int, rules: str) -> int:
    """Pad a vocabulary so that tensor-parallel ranks get equal parts of it.

    Parameters
    ----------
    vocabulary, tp
        Tokens, and tensor-parallel degree. >= 1.
    rules
        ``"nxd"`` pads to a multiple of `tp`, only when it must; ``"megatron"`` always to one of 128 x `tp`.

    Raises
    ------
    ValueError
        If there are no such rules.

    References
    ----------
    NVIDIA Megatron-LM, ``--make-vocab-size-divisible-by`` (default 128), multiplied by the tensor-parallel degree.

    Examples
    --------
    >>> padded_vocabulary(50257, 8, "nxd"), padded_vocabulary(50257, 8, "megatron"), padded_vocabulary(32000, 8, "nxd")
    (50264, 51200, 32000)
    """
    if rules not in ("nxd", "megatron"):
        raise ValueError(f'the rules of a layout are "nxd" or "megatron", not "{rules}"')
    unit = tp if rules == "nxd" else 128 * tp
    return -(-vocabulary // unit) * unit


def kv_replication(kv_heads: int, tp: int) -> int:
    """Count the copies of key and value heads that give every tensor-parallel rank the same whole number of them.

    Examples
    --------
    >>> kv_replication(8, 4), kv_replication(8, 32)
    (1, 4)
    """
    return tp // gcd(kv_heads, tp)


def recomputed_operators(recompute: str | Iterable[str]) -> frozenset[str]:
    """Return the operators of a layer that run again before their backward pass.

    Parameters
    ----------
    recompute
        ``"none"``; ``"selective"``, the core attention; ``"full"``, all of them; or names: operators of a layer, and
        modules as NeuronX Distributed Training writes them (``CoreAttention``, ``LlamaMLP``, ``LlamaRMSNorm``,
        ``ActivationMultiplyMLP``), without regard to case.

    Raises
    ------
    ValueError
        If a name is none of these, with the list.

    References
    ----------
    aws-neuron/neuronx-distributed-training, ``activations_checkpoint_recompute`` of the example configurations.

    Examples
    --------
    >>> sorted(recomputed_operators(["CoreAttention", "LlamaMLP"]))
    ['activation', 'core_attention', 'mlp_down', 'mlp_up']
    """
    if isinstance(recompute, str):
        named: dict[str, tuple[str, ...]] = {"none": (), "selective": ("core_attention",), "full": LAYER_OPERATORS}
        if recompute not in named:
            raise ValueError(f'recompute is none, selective, full or a list of operators, not "{recompute}"')
        return frozenset(named[recompute])
    return frozenset(operator for name in recompute for operator in _operators_named(name))


def refusal(model: Transformer) -> str | None:
    """Say why the operators of a model cannot be listed yet; ``None`` where they can."""
    if model.mixture is not None:
        return f"{model.name} is a mixture of {model.mixture.experts} experts: counted, but not modelled in a run yet"
    if model.mla is not None:
        return f"{model.name} has latent attention: counted, but not modelled in a run yet"
    return None


def check(model: Transformer, shard: Shard) -> None:
    """Refuse a shard that the model cannot be cut into.

    Raises
    ------
    ValueError
        If the operators of the model cannot be listed, or a size does not divide; with the arithmetic.
    """
    reason = refusal(model)
    if reason is not None:
        raise ValueError(reason)
    split = {
        "attention heads": model.attention_heads,
        "columns of the MLP": model.ffn_size,
        "padded vocabulary entries": shard.vocabulary,
        "tokens of a sequence": shard.sequence_length if shard.is_sequence_split else shard.tp,
    }
    for what, size in split.items():
        if size % shard.tp:
            raise ValueError(f"{size} {what} cannot be split {shard.tp} ways; a multiple of {shard.tp} is due")
    if shard.vocabulary < model.vocabulary:
        raise ValueError(f"a vocabulary of {model.vocabulary} does not fit in {shard.vocabulary} padded entries")


def _operators_named(name: str) -> tuple[str, ...]:
    if name in LAYER_OPERATORS:
        return (name,)
    word = name.lower().replace("_", "")
    operators = {operator.replace("_", ""): (operator,) for operator in LAYER_OPERATORS} | _NEURON_MODULES
    found = operators.get(word) or operators.get(re.sub(r"^(llama|mistral|mixtral|gpt|qwen\d?)", "", word))
    if found is None:
        known = ", ".join((*LAYER_OPERATORS, "CoreAttention", "LlamaMLP", "LlamaRMSNorm", "ActivationMultiplyMLP"))
        raise ValueError(f'unknown operator "{name}"; the operators of a layer are {known}')
    return found
