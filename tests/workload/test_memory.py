"""Memory of one rank by term."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.workload import MemoryTerms, Shard, load_model, memory_terms, stage_blocks, stage_parameters

MODEL = load_model("llama3-8b")
SPLIT = (16, 16)
SHARD = Shard(1, 8192, tp=4, sequence_parallel=True, vocabulary=128256)


def terms(
    stage: int = 0, *, part: Shard = SHARD, in_flight: int = 1, optimizer_shards: int = 1, **options: Any
) -> MemoryTerms:
    return memory_terms(MODEL, part, {stage: in_flight}, SPLIT, optimizer_shards=optimizer_shards, **options)


@given(st.integers(1, 100_000))
def test_bytes_per_parameter(shards: int) -> None:
    # 2 weights + 4 gradients + 12/dp optimizer with ZeRO-1; a shard is rounded up to whole parameters.
    parameters = stage_parameters(MODEL, 4, 0, SPLIT, 128256)
    memory = terms(optimizer_shards=shards)
    assert (memory.weights, memory.gradients) == (2 * parameters, 4 * parameters)
    assert 0 <= memory.optimizer * shards - 12 * parameters < 12 * shards


def test_gradients_in_bf16_take_half() -> None:
    assert 2 * terms(gradient_dtype="bf16").gradients == terms().gradients


def test_activations_are_what_is_kept_times_what_is_in_flight() -> None:
    # Linear in the microbatches in flight; each keeps what the blocks of the stage keep.
    kept = sum(block.saved_bytes for block in stage_blocks(MODEL, SHARD, 0, SPLIT))
    assert [terms(in_flight=m).activations for m in (0, 1, 7)] == [0, kept, 7 * kept]


def test_the_last_stage_buffers_logits() -> None:
    # bf16 logits of one microbatch, n V/t, and one gathered input of 2 n h; the fp32 softmax is among the activations.
    gathered = 2 * 8192 * 4096
    assert terms(0).buffers == gathered
    assert terms(1).buffers == gathered + 2 * 8192 * 128256 // 4


def test_recompute_brings_one_layer_back() -> None:
    # Full: what a layer keeps without recompute, less its input. It is not alive together with the logits.
    layer = stage_blocks(MODEL, SHARD, 0, SPLIT)[1].saved_bytes
    full = replace(SHARD, recompute="full")
    gathered, brought_back = 2 * 8192 * 4096, layer - 2 * 8192 * 4096 // 4
    assert terms(0, part=full).buffers == gathered + brought_back
    assert terms(1, part=full).buffers == gathered + max(brought_back, 2 * 8192 * 128256 // 4)


def test_nothing_is_gathered_without_sequence_parallelism() -> None:
    assert terms(0, part=replace(SHARD, sequence_parallel=False)).buffers == 0


def test_recompute_trades_memory_in_order() -> None:
    # none >= selective >= full, with many microbatches in flight.
    totals = [terms(part=replace(SHARD, recompute=r), in_flight=8).total for r in ("none", "selective", "full")]
    assert totals == sorted(totals, reverse=True)
    assert len(set(totals)) == 3


def test_total_is_the_sum_of_the_terms() -> None:
    memory = terms(1, in_flight=2)
    parts = (memory.weights, memory.gradients, memory.optimizer, memory.activations, memory.buffers)
    assert memory.total == sum(parts)


def test_parameters_of_a_million_chip_rank_take_18_bytes_less_the_sharing() -> None:
    # The 1T GPT on tp 16, pp 9, dp 6,945: 14 layers of (12 h^2 + 7 h)/16 + 6 h copied (norms, row-parallel biases).
    model, h, split = load_model("gpt-1t"), 25600, (14,) * 9
    part = Shard(1, 8192, tp=16, sequence_parallel=True, vocabulary=51200, recompute="selective")
    parameters = 14 * ((12 * h * h + 7 * h) // 16 + 6 * h)
    memory = memory_terms(model, part, {4: 5}, split, optimizer_shards=6945)
    assert memory.weights + memory.gradients == 6 * parameters
    assert memory.optimizer == 12 * -(-parameters // 6945)
    assert memory.activations == 5 * 14 * 34 * 8192 * h // 16


@pytest.mark.parametrize("wrong", [{"in_flight": -1}, {"optimizer_shards": 0}, {"gradient_dtype": "fp8"}])
def test_impossible_arguments_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="cannot be"):
        terms(**wrong)


def test_a_rank_with_several_virtual_stages_holds_all_of_them() -> None:
    # Terms add up over what a rank holds, each virtual stage with its own passes in flight; only one needs buffers at a time.
    together = memory_terms(MODEL, SHARD, {0: 3, 1: 2}, SPLIT, optimizer_shards=1)
    first, last = terms(0, in_flight=3), terms(1, in_flight=2)
    for term in ("weights", "gradients", "optimizer", "activations"):
        assert getattr(together, term) == getattr(first, term) + getattr(last, term)
    assert together.buffers == max(first.buffers, last.buffers)
