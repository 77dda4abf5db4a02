"""The blocks of a stage: closed forms for one layer, laws for whole models."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from layers import GPT, LLAMA, A, B, H, S, layer_of, shard, works
from msgspec.structs import replace

from trnsim.workload import (
    EMBEDDING_OPERATORS,
    HEAD_OPERATORS,
    LAYER_OPERATORS,
    LINEAR_OPERATORS,
    Block,
    Exchange,
    Mixture,
    Shard,
    Transformer,
    Work,
    kv_replication,
    load_model,
    padded_vocabulary,
    stage_blocks,
    stage_parameters,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trnsim.workload import Item


def exchanges(items: Iterable[Item]) -> list[Exchange]:
    return [item for item in items if isinstance(item, Exchange)]


def flops(blocks: Iterable[Block], which: str = "forward") -> int:
    return sum(work.flops for block in blocks for work in works(getattr(block, which)))


def splits(layers: int) -> list[tuple[int, ...]]:
    """Every split into up to three stages."""
    three = product(range(1, layers + 1), repeat=3)
    return [
        (layers,),
        *((first, layers - first) for first in range(1, layers)),
        *(split for split in three if sum(split) == layers),
    ]


@st.composite
def models(draw: st.DrawFn) -> Transformer:
    kv_heads, per_kv = draw(st.sampled_from([1, 2, 4])), draw(st.sampled_from([1, 2, 4]))
    return Transformer(
        "any",
        layers=draw(st.integers(1, 5)),
        hidden_size=8 * draw(st.integers(1, 6)),
        attention_heads=8 * kv_heads * per_kv,
        kv_heads=kv_heads,
        head_dim=draw(st.integers(1, 9)),
        ffn_size=8 * draw(st.integers(1, 9)),
        gated_mlp=draw(st.booleans()),
        vocabulary=draw(st.integers(1, 300)),
        tied_embeddings=draw(st.booleans()),
        parallel_block=draw(st.booleans()),
        norm=draw(st.sampled_from(["rmsnorm", "layernorm"])),
        qkv_bias=draw(st.booleans()),
        attention_output_bias=draw(st.booleans()),
        mlp_bias=draw(st.booleans()),
        learned_positions=draw(st.integers(0, 20)),
        qk_norm=draw(st.booleans()),
        dropout=draw(st.booleans()),
    )


DEGREES = st.sampled_from([1, 2, 4, 8])


# --- parameters -------------------------------------------------------------------------------------------------------


@given(models(), DEGREES, st.data())
def test_ranks_and_stages_hold_the_model_and_its_copies(model: Transformer, tp: int, data: st.DataObject) -> None:
    # Sum over stages and ranks = model + (tp - 1) x what every rank copies (norms, row-parallel biases, norms of heads,
    # positions) + (r - 1) x key and value heads + padding of each table + a second tied table when pp > 1.
    split = data.draw(st.sampled_from(splits(model.layers)))
    padded = padded_vocabulary(model.vocabulary, tp, "megatron")
    held = sum(tp * stage_parameters(model, tp, stage, split, padded) for stage in range(len(split)))
    h, norm = model.hidden_size, model.hidden_size * (2 if model.norm == "layernorm" else 1)
    row_biases = h * (model.attention_output_bias + model.mlp_bias)
    copied = model.layers * (
        (1 if model.parallel_block else 2) * norm + row_biases + 2 * model.head_dim * model.qk_norm
    )
    copied += norm + h * model.learned_positions
    kv = model.layers * 2 * model.kv_heads * model.head_dim * (h + model.qkv_bias)
    second_table = model.tied_embeddings and len(split) > 1
    tables = 1 if model.tied_embeddings and not second_table else 2
    extra = (padded - model.vocabulary) * h * tables + (model.vocabulary * h if second_table else 0)
    assert held == model.parameters + (tp - 1) * copied + (kv_replication(model.kv_heads, tp) - 1) * kv + extra


def test_one_rank_without_padding_holds_the_model_exactly() -> None:
    # tp = pp = 1: nothing is copied.
    for name in ("llama3.1-405b", "gpt3-175b"):
        model = load_model(name)
        assert stage_parameters(model, 1, 0, (model.layers,), model.vocabulary) == model.parameters


def test_the_nxd_split_of_405b() -> None:
    # 126 layers on 32 stages, 8 key and value heads on tp 32 (4 copies): per rank and layer q, output 2 h^2/32, k and v
    # 2 h d x 1 head, MLP 3 h f/32 and two whole norms.
    model, h, f = load_model("llama3.1-405b"), 16384, 53248
    layer = 2 * h * h // 32 + 2 * h * 128 + 3 * h * f // 32 + 2 * h
    split = (3, 3, *(4,) * 30)
    held = [stage_parameters(model, 32, stage, split, 128256) for stage in range(32)]
    table = 128256 * h // 32
    assert held == [3 * layer + table, 3 * layer, *[4 * layer] * 29, 4 * layer + table + h]


# --- FLOPs ------------------------------------------------------------------------------------------------------------


@given(models(), DEGREES, st.booleans(), st.data())
def test_forward_flops_are_those_of_matmuls_and_attention(
    model: Transformer, tp: int, sequence_parallel: bool, data: st.DataObject
) -> None:
    # Over all stages and ranks: 2 N per token with copied key and value heads and padding in N, plus 4 s a d per token
    # and layer. Backward twice the matmuls and 2.5 times attention.
    split = data.draw(st.sampled_from(splits(model.layers)))
    padded = padded_vocabulary(model.vocabulary, tp, "nxd")
    part = Shard(2, 16, tp, sequence_parallel, padded)
    blocks = [block for stage in range(len(split)) for block in stage_blocks(model, part, stage, split)]
    copies = kv_replication(model.kv_heads, tp) - 1
    matmul = model.matmul_parameters + model.hidden_size * (padded - model.vocabulary)
    matmul += copies * model.layers * 2 * model.kv_heads * model.head_dim * model.hidden_size
    attention = 4 * 16 * model.attention_heads * model.head_dim * model.layers
    assert tp * flops(blocks) == 32 * (2 * matmul + attention)
    assert 2 * tp * flops(blocks, "backward") == 32 * (2 * 4 * matmul + 5 * attention)


@given(models(), DEGREES)
def test_tensor_parallelism_splits_flops_exactly(model: Transformer, tp: int) -> None:
    # A layer on one of tp ranks does 1/tp of the work, once copies of key and value heads are set aside.
    model = replace(model, kv_heads=model.attention_heads)
    alone, together = layer_of(model, Shard(1, 16, 1, False, 2400)), layer_of(model, Shard(1, 16, tp, True, 2400))
    for which in ("forward", "backward"):
        assert flops([alone], which) == tp * flops([together], which)


def test_a_layer_of_each_kind_by_hand() -> None:
    # 2 M N K: qkv 2 n h (a + 2 k) d, output 2 n a d h, MLP 2 n h f x 2 (or 3), attention 4 s^2 a d b; all over tp.
    n = B * S
    for model, mlp in ((GPT, 4 * n * H * 4 * H), (LLAMA, 6 * n * H * 160)):
        a, k, d = model.attention_heads, model.kv_heads, model.head_dim
        projections = 2 * n * H * (a + 2 * k) * d + 2 * n * a * d * H
        assert 2 * flops([layer_of(model, shard(2))]) == projections + 4 * S * S * a * d * B + mlp


def test_only_linear_operators_and_core_attention_have_flops() -> None:
    blocks = stage_blocks(LLAMA, shard(2), 0, (4,))
    with_flops = {work.name for block in blocks for work in works((*block.forward, *block.backward)) if work.flops}
    assert with_flops == LINEAR_OPERATORS | {"core_attention"}


# --- bytes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("tp", "sequence_parallel"), [(1, False), (4, False), (4, True)])
def test_bytes_of_a_gpt_layer(tp: int, sequence_parallel: bool) -> None:
    # GEMMs 2 (M K + K N + M N). Beside them, with sp = t under sequence parallelism and else 1:
    #   forward  n h (2 x 4 norms + 2 x 7 dropout and residual)/sp + 4 n f/t + 12 n h/t + 8 n h/t flash
    #   backward n h (16 + 14)/sp + 8 n f/t + 12 n h/t + 4 n h + 16 n h/t flash, GEMMs twice
    n, f, sp = B * S, 4 * H, tp if sequence_parallel else 1
    shapes = [(H, 3 * H // tp), (H // tp, H), (H, f // tp), (f // tp, H)]
    gemms = sum(2 * (n * rows + rows * columns + n * columns) for rows, columns in shapes)
    layer = layer_of(GPT, shard(tp, sequence_parallel=sequence_parallel))
    moved = [sum(work.bytes for work in works(items)) for items in (layer.forward, layer.backward)]
    assert moved[0] == gemms + n * H * 22 // sp + (4 * n * f + 20 * n * H) // tp
    assert moved[1] == 2 * gemms + n * H * 30 // sp + (8 * n * f + 28 * n * H) // tp + 4 * n * H


def test_bytes_of_a_gated_activation() -> None:
    # Two inputs and one output of width f: 2 x 3 n f/t forward, with both gradients 2 x 5 n f/t backward.
    layer = layer_of(LLAMA, shard(2))
    forward, backward = (
        next(work for work in works(items) if work.name == "activation") for items in (layer.forward, layer.backward)
    )
    assert (forward.bytes, backward.bytes) == (6 * B * S * 80, 10 * B * S * 80)


def test_bytes_of_a_query_and_key_norm() -> None:
    # As any norm: 4 bytes per element of queries and keys forward, 8 backward.
    plain, normed = (layer_of(replace(LLAMA, qk_norm=has), shard(2)) for has in (False, True))
    elements = B * S * (A + 2) * 16 // 2
    for which, per_element in (("forward", 4), ("backward", 8)):
        extra = [sum(work.bytes for work in works(getattr(layer, which))) for layer in (normed, plain)]
        assert extra[0] - extra[1] == per_element * elements


def test_bytes_of_embedding_and_loss() -> None:
    # 8 n h and 12 n h for the look-up, 16 n V/t and 10 n V/t for the loss.
    first, *_, last = stage_blocks(GPT, shard(4), 0, (4,))
    assert [work.bytes for work in works((*first.forward, *first.backward))] == [8 * B * S * H, 12 * B * S * H]
    assert last.forward[-1] == Work("loss", 0, 16 * B * S * 250)
    assert last.backward[0] == Work("loss", 0, 10 * B * S * 250)


# --- order and exchanges ----------------------------------------------------------------------------------------------


def test_operators_come_in_the_order_of_the_model() -> None:
    blocks = stage_blocks(LLAMA, shard(2), 0, (4,))
    assert [block.name for block in blocks] == ["embedding", *["layer"] * 4, "head"]
    for block, names in zip(
        blocks[::5] + blocks[1:2], (EMBEDDING_OPERATORS, HEAD_OPERATORS, LAYER_OPERATORS), strict=True
    ):
        assert [work.name for work in works(block.forward)] == list(names)
        assert [work.name for work in works(block.backward)] == list(reversed(names))


def test_embedding_is_first_and_head_last_of_the_whole_pipeline() -> None:
    names = [[block.name for block in stage_blocks(LLAMA, shard(2), stage, (1, 2, 1))] for stage in range(3)]
    assert names == [["embedding", "layer"], ["layer", "layer"], ["layer", "head"]]


def test_a_rank_alone_exchanges_nothing() -> None:
    for sequence_parallel in (True, False):
        for block in stage_blocks(GPT, shard(1, sequence_parallel=sequence_parallel), 0, (4,)):
            assert not exchanges((*block.forward, *block.recompute, *block.backward))


def test_exchanges_with_sequence_parallelism() -> None:
    # Each column-parallel matmul gathers, each row-parallel one scatters; backward mirrors. Buffer: 2 b s h.
    whole = 2 * B * S * H
    embedding, layer, *_, head = stage_blocks(LLAMA, shard(4), 0, (4,))
    gather, scatter = "all-gather", "reduce-scatter"
    assert exchanges(layer.forward) == [
        Exchange("qkv input", gather, whole),
        Exchange("attention_output sum", scatter, whole),
        Exchange("mlp_up input", gather, whole),
        Exchange("mlp_down sum", scatter, whole),
    ]
    assert exchanges(layer.backward) == [
        Exchange("mlp_down gradient", gather, whole),
        Exchange("mlp_up input gradient", scatter, whole),
        Exchange("attention_output gradient", gather, whole),
        Exchange("qkv input gradient", scatter, whole),
    ]
    ends = [*embedding.forward, *embedding.backward, *head.forward, *head.backward]
    assert [exchange.op for exchange in exchanges(ends)] == [scatter, gather, gather, scatter]


@pytest.mark.parametrize(
    ("sequence_parallel", "forward"), [(True, ["all-gather", "reduce-scatter"]), (False, ["all-reduce"])]
)
def test_a_parallel_block_exchanges_half_as_often(sequence_parallel: bool, forward: list[str]) -> None:
    # one gather in front of attention and MLP and one sum behind both; the matrices are the same
    one_by_one, parallel = (
        layer_of(replace(LLAMA, parallel_block=is_parallel), shard(2, sequence_parallel=sequence_parallel))
        for is_parallel in (False, True)
    )
    assert [exchange.op for exchange in exchanges(parallel.forward)] == forward
    assert sorted(exchange.op for exchange in exchanges(parallel.backward)) == forward
    assert len(exchanges(one_by_one.forward)) == 2 * len(forward)
    both = (one_by_one, parallel)
    assert len({sum(w.flops for w in block.forward if not isinstance(w, Exchange)) for block in both}) == 1
    assert one_by_one.parameters - parallel.parameters == LLAMA.norm_parameters


def test_exchanges_without_sequence_parallelism() -> None:
    # Two all-reduces forward and two backward; one behind the look-up, one for the gradient of the head's input.
    embedding, layer, *_, head = stage_blocks(LLAMA, shard(4, sequence_parallel=False), 0, (4,))
    for items, names in (
        (layer.forward, ["attention_output sum", "mlp_down sum"]),
        (layer.backward, ["mlp_up input gradient", "qkv input gradient"]),
        ((*embedding.forward, *embedding.backward), ["embedding sum"]),
        ((*head.forward, *head.backward), ["output_projection input gradient"]),
    ):
        assert exchanges(items) == [Exchange(name, "all-reduce", 2 * B * S * H) for name in names]


def test_exchanges_stand_where_data_is_needed() -> None:
    # A gather directly before its matmul, a sum directly after.
    layer = layer_of(LLAMA, shard(4))
    names = [item.name for item in layer.forward]
    for operator in ("qkv", "mlp_up"):
        assert names.index(f"{operator} input") == names.index(operator) - 1
    for operator in ("attention_output", "mlp_down"):
        assert names.index(f"{operator} sum") == names.index(operator) + 1


# --- recompute --------------------------------------------------------------------------------------------------------


@given(models(), DEGREES, st.booleans())
def test_full_recompute_is_the_forward_pass_again(model: Transformer, tp: int, sequence_parallel: bool) -> None:
    # Its exchanges included. Embedding and head do not run again.
    part = Shard(1, 16, tp, sequence_parallel, 2400, "full")
    for block in stage_blocks(model, part, 0, (model.layers,)):
        assert block.recompute == (block.forward if block.name == "layer" else ())


@given(st.sets(st.sampled_from(LAYER_OPERATORS)))
def test_recompute_repeats_the_named_operators_and_changes_no_other_pass(names: set[str]) -> None:
    layer, plain = (layer_of(LLAMA, shard(4, recompute=which)) for which in (frozenset(names), "none"))
    assert [work.name for work in works(layer.recompute)] == [name for name in LAYER_OPERATORS if name in names]
    assert set(layer.recompute) <= set(layer.forward)
    assert (layer.forward, layer.backward) == (plain.forward, plain.backward)


def test_selective_recompute_is_core_attention() -> None:
    layer = layer_of(LLAMA, shard(4, recompute="selective"))
    assert layer.recompute == tuple(item for item in layer.forward if item.name == "core_attention")


# --- what is kept -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tp", [1, 2, 4])
def test_a_gpt_layer_keeps_what_korthikanti_says(tp: int) -> None:
    # arXiv:2205.05198, equations 1, 2, 4: sbh (10 + 24/t) without and 34 sbh/t with sequence parallelism, once
    # 5 a s^2 b/t is replaced by the 4 a s b/t of fused attention; selective drops that, full keeps 2 sbh or 2 sbh/t.
    sbh, log_sum_exp = S * B * H, 4 * A * S * B // tp
    kept = {
        (recompute, split): layer_of(GPT, shard(tp, sequence_parallel=split, recompute=recompute)).saved_bytes
        for recompute in ("none", "selective", "full")
        for split in (False, True)
    }
    without, with_sequence_parallelism = 10 * sbh + 24 * sbh // tp, 34 * sbh // tp
    assert kept["none", False] == without + log_sum_exp
    assert kept["none", True] == with_sequence_parallelism + log_sum_exp
    assert kept["selective", False] == without
    assert kept["selective", True] == with_sequence_parallelism
    assert (kept["full", False], kept["full", True]) == (2 * sbh, 2 * sbh // tp)


def test_without_dropout_two_masks_go() -> None:
    # One byte per element, behind attention and behind the MLP.
    plain = layer_of(replace(GPT, dropout=False), shard(2, recompute="selective"))
    assert plain.saved_bytes == 32 * S * B * H // 2


@pytest.mark.parametrize("tp", [1, 2, 4])
def test_a_llama_layer_keeps_its_closed_form(tp: int) -> None:
    # sb [8 h/sp + (4 a d + 4 k d r + 6 f + 4 a)/t]: stream and normed stream twice; q, k, v and the result of
    # attention; gate, up and their product; the log-sum-exp.
    a, d, f, kv = A, 16, 160, 2 * kv_replication(2, tp)
    per_token = (8 * H + 4 * a * d + 4 * kv * d + 6 * f + 4 * a) // tp
    assert layer_of(LLAMA, shard(tp)).saved_bytes == S * B * per_token


def test_a_query_and_key_norm_keeps_its_input() -> None:
    # 2 bytes for each element of the queries and keys of the rank.
    extra = layer_of(replace(LLAMA, qk_norm=True), shard(2)).saved_bytes - layer_of(LLAMA, shard(2)).saved_bytes
    assert extra == 2 * S * B * (A + 2) * 16 // 2


def test_recomputing_the_mlp_leaves_its_input() -> None:
    # Gate, up and their product go: 6 f per token.
    mlp = frozenset({"mlp_up", "activation", "mlp_down"})
    freed = layer_of(LLAMA, shard(2)).saved_bytes - layer_of(LLAMA, shard(2, recompute=mlp)).saved_bytes
    assert freed == 6 * 160 * S * B // 2


def test_recomputing_a_norm_alone_frees_nothing() -> None:
    # Its result is the input of the matmul behind it, which keeps that.
    norms = frozenset({"input_norm", "post_attention_norm"})
    assert layer_of(LLAMA, shard(2, recompute=norms)).saved_bytes == layer_of(LLAMA, shard(2)).saved_bytes


def test_the_ends_keep_a_mask_and_the_softmax() -> None:
    # arXiv:2205.05198, section 4.3: sbh/t behind the embedding; 4 sbh/t for final norm and projection, 4 sbv/t in fp32.
    first, *_, last = stage_blocks(GPT, shard(4), 0, (4,))
    assert first.saved_bytes == S * B * H // 4
    assert last.saved_bytes == (4 * S * B * H + 4 * S * B * 1000) // 4


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "part", "message"),
    [
        (LLAMA, shard(16), "8 attention heads cannot be split 16 ways"),
        (replace(LLAMA, ffn_size=10), shard(4), "10 columns of the MLP cannot be split 4 ways"),
        (LLAMA, replace(shard(4), vocabulary=1001), "1001 padded vocabulary entries cannot be split 4 ways"),
        (LLAMA, replace(shard(4), vocabulary=996), "1000 does not fit in 996"),
        (LLAMA, replace(shard(4), sequence_length=66), "66 tokens of a sequence cannot be split 4 ways"),
        (replace(LLAMA, mixture=Mixture(4, 2, 16)), shard(1), "llama is a mixture of 4 experts"),
        (LLAMA, shard(1, recompute="some"), "recompute is none, selective, full"),
    ],
)
def test_what_cannot_be_cut_is_refused_with_the_arithmetic(model: Transformer, part: Shard, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        stage_blocks(model, part, 0, (4,))


def test_without_sequence_parallelism_any_sequence_goes() -> None:
    part = replace(shard(4, sequence_parallel=False), sequence_length=66)
    assert layer_of(LLAMA, part).saved_bytes > 0


@pytest.mark.parametrize(("stage", "split"), [(0, (3,)), (0, (2, 0, 2)), (0, ()), (2, (2, 2)), (-1, (4,))])
def test_a_split_that_is_none_is_refused(stage: int, split: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"not a split of 4 layers|there is no stage"):
        stage_blocks(LLAMA, shard(2), stage, split)


def test_the_ends_of_a_pipeline_may_have_no_layers() -> None:
    # a stage with the embedding alone, and one with the head alone
    names = [[block.name for block in stage_blocks(LLAMA, shard(2), stage, (0, 4, 0))] for stage in (0, 2)]
    assert names == [["embedding"], ["head"]]


@pytest.mark.parametrize(
    ("recompute", "dropout", "due"),
    [
        ("full", False, LAYER_OPERATORS[:-2]),
        ("full", True, LAYER_OPERATORS),
        ("selective", False, ("core_attention",)),
        (frozenset({"mlp_up", "activation", "mlp_down"}), False, ("mlp_up", "activation")),
        (frozenset({"input_norm", "core_attention"}), False, ("core_attention",)),
        ("none", False, ()),
    ],
)
def test_early_stop_ends_with_the_last_tensor_that_is_needed(
    recompute: str | frozenset[str], dropout: bool, due: tuple[str, ...]
) -> None:
    # The last matmul of a layer makes nothing that its backward pass reads; the mask of a dropout behind it is read.
    # A norm alone keeps its input only. What is saved does not change.
    model = replace(load_model("llama3-8b"), dropout=dropout)
    shard = Shard(1, 512, tp=2, sequence_parallel=True, vocabulary=128256, recompute=recompute)
    layers = [stage_blocks(model, replace(shard, recompute_early_stop=stop), 0, (32,))[1] for stop in (True, False)]
    assert tuple(item.name for item in layers[0].recompute if isinstance(item, Work)) == due
    assert layers[0].saved_bytes == layers[1].saved_bytes
    exchanges = [item for item in layers[0].recompute if not isinstance(item, Work)]
    assert len(exchanges) == sum(name in {"qkv", "attention_output", "mlp_up", "mlp_down"} for name in due)
