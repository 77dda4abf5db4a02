"""Memory of one rank by term, at the pass of the schedule that needs most."""

from __future__ import annotations

from functools import partial
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.structs import replace

from trnsim.record import Record
from trnsim.workload.blocks import stage_blocks
from trnsim.workload.operators import embedding_operators, head_operators, layer_operators

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from trnsim.parallel import Sharding
    from trnsim.schedules import Pass
    from trnsim.workload.blocks import Block
    from trnsim.workload.model import Transformer
    from trnsim.workload.operators import Operator
    from trnsim.workload.shard import Shard

__all__ = [
    "CROSS_ENTROPY",
    "GRADIENT_BYTES",
    "STATES",
    "UNFUSED_UPDATE_BYTES",
    "WEIGHT_BYTES",
    "MemoryTerms",
    "Moment",
    "PassMemory",
    "RankMemory",
    "StateBytes",
    "pass_memory",
]

WEIGHT_BYTES: Final = 2
"""A weight that is multiplied with or travels, and an activation, in bf16."""
GRADIENT_BYTES: Final = {"fp32": 4, "bf16": 2}
"""A gradient, in memory and on the wire, by number format."""


class StateBytes(NamedTuple):
    """Bytes of one parameter that a rank keeps from step to step, its gradient apart.

    Attributes
    ----------
    weight
        What is multiplied with, or, where weights are shared, what is cast and gathered.
    optimizer
        Everything else that the update reads and writes.
    """

    weight: int
    optimizer: int


STATES: Final = {"master": StateBytes(2, 12), "fp32": StateBytes(4, 8), "bf16": StateBytes(2, 4)}
"""Adam as it is trained with, by name.

``master``: a bf16 weight; fp32 master weight, mean and variance. With fp32 gradients 18 bytes a parameter, under ZeRO-1
6 + 12/dp. ``fp32``: the weight is fp32 and its own master; mean and variance: 16 bytes, as FSDP has it. ``bf16``: weight,
mean and variance in bf16, updated with stochastic rounding: 10 bytes, with bf16 gradients 8.
"""


CROSS_ENTROPY: Final = {"fused": (2, 2), "eager": (6, 10)}
"""Bytes of a logit in the loss's forward and backward pass, beside the 4 that are kept in between.

``fused``: the bf16 logits, then their gradient in their place. ``eager``, as PyTorch does it step by step in fp32: the
bf16 logits and an fp32 copy; then the logits and two fp32 gradients, of the logarithms and of the copy.
"""
EAGER_IN_PARTS: Final = (10, 14)
"""The same where tensor-parallel ranks have a part of the vocabulary each, as PyTorch's ``loss_parallel``.

Forward the copy, the shifted copy and its exponentials; backward the gradient, the exponentials and their sum.
"""
UNFUSED_UPDATE_BYTES: Final = 12
"""Of a parameter while Adam is several kernels on lists of tensors: fp32 gradient, root of the variance, denominator."""


class MemoryTerms(Record):
    """Bytes of one rank.

    Parameters
    ----------
    weights, gradients, optimizer
        What is kept from step to step, or its share of it.
    activations
        What forward passes keep for the microbatches in flight.
    communication
        Gathered weights and gradients that are whole until they are reduced, where the rank keeps a share only.
    buffers
        What is alive for a moment only: see `pass_memory`.
    """

    weights: int
    gradients: int
    optimizer: int
    activations: int
    communication: int
    buffers: int

    @property
    def total(self) -> int:
        """Sum of the terms."""
        return self.states + self.activations + self.communication + self.buffers

    @property
    def states(self) -> int:
        """Sum of the terms that do not change during a step."""
        return self.weights + self.gradients + self.optimizer


class Moment(NamedTuple):
    """What a rank holds while it works on one block, beyond what it held when the pass began.

    Attributes
    ----------
    activations
        Kept in this pass so far, the block's own included; negative in a backward pass, which releases them.
    communication, buffers
        As in `MemoryTerms`.
    """

    activations: int
    communication: int
    buffers: int


class PassMemory(Record):
    """What passes through one virtual stage need, bucket by bucket and, in these, block by block.

    Parameters
    ----------
    forward, backward
        In the order of the pass.
    saved
        Bytes that a microbatch keeps from its forward to its backward pass.
    parameters
        Parameters on one rank, before they are shared.
    """

    forward: tuple[tuple[Moment, ...], ...]
    backward: tuple[tuple[Moment, ...], ...]
    saved: int
    parameters: int


