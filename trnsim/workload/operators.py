r"""The operators of a transformer on one tensor-parallel rank: FLOPs, HBM bytes, parameters, and what each keeps.

Conventions, all per microbatch and rank, values in bf16 (2 bytes) but for the operands of a layer's linear operators,
which may be in fp8 or mxfp8:

- A matrix multiplication of (M, K) by (K, N) is 2 M N K FLOPs and moves its two operands and its result once. Its
  backward pass is two such multiplications, for the gradients of the input and of the weight. Operands are cast by the
  operators around, which costs nothing of its own; the result is in bf16.
- Core attention is :math:`4 s^2 b\,a d/t` FLOPs forward over the full square of scores, or what a sliding window leaves
  of it. Fused (flash) it takes 2.5 times as many backward, has no score matrix in memory, and keeps its inputs, its
  output and 4 bytes per head and token (the logarithm of the softmax's denominator). Unfused it takes twice as many
  backward, passes over the scores with 6 bytes per score for softmax and causal mask, with dropout 11, in either direction, and
  keeps its inputs and 2 bytes per score (the softmax), with dropout 5 (its mask and its result as well).
- Everything else is a pass over its tensors: bytes, no FLOPs. A norm moves 4 bytes per element and 8 backward, a
  residual sum 6 (7 with the mask of a dropout) either way, an activation its input and its output, backward the
  gradient of the input too. Embedding and loss move 8 and 12 bytes per element of the stream, 16 and 10 per logit.
- Tensors between operators are kept once, however many operators read them. With sequence parallelism a gathered
  input is kept as the rank's own part. It is gathered again for the gradient of the weight; that exchange is hidden
  behind the gradient of the input in the code bases modelled here, and is left out.
- Left out, because small: the statistics of norms, token ids, the three reductions of 4 bytes per token inside a
  vocabulary-parallel loss, and the reduction of the norms' gradients over tensor-parallel ranks.

References
----------
Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models", 2022, arXiv:2205.05198.
Dao, "FlashAttention-2", 2023, arXiv:2307.08691.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from trnsim.record import Record
from trnsim.workload.shard import LAYER_OPERATORS, kv_replication

if TYPE_CHECKING:
    from trnsim.workload.model import Transformer
    from trnsim.workload.shard import Shard

__all__ = ["Exchange", "Operator", "Tensor", "Work", "embedding_operators", "head_operators", "layer_operators"]


class Work(Record):
    """Computation of one operator.

    Parameters
    ----------
    name
        The operator.
    flops
        Floating-point operations in matrix multiplications. >= 0.
    bytes
        Bytes read from and written to HBM. >= 0.
    """

    name: str
    flops: int
    bytes: int


class Exchange(Record):
    """One collective over the tensor-parallel group.

    Parameters
    ----------
    name
        The operator it serves, and what travels: ``"qkv input"``, ``"mlp_down sum"``, ``"mlp_down gradient"``.
    op
        ``"all-reduce"``, ``"all-gather"`` or ``"reduce-scatter"``.
    bytes
        The whole buffer: what each rank holds before a reduction or after a gather.
    """

    name: str
    op: str
    bytes: int


class Tensor(Record):
    """Something that one operator leaves to another, or to its own backward pass.

    Parameters
    ----------
    name
        Unique within a block.
    bytes
        Size on this rank, as it is kept.
    """

    name: str
    bytes: int


class Operator(Record):
    """One operator on one rank.

    Parameters
    ----------
    name
        One of the names in `trnsim.workload.shard`.
    forward, backward
        What is computed.
    reads, writes
        Tensors of the forward pass.
    keeps
        Tensors that the backward pass reads.
    parameters
        Parameters on this rank.
    split
        ``"column"`` when the operator needs the whole input and gives part of the output, ``"row"`` when it needs part
        of the input and gives a partial sum of the whole output: where tensor-parallel exchanges stand.
    """

    name: str
    forward: Work
    backward: Work
    reads: tuple[Tensor, ...]
    writes: tuple[Tensor, ...]
    keeps: tuple[Tensor, ...]
    parameters: int = 0
    split: Literal["column", "row"] | None = None


def embedding_operators(model: Transformer, shard: Shard) -> tuple[Operator, ...]:
    """List the operators in front of the first layer."""
    rank = _Rank(model, shard)
    mask = (Tensor("embedding mask", rank.stream),) if model.dropout else ()
    look_up = Operator(
        "embedding",
        Work("embedding", 0, 8 * rank.tokens * rank.hidden),
        Work("embedding", 0, 12 * rank.tokens * rank.hidden),
        reads=(),
        writes=(rank.stream_tensor("layer input"),),
        keeps=mask,
        parameters=rank.vocabulary * rank.hidden + model.learned_positions * rank.hidden,
        split="row",
    )
    return (look_up,)


def layer_operators(model: Transformer, shard: Shard) -> tuple[Operator, ...]:
    """List the operators of one layer, in the order of the forward pass."""
    rank = _Rank(model, shard)
    start, middle, end = (rank.stream_tensor(name) for name in ("layer input", "after attention", "layer output"))
    if model.parallel_block:
        return _parallel_operators(rank, start, end)
    return (*_attention_operators(rank, start, middle), *_mlp_operators(rank, middle, end))


def head_operators(model: Transformer, shard: Shard, *, owns_table: bool) -> tuple[Operator, ...]:
    """List the operators behind the last layer.

    Parameters
    ----------
    model, shard
        The model, and the rank's part of it.
    owns_table
        Whether the output projection is a table of its own here, and not that of the embedding on the same rank.
    """
    rank = _Rank(model, shard)
    end, normed = rank.stream_tensor("layer output"), rank.stream_tensor("head input")
    logits = Tensor("logits", 2 * rank.tokens * rank.vocabulary)
    softmax = Tensor("softmax", 4 * rank.tokens * rank.vocabulary)
    projection = rank.linear(
        "output_projection", normed, logits, (rank.hidden, rank.vocabulary), split="column", owns_weight=owns_table
    )
    loss = Operator(
        "loss",
        Work("loss", 0, 16 * rank.tokens * rank.vocabulary),
        Work("loss", 0, 10 * rank.tokens * rank.vocabulary),
        reads=(logits,),
        writes=(),
        keeps=(softmax,),
    )
    return rank.norm("final_norm", end, normed), projection, loss


def _attention_operators(rank: _Rank, start: Tensor, end: Tensor) -> tuple[Operator, ...]:
    normed, branch = rank.stream_tensor("attention input"), rank.stream_tensor("attention branch")
    heads = Tensor("queries, keys, values", 2 * rank.tokens * (rank.query + 2 * rank.kv))
    mixed = Tensor("attention result", 2 * rank.tokens * rank.query)
    bias = rank.model.attention_output_bias
    return (
        rank.norm("input_norm", start, normed),
        rank.qkv(normed, heads),
        rank.core_attention(heads, mixed),
        rank.linear("attention_output", mixed, branch, (rank.query, rank.hidden), split="row", bias=bias),
        rank.residual("attention_residual", (start, branch), end),
    )


def _parallel_operators(rank: _Rank, start: Tensor, end: Tensor) -> tuple[Operator, ...]:
    """List a layer of attention and MLP side by side: one exchange in front of both and one behind both.

    Not modelled: the sum of the two results on each rank.
    """
    norm, qkv, attention, output, _ = _attention_operators(rank, start, end)
    _, up, activation, down, residual = _mlp_operators(rank, start, end, source="attention input")
    return (norm, qkv, attention, replace(output, split=None), replace(up, split=None), activation, down, residual)


def _mlp_operators(rank: _Rank, start: Tensor, end: Tensor, source: str = "MLP input") -> tuple[Operator, ...]:
    normed, branch = rank.stream_tensor(source), rank.stream_tensor("MLP branch")
    up = Tensor("activation input", 2 * rank.tokens * rank.ffn_in)
    activated = Tensor("activation output", 2 * rank.tokens * rank.ffn)
    bias = rank.model.mlp_bias
    return (
        rank.norm("post_attention_norm", start, normed),
        rank.linear("mlp_up", normed, up, (rank.hidden, rank.ffn_in), split="column", bias=bias),
        rank.activation(up, activated),
        rank.linear("mlp_down", activated, branch, (rank.ffn, rank.hidden), split="row", bias=bias),
        rank.residual("mlp_residual", (start, branch), end),
    )


def _bf16_bytes(elements: int) -> int:
    return 2 * elements


class _Rank:
    """The widths of one rank, and the operators made from them."""

    def __init__(self, model: Transformer, shard: Shard) -> None:
        self.model, self.shard = model, shard
        self.tokens, self.sequence_length = shard.tokens, shard.sequence_length
        self.hidden = model.hidden_size
        self.heads = model.attention_heads // shard.tp
        self.query = self.heads * model.head_dim
        self.kv = model.kv_heads * kv_replication(model.kv_heads, shard.tp) // shard.tp * model.head_dim
        self.scores = shard.micro_batch * self.heads * model.scores(shard.sequence_length)
        self.ffn = model.ffn_size // shard.tp
        self.ffn_in = self.ffn * (2 if model.gated_mlp else 1)
        self.vocabulary = shard.vocabulary // shard.tp
        self.stream = self.tokens * self.hidden // (shard.tp if shard.is_sequence_split else 1)

    def stream_tensor(self, name: str) -> Tensor:
        """Return a tensor as wide as the residual stream, split over the sequence where that is split."""
        return Tensor(name, 2 * self.stream)

    def norm(self, name: str, source: Tensor, result: Tensor) -> Operator:
        return Operator(
            name,
            Work(name, 0, 4 * self.stream),
            Work(name, 0, 8 * self.stream),
            reads=(source,),
            writes=(result,),
            keeps=(source,),
            parameters=self.model.norm_parameters,
        )

    def linear(
        self,
        name: str,
        source: Tensor,
        result: Tensor,
        shape: tuple[int, int],
        *,
        split: Literal["column", "row"],
        bias: bool = False,
        owns_weight: bool = True,
    ) -> Operator:
        """Multiply with a weight of `shape` (rows, columns); the gradient of a bias reads that of the result again."""
        rows, columns = shape
        flops = 2 * self.tokens * rows * columns
        operand = self.shard.operand_bytes if name in LAYER_OPERATORS else _bf16_bytes
        before, weight, after = self.tokens * rows, rows * columns, self.tokens * columns
        moved = operand(before) + operand(weight) + _bf16_bytes(after)
        for_input = operand(after) + operand(weight) + _bf16_bytes(before)
        for_weight = operand(before) + operand(after) + _bf16_bytes(weight)
        for_bias = _bf16_bytes(after) if bias else 0
        return Operator(
            name,
            Work(name, flops, moved),
            Work(name, 2 * flops, for_input + for_weight + for_bias),
            reads=(source,),
            writes=(result,),
            keeps=(self._operand(source) if name in LAYER_OPERATORS else source,),
            parameters=(rows * columns if owns_weight else 0) + (columns if bias else 0),
            split=split,
        )

    def _operand(self, tensor: Tensor) -> Tensor:
        """Return a tensor as a linear operator of a layer keeps it."""
        if self.shard.operands == "bf16":
            return tensor
        return Tensor(f"{tensor.name} in {self.shard.operands}", self.shard.operand_bytes(tensor.bytes // 2))

    def qkv(self, source: Tensor, result: Tensor) -> Operator:
        """Project to queries, keys and values, part them by heads and turn them, which is one more pass over them.

        That pass takes the gradient of a bias along. A norm of queries and keys is a further pass and keeps its input.
        """
        columns = self.query + 2 * self.kv
        plain = self.linear("qkv", source, result, (self.hidden, columns), split="column")
        normed = self.tokens * (self.query + self.kv) if self.model.qk_norm else 0
        parting = 4 * self.tokens * columns
        return Operator(
            "qkv",
            Work("qkv", plain.forward.flops, plain.forward.bytes + parting + 4 * normed),
            Work("qkv", plain.backward.flops, plain.backward.bytes + parting + 8 * normed),
            reads=plain.reads,
            writes=plain.writes,
            keeps=(*plain.keeps, *((Tensor("queries, keys before their norm", 2 * normed),) if normed else ())),
            parameters=plain.parameters
            + (columns if self.model.qkv_bias else 0)
            + (2 * self.model.head_dim if self.model.qk_norm else 0),
            split="column",
        )

    def core_attention(self, source: Tensor, result: Tensor) -> Operator:
        flops = 4 * self.scores * self.model.head_dim
        moved = source.bytes + result.bytes
        if self.shard.attention == "flash":
            backward = Work("core_attention", flops * 5 // 2, 2 * moved)
            fused = (source, result, Tensor("log-sum-exp", 4 * self.tokens * self.heads))
            return self._attention(Work("core_attention", flops, moved), backward, source, result, fused)
        dropout = self.model.dropout
        moved += 4 * self.scores  # the scores, written by one matmul and read by the other
        passes = (11 if dropout else 6) * self.scores
        kept = (source, Tensor("softmax, its mask and result", (5 if dropout else 2) * self.scores))
        forward = Work("core_attention", flops, moved + passes)
        return self._attention(forward, Work("core_attention", 2 * flops, 2 * moved + passes), source, result, kept)

    def _attention(
        self, forward: Work, backward: Work, source: Tensor, result: Tensor, keeps: tuple[Tensor, ...]
    ) -> Operator:
        return Operator("core_attention", forward, backward, reads=(source,), writes=(result,), keeps=keeps)

    def residual(self, name: str, sources: tuple[Tensor, Tensor], result: Tensor) -> Operator:
        mask = (Tensor(f"{name} mask", self.stream),) if self.model.dropout else ()
        moved = 6 * self.stream + sum(tensor.bytes for tensor in mask)
        return Operator(name, Work(name, 0, moved), Work(name, 0, moved), reads=sources, writes=(result,), keeps=mask)

    def activation(self, source: Tensor, result: Tensor) -> Operator:
        return Operator(
            "activation",
            Work("activation", 0, source.bytes + result.bytes),
            Work("activation", 0, 2 * source.bytes + result.bytes),
            reads=(source,),
            writes=(result,),
            keeps=(source,),
        )
