"""A pipeline stage on one rank as blocks: what runs forward, again, and backward, and what is kept in between.

What is kept follows checkpointing as PyTorch does it. An operator that is not recomputed keeps what its backward pass
reads. A run of recomputed operators keeps what it reads from outside itself, so that it can run again. Hence
recomputing core attention alone frees the log-sum-exp only (its output is the input that `attention_output` keeps),
recomputing `mlp_up`, `activation` and `mlp_down` together frees everything inside the MLP, and recomputing a whole
layer leaves its input.

For a GPT layer this gives the terms of Korthikanti et al. (2022, arXiv:2205.05198) exactly, with *s* tokens,
micro-batch *b*, hidden size *h*, *a* heads and tensor-parallel degree *t*: ``sbh (10 + 24/t)`` without and
``34 sbh/t`` with sequence parallelism, the dropout masks of 1 byte in them, and ``2 sbh`` or ``2 sbh/t`` with full
recompute. The paper's ``5 a s^2 b/t`` (softmax, its dropout and mask) is absent, because fused attention never stores
scores; ``4 a s b/t`` for the log-sum-exp takes its place, and is what selective recompute drops. Unfused attention has
the paper's term. Without dropout the
two masks go: ``sbh (8 + 24/t)`` and ``32 sbh/t``. The ends of the pipeline keep the paper's terms too: the mask behind
the embedding, ``sbh/t``, and ``4 sbh/t + 4 sbv/t`` for the head with a vocabulary of *v*.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from trnsim.record import Record
from trnsim.workload.operators import Exchange, Work, embedding_operators, head_operators, layer_operators
from trnsim.workload.shard import Shard, check, recomputed_operators

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from trnsim.workload.model import Transformer
    from trnsim.workload.operators import Operator, Tensor

__all__ = ["Block", "Item", "stage_blocks", "stage_parameters"]

Item = Work | Exchange
"""One entry of a pass."""


class Block(Record):
    """A part of a stage on one rank: the embedding, a layer, or the head.

    Parameters
    ----------
    name
        ``"embedding"``, ``"layer"`` or ``"head"``.
    forward, recompute, backward
        Computation and tensor-parallel exchanges in the order in which they happen. `recompute` runs before `backward`.
    parameters
        Parameters on this rank, copies included.
    saved_bytes
        Kept for each microbatch from its forward to its backward pass.
    """

    name: str
    forward: tuple[Item, ...]
    recompute: tuple[Item, ...]
    backward: tuple[Item, ...]
    parameters: int
    saved_bytes: int


def stage_blocks(model: Transformer, shard: Shard, stage: int, split: tuple[int, ...]) -> tuple[Block, ...]:
    """List the blocks of a pipeline stage on one rank, in the order of the forward pass.

    Parameters
    ----------
    model
        A dense model with plain attention.
    shard
        The rank's part of it.
    stage
        Index of the stage, from 0.
    split
        Layers of each stage; only the first and the last, which have the embedding and the head, may have none.

    Returns
    -------
    tuple of Block
        The embedding first on stage 0, then the layers, the head last on the last stage.

    Raises
    ------
    ValueError
        If the model cannot be split so, or its operators cannot be listed yet.

    Notes
    -----
    With tied embeddings and more than one stage, the first and the last stage both hold the table.

    Examples
    --------
    >>> from trnsim.workload import Shard, load_model, stage_blocks
    >>> model = load_model("llama3-8b")
    >>> shard = Shard(1, 8192, tp=4, sequence_parallel=True, vocabulary=128256)
    >>> [block.name for block in stage_blocks(model, shard, 1, (30, 2))]
    ['layer', 'layer', 'head']
    >>> for item in stage_blocks(model, shard, 0, (30, 2))[1].forward[:4]:
    ...     print(item)
    Work(name='input_norm', flops=0, bytes=33554432)
    Exchange(name='qkv input', op='all-gather', bytes=67108864)
    Work(name='qkv', flops=103079215104, bytes=155189248)
    Work(name='core_attention', flops=274877906944, bytes=41943040)
    """
    check(model, shard)
    _check_stage(model, stage, split)
    recomputed = recomputed_operators(shard.recompute)
    layer = _block("layer", layer_operators(model, shard), shard, model.hidden_size, recomputed)
    blocks = [layer] * split[stage]
    if stage == 0:
        blocks.insert(0, _block("embedding", embedding_operators(model, shard), shard, model.hidden_size))
    if stage == len(split) - 1:
        owns_table = not model.tied_embeddings or len(split) > 1
        head = head_operators(model, shard, owns_table=owns_table)
        blocks.append(_block("head", head, shard, model.hidden_size))
    return tuple(blocks)


def stage_parameters(model: Transformer, tp: int, stage: int, split: tuple[int, ...], vocabulary: int) -> int:
    """Count the parameters of a pipeline stage on one rank, copies included.

    Column-parallel weights and biases and row-parallel weights are split over `tp`; norms, row-parallel biases and
    position tables are copied to every rank, key and value heads so often that each rank has whole ones.

    Parameters
    ----------
    model, stage, split
        As for `stage_blocks`.
    tp
        Tensor-parallel degree.
    vocabulary
        The padded vocabulary.

    Raises
    ------
    ValueError
        As `stage_blocks`.

    Examples
    --------
    >>> from trnsim.workload import load_model, stage_parameters
    >>> stage_parameters(load_model("llama3-8b"), 1, 0, (32,), 128256)
    8030261248
    """
    shard = Shard(micro_batch=1, sequence_length=1, tp=tp, sequence_parallel=False, vocabulary=vocabulary)
    return sum(block.parameters for block in stage_blocks(model, shard, stage, split))


class _Buffers(NamedTuple):
    """Bytes of a tensor-parallel exchange: of an operand that is gathered, and of a result that is summed."""

    gathered: int
    summed: int


def _block(
    name: str,
    operators: tuple[Operator, ...],
    shard: Shard,
    hidden_size: int,
    recomputed: frozenset[str] = frozenset(),
) -> Block:
    elements = shard.tokens * hidden_size
    gathered = shard.operand_bytes(elements) if name == "layer" else 2 * elements
    buffers = _Buffers(gathered, 2 * elements)
    again = list(_run_again(operators, recomputed, stops_early=shard.recompute_early_stop))
    return Block(
        name,
        forward=tuple(_forward(operators, shard, buffers)),
        recompute=tuple(_forward(again, shard, buffers)),
        backward=tuple(_backward(operators, shard, buffers)),
        parameters=sum(operator.parameters for operator in operators),
        saved_bytes=_saved_bytes(operators, recomputed),
    )


def _forward(operators: Iterable[Operator], shard: Shard, buffers: _Buffers) -> Iterator[Item]:
    """Yield a forward pass: a column-parallel operator gathers a split sequence, a row-parallel one sums its result."""
    for operator in operators:
        if operator.split == "column" and shard.is_sequence_split:
            yield Exchange(f"{operator.name} input", "all-gather", buffers.gathered)
        yield operator.forward
        if operator.split == "row" and shard.tp > 1:
            yield Exchange(f"{operator.name} sum", _summing(shard), buffers.summed)


def _backward(operators: tuple[Operator, ...], shard: Shard, buffers: _Buffers) -> Iterator[Item]:
    """Yield a backward pass: the mirror of the forward pass, a gather for a reduce-scatter and the reverse."""
    for operator in reversed(operators):
        if operator.split == "row" and shard.is_sequence_split:
            yield Exchange(f"{operator.name} gradient", "all-gather", buffers.gathered)
        yield operator.backward
        if operator.split == "column" and shard.tp > 1:
            yield Exchange(f"{operator.name} input gradient", _summing(shard), buffers.summed)


def _summing(shard: Shard) -> str:
    return "reduce-scatter" if shard.is_sequence_split else "all-reduce"


def _run_again(operators: tuple[Operator, ...], recomputed: frozenset[str], *, stops_early: bool) -> Iterator[Operator]:
    """Yield the operators that run again; with early stop, of each run of them, those up to the last that is needed.

    An operator is needed if it makes a tensor that the backward pass of one of the run reads.
    """
    for is_again, run in groupby(operators, key=lambda operator: operator.name in recomputed):
        again = list(run) if is_again else []
        kept = {tensor for operator in again for tensor in operator.keeps}
        while stops_early and again and kept.isdisjoint(_makes(again[-1])):
            again.pop()
        yield from again


def _makes(operator: Operator) -> set[Tensor]:
    return {*operator.writes, *operator.keeps} - set(operator.reads)


def _saved_bytes(operators: tuple[Operator, ...], recomputed: frozenset[str]) -> int:
    made_again = {tensor for operator in operators if operator.name in recomputed for tensor in operator.writes}
    kept = {tensor for operator in operators if operator.name not in recomputed for tensor in operator.keeps}
    for operator in operators:
        if operator.name in recomputed:
            kept.update(tensor for tensor in operator.reads if tensor not in made_again)
    return sum(tensor.bytes for tensor in kept)


def _check_stage(model: Transformer, stage: int, split: tuple[int, ...]) -> None:
    if sum(split) != model.layers or min(split, default=0) < 0 or 0 in split[1:-1]:
        raise ValueError(f"stages of {list(split)} layers are not a split of {model.layers} layers")
    if not 0 <= stage < len(split):
        raise ValueError(f"there is no stage {stage} among {len(split)}")
