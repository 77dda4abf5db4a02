"""Unfused attention, sliding windows, and operands in fp8: closed forms for one layer of a GPT."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from layers import GPT, LLAMA, A, B, H, S, layer_of, shard, works
from msgspec.structs import replace

from trnsim.workload import Exchange, flops_per_token

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trnsim.workload import Item, Transformer, Work

TP = st.sampled_from([1, 2, 4, 8])


def core(items: Iterable[Item]) -> Work:
    (work,) = (work for work in works(items) if work.name == "core_attention")
    return work


@pytest.mark.parametrize("tp", [1, 2, 4])
@pytest.mark.parametrize("split", [True, False])
def test_unfused_activations_are_those_of_korthikanti(tp: int, split: bool) -> None:
    # sbh (34 + 5 a s / h) / t with sequence parallelism; sbh (10 + 24/t + 5 a s / (h t)) without
    unfused = replace(shard(tp, sequence_parallel=split), attention="unfused")
    scores = 5 * A * S * S * B // tp
    linear = 34 * S * B * H // tp if split or tp == 1 else 10 * S * B * H + 24 * S * B * H // tp
    assert layer_of(GPT, unfused).saved_bytes == linear + scores


@pytest.mark.parametrize("tp", [1, 2, 4])
def test_selective_recompute_of_unfused_attention_drops_the_scores(tp: int) -> None:
    # 34 sbh/t is left, as in Korthikanti
    unfused = replace(shard(tp, recompute="selective"), attention="unfused")
    assert layer_of(GPT, unfused).saved_bytes == 34 * S * B * H // tp


def test_without_dropout_the_softmax_alone_is_kept() -> None:
    unfused = replace(shard(), attention="unfused")
    dry = replace(GPT, dropout=False)
    assert layer_of(dry, unfused).saved_bytes == 32 * S * B * H + 2 * A * S * S * B


@given(TP)
def test_unfused_and_flash_do_the_same_forward_flops(tp: int) -> None:
    # two matmuls over all scores; backward four against five
    flash, unfused = (layer_of(GPT, replace(shard(tp), attention=kind)) for kind in ("flash", "unfused"))
    assert core(flash.forward).flops == core(unfused.forward).flops == 4 * B * S * S * H // tp
    assert core(unfused.backward).flops == 2 * core(unfused.forward).flops
    assert 2 * core(flash.backward).flops == 5 * core(flash.forward).flops


def test_unfused_attention_passes_over_the_scores() -> None:
    # 4 bytes a score between the matmuls and 11 for softmax, mask and dropout; backward twice the former and again 11
    flash, unfused = (layer_of(GPT, replace(shard(), attention=kind)) for kind in ("flash", "unfused"))
    scores = A * S * S * B
    assert core(unfused.forward).bytes - core(flash.forward).bytes == (4 + 11) * scores
    assert core(unfused.backward).bytes - core(flash.backward).bytes == (8 + 11) * scores


@given(st.integers(1, 200), st.integers(1, 200))
def test_scores_of_a_window_are_the_pairs_that_the_mask_leaves(window: int, length: int) -> None:
    # counted one by one: token i attends to min(i + 1, w) tokens; twice that, less each token with itself
    model = replace(LLAMA, sliding_window=window)
    pairs = sum(min(token + 1, window) for token in range(length))
    assert model.scores(length) == 2 * pairs - min(window, length)


def test_a_window_shortens_attention_and_not_mfu() -> None:
    # flops scale with the scores that are left, everything else and the rule of MFU stay
    short = replace(LLAMA, sliding_window=16)
    whole, windowed = layer_of(LLAMA, shard()), layer_of(short, shard())
    ratio = 16 * (2 * S - 16) / S**2
    assert core(windowed.forward).flops == ratio * core(whole.forward).flops
    assert core(windowed.backward).flops == ratio * core(whole.backward).flops
    others = [[work for work in works(block.forward) if work.name != "core_attention"] for block in (whole, windowed)]
    assert others[0] == others[1]
    assert flops_per_token(short, S) == flops_per_token(LLAMA, S)


def test_a_window_as_long_as_the_sequence_is_none() -> None:
    assert layer_of(replace(LLAMA, sliding_window=S), shard()) == layer_of(LLAMA, shard())


def matmul_inputs(model: Transformer) -> int:
    """Elements that the four linear operators of a layer keep, of which flash attention keeps one in bf16 as well."""
    return B * S * (2 * model.hidden_size + model.attention_heads * model.head_dim + model.ffn_size)


def test_operands_in_fp8_are_kept_with_one_byte() -> None:
    # without dropout inputs of qkv, mlp_up and mlp_down halve; that of attention_output stays for flash and comes again
    for model in (replace(GPT, dropout=False), LLAMA):
        whole, narrow = layer_of(model, shard()), layer_of(model, replace(shard(), operands="fp8"))
        mixed = B * S * model.attention_heads * model.head_dim
        assert whole.saved_bytes - narrow.saved_bytes == matmul_inputs(model) - 2 * mixed


def test_mxfp8_adds_a_scale_to_32_elements() -> None:
    fp8, mxfp8 = (layer_of(LLAMA, replace(shard(), operands=kind)) for kind in ("fp8", "mxfp8"))
    assert mxfp8.saved_bytes - fp8.saved_bytes == matmul_inputs(LLAMA) / 32


@pytest.mark.parametrize("tp", [2, 4])
def test_gathers_carry_operands_and_sums_carry_bf16(tp: int) -> None:
    # forward: the input of a column-parallel operator; backward: the gradient of a row-parallel result
    whole, narrow = layer_of(LLAMA, shard(tp)), layer_of(LLAMA, replace(shard(tp), operands="fp8"))
    for items, narrow_items in ((whole.forward, narrow.forward), (whole.backward, narrow.backward)):
        pairs = zip(items, narrow_items, strict=True)
        exchanges = [(a, b) for a, b in pairs if isinstance(a, Exchange) and isinstance(b, Exchange)]
        assert {a.op: a.bytes / b.bytes for a, b in exchanges} == {"all-gather": 2.0, "reduce-scatter": 1.0}


def test_flops_and_parameters_do_not_know_of_fp8() -> None:
    whole, narrow = layer_of(GPT, shard()), layer_of(GPT, replace(shard(), operands="fp8"))
    assert whole.parameters == narrow.parameters
    assert [work.flops for work in works(whole.backward)] == [work.flops for work in works(narrow.backward)]
    assert all(b.bytes <= a.bytes for a, b in zip(works(whole.forward), works(narrow.forward), strict=True))
