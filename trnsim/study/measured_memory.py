"""Published memory of training runs beside what trnsim counts, under one stated convention for each set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.structs import replace

from trnsim.parallel import Sharding, split_layers
from trnsim.record import Record
from trnsim.schedules import Pipeline, schedule_kind
from trnsim.study.measured import read_measured, shipped
from trnsim.training import gradient_buckets
from trnsim.training.passes import bucket_size
from trnsim.workload import (
    STATES,
    RankMemory,
    Shard,
    Transformer,
    padded_vocabulary,
    pass_memory,
    stage_blocks,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnsim.study.measured import MeasuredRow
    from trnsim.workload import Block

__all__ = ["CONVENTIONS", "CheckedMemory", "Convention", "check_memory_rows"]

_BUCKET_PARAMETERS: Final = 40_000_000
_BYTES: Final = {"GiB per GPU": 2**30, "GB per GPU": 10**9}


class Convention(Record):
    """What a set of measured runs kept and how, as its software has it; the same for all rows of the set.

    Parameters
    ----------
    gated, dropout, attention
        Of the models: gated MLPs, dropout, flash or unfused attention.
    rules
        How the vocabulary is padded: ``nxd`` or ``megatron``.
    states, gradient_bytes, cross_entropy, early_stop
        As the keys of a scenario.
    adds_update
        Whether Adam is several kernels, and what it needs adds to what passes need: the number is what the allocator has
        reserved, and the blocks that it holds for passes are not those that the update asks for.
    pipelined_fsdp
        Whether FSDP under pipeline parallelism keeps gathered weights and whole gradients until the last microbatch;
        then microbatches are as many as stages and `micro_batch` is that of all of them.
    words
        The same in a sentence, for the page.
    """

    words: str
    gated: bool = True
    dropout: bool = False
    attention: str = "flash"
    rules: str = "nxd"
    states: str = "master"
    gradient_bytes: int = 4
    cross_entropy: str = "fused"
    early_stop: bool = False
    adds_update: bool = False
    pipelined_fsdp: bool = False


CONVENTIONS: Final = {
    "korthikanti22": Convention(
        words=(
            "GPT with dropout and unfused attention; 18 bytes a parameter; layers alone, without embedding, head and buffers, as "
            "in the figure; virtual stages as in the table"
        ),
        gated=False,
        dropout=True,
        attention="unfused",
        rules="megatron",
    ),
    "simumax-b200": Convention(
        words=(
            "Megatron-LM: 6 + 12/(dp x cp) bytes a parameter, fused loss, flash attention; a rank of cp has 1/cp of the tokens; "
            "bytes allocated"
        ),
        rules="megatron",
    ),
    "torchtitan": Convention(
        words=(
            "FSDP2: 16 bytes a parameter, all shared, one block gathered ahead; loss step by step in fp32; recompute stops "
            "early; under pp weights stay gathered and gradients whole. The measured number is what the allocator reserved"
        ),
        states="fp32",
        cross_entropy="eager",
        early_stop=True,
        pipelined_fsdp=True,
    ),
    "internevo": Convention(
        words=(
            "bf16 weights and gradients, fp32 states, Adam as several kernels: 2 + 2 + 12 + 12 bytes a parameter during the "
            "update, which adds to what passes need; GB of 1e9 bytes. The measured number is what the driver shows"
        ),
        gradient_bytes=2,
        cross_entropy="eager",
        adds_update=True,
    ),
}
"""By set."""


class CheckedMemory(NamedTuple):
    """A measured row, what is counted for it in the same unit, and the error: counted over measured, less 1."""

    row: MeasuredRow
    counted: float
    error: float


def check_memory_rows(rows: Sequence[MeasuredRow] | None = None) -> tuple[CheckedMemory, ...]:
    """Count the memory of measured runs.

    Parameters
    ----------
    rows
        By default those that come with trnsim; rows that are skipped are left out.

    Examples
    --------
    >>> checked = check_memory_rows()
    >>> sum(abs(each.error) for each in checked) / len(checked) < 0.05
    True
    """
    chosen = read_measured(shipped("memory")) if rows is None else rows
    found = []
    for row in chosen:
        if not row.skipped:
            counted = _counted_bytes(row, CONVENTIONS[row.group]) / _BYTES[row.unit]
            found.append(CheckedMemory(row, counted, counted / row.value - 1))
    return tuple(found)


def _counted_bytes(row: MeasuredRow, convention: Convention) -> int:
    match row.metric:
        case "activation_memory":
            return _layers_activations(row, convention)
        case "params_optimizer_memory":
            layer = _layer(row, convention)
            states = STATES[convention.states]
            return (_due(row.layers) // row.pp) * layer.parameters * (sum(states) + convention.gradient_bytes)
        case _:
            return _peak(row, convention)


def _layers_activations(row: MeasuredRow, convention: Convention) -> int:
    """Return what the layers of the first stage keep for all passes in flight."""
    kind = schedule_kind("interleaved-1f1b" if row.vpp > 1 else "1f1b")
    held = kind.in_flight(0, _pipeline(row, convention))
    return held * _due(row.layers) // (row.pp * row.vpp) * _layer(row, convention).saved_bytes


def _peak(row: MeasuredRow, convention: Convention) -> int:
    """Return the peak of the worst stage."""
    pipeline = _pipeline(row, convention)
    kind = schedule_kind("interleaved-1f1b" if row.vpp > 1 else "1f1b")
    peaks = []
    for stage in range(pipeline.stages):
        rank = _rank(row, convention, pipeline.virtual_stages_of(stage))
        update = replace(rank, fused_update=not convention.adds_update).update_bytes
        peaks.append(rank.peak(kind.order(stage, pipeline)).total + update)
    return max(peaks)


def _rank(row: MeasuredRow, convention: Convention, places: Sequence[int]) -> RankMemory:
    model, shard, sharding = _model(row, convention), _shard(row, convention), _sharding(row, convention)
    split = split_layers(model.layers, row.pp * row.vpp)
    full = bucket_size(sharding, _BUCKET_PARAMETERS)
    passes = {}
    for place in places:
        lengths = [bucket.blocks for bucket in gradient_buckets(stage_blocks(model, shard, place, split), full)]
        passes[place] = pass_memory(
            model, shard, place, split, buckets=lengths, sharding=sharding, cross_entropy=convention.cross_entropy
        )
    kept_whole = sharding.zero < 3 and row.zero_fsdp.startswith("FSDP")
    return RankMemory(passes, sharding, STATES["master" if kept_whole else convention.states])


def _layer(row: MeasuredRow, convention: Convention) -> Block:
    """Return a layer on one rank."""
    model = _model(row, convention)
    return next(
        block for block in stage_blocks(model, _shard(row, convention), 0, (model.layers,)) if block.name == "layer"
    )


def _model(row: MeasuredRow, convention: Convention) -> Transformer:
    hidden, heads = _due(row.hidden), _due(row.heads)
    return Transformer(
        name=row.model,
        layers=_due(row.layers),
        hidden_size=hidden,
        attention_heads=heads,
        kv_heads=_due(row.kv_heads),
        head_dim=hidden // heads,
        ffn_size=_due(row.ffn),
        gated_mlp=convention.gated,
        vocabulary=_due(row.vocab),
        tied_embeddings=False,
        norm="rmsnorm" if convention.gated else "layernorm",
        dropout=convention.dropout,
    )


def _shard(row: MeasuredRow, convention: Convention) -> Shard:
    sequences = _due(row.micro_batch) // (row.pp if convention.pipelined_fsdp else 1)
    return Shard(
        micro_batch=sequences,
        sequence_length=_due(row.seq) // row.cp,
        tp=row.tp,
        sequence_parallel=row.seq_parallel,
        vocabulary=padded_vocabulary(_due(row.vocab), row.tp, convention.rules),
        recompute=row.recompute.partition(" ")[0],
        recompute_early_stop=convention.early_stop,
        attention=convention.attention,
    )


def _sharding(row: MeasuredRow, convention: Convention) -> Sharding:
    """Return what is shared over dp x cp; FSDP under pipeline parallelism shares as ZeRO-1 does until the update."""
    ranks = _due(row.dp) * row.cp
    is_fsdp = row.zero_fsdp.startswith("FSDP")
    whole = is_fsdp and convention.pipelined_fsdp and row.pp > 1
    return Sharding(
        zero=3 if is_fsdp and not whole else 1,
        ranks=ranks,
        group=ranks,
        overlap="prefetch",
        gradient_bytes=convention.gradient_bytes,
        reduce_bytes=convention.gradient_bytes,
    )


def _pipeline(row: MeasuredRow, convention: Convention) -> Pipeline:
    if convention.pipelined_fsdp:
        return Pipeline(row.pp, row.pp, row.vpp)
    microbatches = row.grad_accum or _due(row.global_batch) // (_due(row.micro_batch) * _due(row.dp))
    return Pipeline(row.pp, microbatches, row.vpp)


def _due(value: int | None) -> int:
    if value is None:
        raise ValueError("a row that is compared states its shape, its batch and its accelerators")
    return value
