"""One layer of a GPT and one of a Llama, on any shard, for closed forms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsim.workload import Block, Shard, Transformer, Work, padded_vocabulary, stage_blocks

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trnsim.workload import Item

B, S, H, A = 2, 64, 96, 8  # micro-batch, sequence, hidden size, heads of the closed forms
GPT = Transformer(
    "gpt",
    layers=4,
    hidden_size=H,
    attention_heads=A,
    kv_heads=A,
    head_dim=H // A,
    ffn_size=4 * H,
    gated_mlp=False,
    vocabulary=1000,
    tied_embeddings=True,
    norm="layernorm",
    qkv_bias=True,
    attention_output_bias=True,
    mlp_bias=True,
    learned_positions=S,
    dropout=True,
)
LLAMA = Transformer(
    "llama",
    layers=4,
    hidden_size=H,
    attention_heads=A,
    kv_heads=2,
    head_dim=16,
    ffn_size=160,
    gated_mlp=True,
    vocabulary=1000,
    tied_embeddings=False,
)


def shard(tp: int = 1, *, sequence_parallel: bool = True, recompute: str | frozenset[str] = "none") -> Shard:
    return Shard(B, S, tp, sequence_parallel, padded_vocabulary(1000, tp, "nxd"), recompute)


def layer_of(model: Transformer, part: Shard) -> Block:
    return next(block for block in stage_blocks(model, part, 0, (model.layers,)) if block.name == "layer")


def works(items: Iterable[Item]) -> list[Work]:
    return [item for item in items if isinstance(item, Work)]
