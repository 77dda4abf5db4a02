"""Memory of one rank by term."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from trnsim.workload.blocks import stage_blocks

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from trnsim.workload.blocks import Block
    from trnsim.workload.model import Transformer
    from trnsim.workload.shard import Shard

__all__ = ["GRADIENT_BYTES", "OPTIMIZER_BYTES", "WEIGHT_BYTES", "MemoryTerms", "memory_terms", "saved_bytes"]

WEIGHT_BYTES: Final = 2
"""A weight, and an activation, in bf16."""
OPTIMIZER_BYTES: Final = 12
"""Adam: fp32 master weight, mean and variance."""
GRADIENT_BYTES: Final = {"fp32": 4, "bf16": 2}
"""A gradient, in memory and on the wire, by number format."""


@dataclass(frozen=True, slots=True)
class MemoryTerms:
    """Bytes of one rank.

    Parameters
    ----------
    weights
        bf16, 2 bytes per parameter.
    gradients
        4 bytes per parameter in fp32, 2 in bf16.
    optimizer
        12 bytes per parameter (Adam with fp32 master weights), shared by the data-parallel ranks under ZeRO-1.
    activations
        What forward passes keep for the microbatches in flight.
    buffers
        What is alive for a moment only: see `memory_terms`.
    """

    weights: int
    gradients: int
    optimizer: int
    activations: int
    buffers: int

    @property
    def total(self) -> int:
        """Sum of the terms."""
        return self.weights + self.gradients + self.optimizer + self.activations + self.buffers


def memory_terms(
    model: Transformer,
    shard: Shard,
    held: Mapping[int, int],
    split: tuple[int, ...],
    *,
    optimizer_shards: int,
    gradient_dtype: str = "fp32",
) -> MemoryTerms:
    """Count the memory of one rank by term.

    Parameters
    ----------
    model, shard, split
        As for `stage_blocks`.
    held
        The stages of the model that the rank holds, several where they are virtual stages, and for each the microbatches
        whose forward pass is done and whose backward pass is not, when activations are largest. >= 0.
    optimizer_shards
        Ranks that share the optimizer states: the data-parallel degree under ZeRO-1, else 1. >= 1.
    gradient_dtype
        In what gradients are kept and summed: ``"fp32"`` or ``"bf16"``.

    Raises
    ------
    ValueError
        As `stage_blocks`, or if another argument is out of the range given above.

    Notes
    -----
    Buffers are, for the stage that needs most, the larger of two things that are never alive together, the bf16 logits of one microbatch on the last
    stage (their fp32 softmax is kept from the forward to the backward pass and counts as an activation) and what the
    recompute of one layer brings back; and, with sequence parallelism, one gathered input of a matmul.
    Not counted: gradients of activations, messages between stages, fragmentation, the runtime itself.

    References
    ----------
    Rajbhandari et al., "ZeRO", 2019, arXiv:1910.02054, for the bytes per parameter.

    Examples
    --------
    >>> from trnsim.workload import Shard, load_model, memory_terms
    >>> model = load_model("llama3-8b")
    >>> shard = Shard(1, 8192, tp=4, sequence_parallel=True, vocabulary=128256, recompute="full")
    >>> memory_terms(model, shard, {0: 1}, (32,), optimizer_shards=1)
    MemoryTerms(weights=4015529984, gradients=8031059968, optimizer=24093179904,
                activations=1621098496, buffers=592445440)
    """
    if min(held.values()) < 0 or optimizer_shards < 1:
        raise ValueError(f"{held} microbatches in flight and {optimizer_shards} optimizer shards cannot be")
    if gradient_dtype not in GRADIENT_BYTES:
        raise ValueError(f'gradients cannot be "{gradient_dtype}"; choose from {", ".join(GRADIENT_BYTES)}')
    blocks = {stage: stage_blocks(model, shard, stage, split) for stage in held}
    parameters = sum(block.parameters for of_stage in blocks.values() for block in of_stage)
    return MemoryTerms(
        weights=WEIGHT_BYTES * parameters,
        gradients=GRADIENT_BYTES[gradient_dtype] * parameters,
        optimizer=OPTIMIZER_BYTES * -(-parameters // optimizer_shards),
        activations=sum(held[stage] * saved_bytes(of_stage) for stage, of_stage in blocks.items()),
        buffers=max(_buffer_bytes(model, shard, stage, split) for stage in held),
    )


def saved_bytes(blocks: Iterable[Block]) -> int:
    """Return what a microbatch keeps in the blocks of a stage from its forward to its backward pass."""
    return sum(block.saved_bytes for block in blocks)


def _buffer_bytes(model: Transformer, shard: Shard, stage: int, split: tuple[int, ...]) -> int:
    logits = 2 * shard.tokens * shard.vocabulary // shard.tp if stage == len(split) - 1 else 0
    whole = stage_blocks(model, replace(shard, recompute="none"), stage, split)
    kept = stage_blocks(model, shard, stage, split)
    brought_back = max(before.saved_bytes - now.saved_bytes for before, now in zip(whole, kept, strict=True))
    gathered = 2 * shard.tokens * model.hidden_size if shard.is_sequence_split else 0
    return max(logits, brought_back) + gathered
