"""What one tensor-parallel rank takes: padding, copies of key and value heads, recomputed operators."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.workload import LAYER_OPERATORS, kv_replication, padded_vocabulary, recomputed_operators


@given(st.integers(1, 10**6), st.integers(1, 256))
def test_nxd_pads_as_little_as_tensor_parallelism_allows(vocabulary: int, tp: int) -> None:
    # The smallest multiple of tp that holds the vocabulary; the vocabulary itself where it divides.
    padded = padded_vocabulary(vocabulary, tp, "nxd")
    assert padded % tp == 0
    assert vocabulary <= padded < vocabulary + tp


@given(st.integers(1, 10**6), st.integers(1, 256))
def test_megatron_pads_to_a_multiple_of_128_tp(vocabulary: int, tp: int) -> None:
    # The smallest multiple of 128 tp that holds the vocabulary, also where tp divides it.
    padded = padded_vocabulary(vocabulary, tp, "megatron")
    assert padded % (128 * tp) == 0
    assert vocabulary <= padded < vocabulary + 128 * tp


def test_padding_in_published_recipes() -> None:
    # GPT-2's 50,257 tokens become 51,200 at tp 8 in Megatron; Llama 3's 128,256 divide by 32 and stay in NxD.
    assert padded_vocabulary(50257, 8, "megatron") == 51200
    assert padded_vocabulary(128256, 32, "nxd") == 128256
    assert padded_vocabulary(128256, 32, "megatron") == 131072


def test_unknown_padding_rules_are_refused() -> None:
    with pytest.raises(ValueError, match="nemo"):
        padded_vocabulary(100, 2, "nemo")


@given(st.integers(1, 128), st.integers(1, 128))
def test_replication_is_the_smallest_that_gives_every_rank_whole_heads(kv_heads: int, tp: int) -> None:
    # kv_heads x r is a multiple of tp, and of no smaller r.
    r = kv_replication(kv_heads, tp)
    assert kv_heads * r % tp == 0
    assert all(kv_heads * fewer % tp for fewer in range(1, r))


def test_replication_in_published_recipes() -> None:
    # Llama 3 70B has 8 key and value heads: kv_replicator 4 at tp 32 on trn2.
    assert [kv_replication(8, tp) for tp in (1, 8, 16, 32)] == [1, 1, 2, 4]


@pytest.mark.parametrize(
    ("recompute", "operators"),
    [
        ("none", set()),
        ("selective", {"core_attention"}),
        ("full", set(LAYER_OPERATORS)),
        (["mlp_up", "activation"], {"mlp_up", "activation"}),
        (["CoreAttention", "LlamaMLP"], {"core_attention", "mlp_up", "activation", "mlp_down"}),
        (["LlamaRMSNorm", "ActivationMultiplyMLP"], {"input_norm", "post_attention_norm", "activation"}),
        (["core_attention", "MixtralRMSNorm"], {"core_attention", "input_norm", "post_attention_norm"}),
        ([], set()),
    ],
)
def test_recompute_is_a_mode_or_a_list(recompute: str | list[str], operators: set[str]) -> None:
    # The lists are those of the trn2 70B and the context-parallel recipes of NeuronX Distributed Training.
    assert recomputed_operators(recompute) == operators


@pytest.mark.parametrize("recompute", ["everything", ["softmax"]])
def test_unknown_recompute_is_refused_with_what_is_known(recompute: str | list[str]) -> None:
    with pytest.raises(ValueError, match=r"softmax.*core_attention|none, selective, full"):
        recomputed_operators(recompute)