class RankMemory(Record):
    """What a rank of a pipeline stage holds.

    Parameters
    ----------
    passes
        What passes need, by the place of the virtual stage in the model.
    sharding
        What data-parallel ranks share.
    states
        Bytes of a parameter.
    fused_update
        Whether the update is one kernel and needs nothing beside the states.
    offload
        Whether the optimizer's states are in the memory of the host.
    """

    passes: Mapping[int, PassMemory]
    sharding: Sharding
    states: StateBytes = STATES["master"]
    fused_update: bool = True
    offload: bool = False

    @property
    def at_rest(self) -> MemoryTerms:
        """What is held between two passes when nothing is in flight."""
        sharding, states = self.sharding, self.states
        parameters = sum(each.parameters for each in self.passes.values())
        kept = sharding.weight_shards > 1 and not sharding.reshard_after_forward
        return MemoryTerms(
            weights=states.weight * -(-parameters // sharding.weight_shards),
            gradients=sharding.gradient_bytes * -(-parameters // sharding.gradient_shards),
            optimizer=0 if self.offload else states.optimizer * -(-parameters // sharding.optimizer_shards),
            activations=0,
            communication=WEIGHT_BYTES * parameters if kept else 0,
            buffers=0,
        )

    @property
    def update_bytes(self) -> int:
        """What is alive during the update only."""
        parameters = sum(each.parameters for each in self.passes.values())
        return 0 if self.fused_update else UNFUSED_UPDATE_BYTES * -(-parameters // self.sharding.optimizer_shards)

    def peak(self, turns: Sequence[Pass]) -> MemoryTerms:
        """Return the terms at the moment of a step that needs most; of several, the first.

        Parameters
        ----------
        turns
            The passes of the stage in the order of its schedule.
        """
        highest = {
            (kind, place): max((moment for bucket in buckets for moment in bucket), key=sum)
            for place, each in self.passes.items()
            for kind, buckets in (("F", each.forward), ("B", each.backward))
        }
        held = 0
        best = Moment(0, 0, self.update_bytes)
        for turn in turns:
            moment = highest[turn.kind, turn.virtual_stage]
            if held + sum(moment) > sum(best):
                best = Moment(held + moment.activations, moment.communication, moment.buffers)
            saved = self.passes[turn.virtual_stage].saved
            held += saved if turn.kind == "F" else -saved
        rest = self.at_rest
        return replace(
            rest,
            activations=best.activations,
            communication=rest.communication + best.communication,
            buffers=best.buffers,
        )


def pass_memory(
    model: Transformer,
    shard: Shard,
    place: int,
    split: tuple[int, ...],
    *,
    buckets: Sequence[int],
    sharding: Sharding,
    cross_entropy: str = "fused",
) -> PassMemory:
    """Count what passes through one virtual stage need.

    Parameters
    ----------
    model, shard, place, split
        As for `stage_blocks`.
    buckets
        How many blocks each bucket has, in the order of the backward pass.
    sharding
        What data-parallel ranks share.
    cross_entropy
        One of `CROSS_ENTROPY`.

    Raises
    ------
    ValueError
        As `stage_blocks`.

    Notes
    -----
    Under ZeRO-3 a rank has the weights of the bucket at work and of those gathered ahead; under ZeRO-2 and 3 the whole
    gradients of the bucket at work, and of the one before while that is reduced.

    Buffers of a block: at the head the logits of one microbatch (their fp32 softmax is kept from the forward to the
    backward pass and counts as an activation); in a backward pass what recompute brings back, the gradients of what the
    widest operator reads and writes, and, where gradients are not shared, that of the largest weight in bf16 before it is
    added to the others; with sequence parallelism one gathered input of a matmul. Not counted: messages between stages,
    workspaces of kernels, fragmentation, the runtime itself.

    References
    ----------
    Rajbhandari et al., "ZeRO", 2019, arXiv:1910.02054, for the bytes per parameter.

    Examples
    --------
    >>> from trnsim.parallel import Sharding
    >>> from trnsim.schedules import Pass
    >>> from trnsim.workload import RankMemory, Shard, load_model, pass_memory
    >>> model, sharding = load_model("llama3-8b"), Sharding(0, ranks=1, group=1)
    >>> shard = Shard(1, 8192, tp=4, sequence_parallel=True, vocabulary=128256, recompute="full")
    >>> rank = RankMemory({0: pass_memory(model, shard, 0, (32,), buckets=[34], sharding=sharding)}, sharding)
    >>> rank.peak([Pass("F", 0, 0), Pass("B", 0, 0)])
    MemoryTerms(weights=4015529984, gradients=8031059968, optimizer=24093179904,
                activations=1621098496, communication=0, buffers=855113728)
    """
    blocks = stage_blocks(model, shard, place, split)
    whole = stage_blocks(model, replace(shard, recompute="none"), place, split)
    alike: dict[int, _Counted] = {}
    for block, before in zip(blocks, whole, strict=True):
        if id(block) not in alike:
            alike[id(block)] = _count(model, shard, block, before, sharding=sharding, cross_entropy=cross_entropy)
    return _pass_memory([alike[id(block)] for block in blocks], buckets, sharding)


class _Counted(NamedTuple):
    """A block: what it keeps, its parameters, its buffers in a forward and in a backward pass."""

    saved: int
    parameters: int
    forward: int
    backward: int


def _count(
    model: Transformer, shard: Shard, block: Block, whole: Block, *, sharding: Sharding, cross_entropy: str
) -> _Counted:
    """Count a block; `whole` is the same without recompute."""
    gathered = 2 * shard.tokens * model.hidden_size if shard.is_sequence_split else 0
    operators = _OPERATORS[block.name](model, shard)
    if block.name == "head":
        logits = shard.tokens * shard.vocabulary // shard.tp
        in_parts = cross_entropy == "eager" and shard.tp > 1
        forward, backward = (each * logits for each in (EAGER_IN_PARTS if in_parts else CROSS_ENTROPY[cross_entropy]))
    else:
        touched = (sum(tensor.bytes for tensor in (*each.reads, *each.writes)) for each in operators)
        forward, backward = 0, whole.saved_bytes - block.saved_bytes + max(touched)
    if sharding.gradient_shards == 1:
        backward += WEIGHT_BYTES * max(each.parameters for each in operators)
    return _Counted(block.saved_bytes, block.parameters, forward + gathered, backward + gathered)


_OPERATORS: Final[dict[str, Callable[[Transformer, Shard], tuple[Operator, ...]]]] = {
    "embedding": embedding_operators,
    "layer": layer_operators,
    "head": partial(head_operators, owns_table=True),
}


def _pass_memory(blocks: Sequence[_Counted], lengths: Sequence[int], sharding: Sharding) -> PassMemory:
    """Follow both passes through the blocks of a virtual stage; `lengths` are blocks of each bucket, last first."""
    ends = list(accumulate(lengths, initial=0))
    backward = [list(blocks[::-1][start:end]) for start, end in pairwise(ends)]
    forward = [bucket[::-1] for bucket in backward[::-1]]
    sizes = [sum(block.parameters for block in bucket) for bucket in backward]
    both = zip(_gathered(sizes, sharding), _whole_gradients(sizes, sharding), strict=True)
    return PassMemory(
        forward=_moments(forward, _gathered(sizes[::-1], sharding), is_forward=True),
        backward=_moments(backward, [weights + gradients for weights, gradients in both], is_forward=False),
        saved=sum(block.saved for block in blocks),
        parameters=sum(sizes),
    )


def _moments(
    buckets: Sequence[Sequence[_Counted]], communication: Sequence[int], *, is_forward: bool
) -> tuple[tuple[Moment, ...], ...]:
    found, kept = [], 0
    for bucket, travels in zip(buckets, communication, strict=True):
        moments = []
        for block in bucket:
            kept += block.saved if is_forward else 0
            moments.append(Moment(kept, travels, block.forward if is_forward else block.backward))
            kept -= 0 if is_forward else block.saved
        found.append(tuple(moments))
    return tuple(found)


def _gathered(sizes: Sequence[int], sharding: Sharding) -> list[int]:
    """Return the bytes of gathered weights during each bucket of a pass, those kept from pass to pass apart."""
    if sharding.weight_shards == 1 or not sharding.reshard_after_forward:
        return [0] * len(sizes)
    return [WEIGHT_BYTES * sum(sizes[at : at + sharding.gathers_ahead + 1]) for at in range(len(sizes))]


def _whole_gradients(sizes: Sequence[int], sharding: Sharding) -> list[int]:
    """Return the bytes of gradients that are not reduced yet, during each bucket of a backward pass."""
    if sharding.gradient_shards == 1:
        return [0] * len(sizes)
    before = 0 if sharding.overlap == "none" else 1
    return [sharding.reduce_bytes * sum(sizes[max(0, at - before) : at + 1]) for at in range(len(sizes))]
