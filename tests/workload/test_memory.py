"""Memory of one rank by term."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from trnsim.parallel import Sharding
from trnsim.schedules import Pass, Pipeline, schedule_kind
from trnsim.workload import (
    STATES,
    MemoryTerms,
    RankMemory,
    Shard,
    Transformer,
    load_model,
    pass_memory,
    stage_blocks,
    stage_parameters,
)

MODEL = load_model("llama3-8b")
SPLIT = (16, 16)
SHARD = Shard(1, 8192, tp=4, sequence_parallel=True, vocabulary=128256)
ALONE = Sharding(0, ranks=1, group=1)


def rank(
    place: int = 0,
    *,
    part: Shard = SHARD,
    model: Transformer = MODEL,
    split: tuple[int, ...] = SPLIT,
    sharding: Sharding = ALONE,
    states: str = "master",
) -> RankMemory:
    """Return a rank with one virtual stage; a bucket for each block under ZeRO-3, else one for all."""
    blocks = len(stage_blocks(model, part, place, split))
    buckets = [1] * blocks if sharding.zero == 3 else [blocks]
    passes = pass_memory(model, part, place, split, buckets=buckets, sharding=sharding)
    return RankMemory({place: passes}, sharding, STATES[states])


def in_flight(found: RankMemory, microbatches: int) -> MemoryTerms:
    """Return the peak with so many microbatches in flight: all forward, then all backward."""
    (place,) = found.passes
    return found.peak([Pass(kind, number, place) for kind in ("F", "B") for number in range(microbatches)])


@given(st.integers(1, 100_000))
def test_bytes_per_parameter(shards: int) -> None:
    # The named conventions: 18 bytes a parameter, and 6 + 12/dp with ZeRO-1; a share is rounded up to whole parameters.
    parameters = stage_parameters(MODEL, 4, 0, SPLIT, 128256)
    assert rank().at_rest.states == 18 * parameters
    memory = rank(sharding=Sharding(1, ranks=shards, group=shards)).at_rest
    assert (memory.weights, memory.gradients) == (2 * parameters, 4 * parameters)
    assert 0 <= memory.optimizer * shards - 12 * parameters < 12 * shards


@pytest.mark.parametrize(
    ("states", "gradient_bytes", "due"), [("master", 2, 16), ("fp32", 4, 16), ("bf16", 4, 10), ("bf16", 2, 8)]
)
def test_named_conventions(states: str, gradient_bytes: int, due: int) -> None:
    sharding = replace(ALONE, gradient_bytes=gradient_bytes)
    parameters = stage_parameters(MODEL, 4, 0, SPLIT, 128256)
    assert rank(states=states, sharding=sharding).at_rest.states == due * parameters


@given(st.integers(0, 3), st.sampled_from([2, 3, 8, 64]))
def test_each_step_of_zero_shares_one_term_more(zero: int, ranks: int) -> None:
    alone, shared = rank().at_rest, rank(sharding=Sharding(zero, ranks=ranks, group=ranks)).at_rest
    for least, term in ((3, "weights"), (2, "gradients"), (1, "optimizer")):
        parts = ranks if zero >= least else 1
        assert getattr(shared, term) == pytest.approx(getattr(alone, term) / parts, abs=12)


def test_activations_are_what_is_kept_times_what_is_in_flight() -> None:
    # Linear in the microbatches in flight; each keeps what the blocks of the stage keep.
    kept = sum(block.saved_bytes for block in stage_blocks(MODEL, SHARD, 0, SPLIT))
    assert [in_flight(rank(), m).activations for m in (1, 7)] == [kept, 7 * kept]
    assert rank().peak([]).activations == 0


def test_the_order_of_passes_decides_what_is_in_flight() -> None:
    # F F B F B B holds two, F B F B F B one.
    orders = ("FFBFBB", "FBFBFB")
    two, one = (rank().peak([Pass(kind, 0, 0) for kind in order]).activations for order in orders)  # type: ignore[arg-type]
    assert two == 2 * one


def test_virtual_stages_keep_their_own() -> None:
    # Two virtual stages on one rank: one microbatch in flight in the first and two in the second.
    passes = {place: rank(place).passes[place] for place in (0, 1)}
    both = RankMemory(passes, ALONE)
    turns = [Pass("F", 0, 0), Pass("F", 0, 1), Pass("F", 1, 1), Pass("B", 0, 1)]
    assert both.peak(turns).activations == passes[0].saved + 2 * passes[1].saved
    assert both.at_rest.weights == rank(0).at_rest.weights + rank(1).at_rest.weights


def test_gathered_weights_are_those_at_work_and_ahead() -> None:
    # ZeRO-3, 16 layers and the embedding: the largest run of 1 + prefetch blocks, in bf16; and the whole fp32 gradients of
    # the block at work and the one before. The embedding is the largest block: it meets the first layers backward.
    layer, embedding = (stage_blocks(MODEL, SHARD, 0, SPLIT)[number].parameters for number in (1, 0))
    shared = Sharding(3, ranks=8, group=8, overlap="prefetch", prefetch=2)
    moments = rank(sharding=shared).passes[0]
    assert moments.forward[0][0].communication == 2 * (embedding + 2 * layer)
    assert moments.forward[5][0].communication == 2 * 3 * layer
    assert moments.backward[5][0].communication == 2 * 3 * layer + 4 * 2 * layer
    assert moments.backward[-1][0].communication == 2 * embedding + 4 * (embedding + layer)
    kept = rank(sharding=replace(shared, reshard_after_forward=False))
    assert kept.at_rest.communication == 2 * (16 * layer + embedding)
    assert kept.passes[0].forward[5][0].communication == 0


def test_buffers_of_a_backward_pass_through_a_layer() -> None:
    # One gathered input, what recompute brings back (all that a layer keeps but its input), the gradients of the
    # activation (its input is gate and up, its output one of that width), and the bf16 gradient of the largest weight.
    layer = stage_blocks(MODEL, SHARD, 0, SPLIT)[1].saved_bytes
    gathered, brought_back = 2 * 8192 * 4096, layer - 2 * 8192 * 4096 // 4
    gradients, weight = 2 * 8192 * 3 * 14336 // 4, 2 * 4096 * 2 * 14336 // 4
    full = replace(SHARD, recompute="full")
    assert in_flight(rank(part=full), 4).buffers == gathered + brought_back + gradients + weight
    assert in_flight(rank(), 4).buffers == gathered + gradients + weight
    shared = Sharding(2, ranks=8, group=8)
    assert in_flight(rank(sharding=shared), 4).buffers == gathered + gradients


def test_buffers_of_the_loss() -> None:
    # Beside the 4 bytes a logit that are kept: the bf16 logits; or, step by step in fp32, 6 bytes forward and 10 backward,
    # where tensor-parallel ranks have a part of the vocabulary each 10 and 14.
    logits, gathered, weight = 8192 * 128256 // 4, 2 * 8192 * 4096, 2 * 4096 * 128256 // 4
    fused, eager = (
        pass_memory(MODEL, SHARD, 1, SPLIT, buckets=[17], sharding=ALONE, cross_entropy=kind)
        for kind in ("fused", "eager")
    )
    assert (fused.forward[0][-1].buffers, fused.backward[0][0].buffers) == (
        2 * logits + gathered,
        2 * logits + gathered + weight,
    )
    assert (eager.forward[0][-1].buffers, eager.backward[0][0].buffers) == (
        10 * logits + gathered,
        14 * logits + gathered + weight,
    )
    whole = replace(SHARD, tp=1, sequence_parallel=False)
    alone = pass_memory(MODEL, whole, 1, SPLIT, buckets=[17], sharding=ALONE, cross_entropy="eager")
    assert (alone.forward[0][-1].buffers, alone.backward[0][0].buffers) == (
        6 * 4 * logits,
        10 * 4 * logits + 4 * weight,
    )


def test_recompute_trades_memory_in_order() -> None:
    # none >= selective >= full, with many microbatches in flight.
    totals = [in_flight(rank(part=replace(SHARD, recompute=r)), 8).total for r in ("none", "selective", "full")]
    assert totals == sorted(totals, reverse=True)
    assert len(set(totals)) == 3


def test_total_is_the_sum_of_the_terms() -> None:
    memory = in_flight(rank(1), 2)
    assert memory.total == sum(getattr(memory, term) for term in memory.__struct_fields__)


def test_parameters_of_a_million_chip_rank_take_18_bytes_less_the_sharing() -> None:
    # The 1T GPT on tp 16, pp 9, dp 6,945: 14 layers of (12 h^2 + 7 h)/16 + 6 h copied (norms, row-parallel biases).
    model, h = load_model("gpt-1t"), 25600
    part = Shard(1, 8192, tp=16, sequence_parallel=True, vocabulary=51200, recompute="selective")
    parameters = 14 * ((12 * h * h + 7 * h) // 16 + 6 * h)
    sharding = Sharding(1, ranks=6945, group=6945)
    memory = in_flight(rank(4, part=part, model=model, split=(14,) * 9, sharding=sharding), 5)
    assert memory.weights + memory.gradients == 6 * parameters
    assert memory.optimizer == 12 * -(-parameters // 6945)
    assert memory.activations == 5 * 14 * 34 * 8192 * h // 16


@pytest.mark.parametrize("sequence_parallel", [False, True])
@pytest.mark.parametrize("attention", ["flash", "unfused"])
def test_activations_of_a_gpt_layer_are_those_of_the_paper(sequence_parallel: bool, attention: str) -> None:
    # Korthikanti et al. 2022: sbh (10 + 24/t), with sequence parallelism 34 sbh/t; and 5 a s^2 b/t with unfused attention.
    # Fused attention keeps 4 bytes a head and token in its place. In flight on stage s of p: p - s microbatches.
    model, s, b, t = load_model("gpt3-175b"), 2048, 2, 8
    model = replace(model, dropout=True)
    h, a, split = model.hidden_size, model.attention_heads, (24,) * 4
    part = Shard(b, s, tp=t, sequence_parallel=sequence_parallel, vocabulary=51200, attention=attention)
    layer = 34 * s * b * h // t if sequence_parallel else s * b * h * (10 + 24 // t)
    layer += 5 * a * s * s * b // t if attention == "unfused" else 4 * a * s * b // t
    found = rank(1, part=part, model=model, split=split)
    assert found.peak(schedule_kind("1f1b").order(1, Pipeline(4, 16))).activations == 3 * 24 * layer
