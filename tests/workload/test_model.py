"""Shapes and what is counted from them alone."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from trnsim.workload import LatentAttention, Mixture, ShapeError, Transformer, flops_per_token, load_model


def gpt(**changes: object) -> Transformer:
    model = Transformer(
        "gpt",
        layers=3,
        hidden_size=32,
        attention_heads=4,
        kv_heads=4,
        head_dim=8,
        ffn_size=128,
        gated_mlp=False,
        vocabulary=100,
        tied_embeddings=True,
        norm="layernorm",
        qkv_bias=True,
        attention_output_bias=True,
        mlp_bias=True,
        learned_positions=16,
    )
    return replace(model, **changes)


def test_a_gpt_layer_has_12_h2_plus_13_h_parameters() -> None:
    # Narayanan et al. 2021: a layer is 12 h^2 + 13 h; around it V h + s h for the tables and 2 h for the final norm.
    h = 32
    assert gpt().layer_parameters(0) == 12 * h**2 + 13 * h
    assert gpt().parameters == 3 * (12 * h**2 + 13 * h) + (100 + 16) * h + 2 * h


def test_an_untied_model_counts_its_output_projection_apart() -> None:
    assert gpt(tied_embeddings=False).parameters - gpt().parameters == 100 * 32


def test_matmul_parameters_leave_out_vectors_and_look_ups() -> None:
    # 12 h^2 a layer and V h for the logits, tied or not.
    assert gpt().matmul_parameters == gpt(tied_embeddings=False).matmul_parameters == 3 * 12 * 32**2 + 100 * 32


def test_heads_times_head_dim_need_not_be_the_hidden_size() -> None:
    # q and output: 2 h a d, k and v: 2 h k d.
    wide = gpt(head_dim=24, kv_heads=2, qkv_bias=False)
    assert wide.layer_parameters(0) == 2 * 32 * 96 + 2 * 32 * 48 + 32 + (2 * 32 * 128 + 128 + 32) + 4 * 32


def test_a_gated_mlp_has_a_third_matrix_and_its_bias() -> None:
    assert gpt(gated_mlp=True).layer_parameters(0) - gpt().layer_parameters(0) == 32 * 128 + 128


def test_a_parallel_block_has_one_norm_and_palm_540_billion_parameters() -> None:
    # Chowdhery et al., arXiv 2204.02311, table 1: 118 layers of 18,432, 48 heads of 256 and one of keys and values
    assert gpt().layer_parameters(0) - gpt(parallel_block=True).layer_parameters(0) == gpt().norm_parameters
    palm = Transformer(
        "PaLM", layers=118, hidden_size=18432, attention_heads=48, kv_heads=1, head_dim=256, ffn_size=73728, gated_mlp=True,
        vocabulary=256000, tied_embeddings=True, parallel_block=True,
    )  # fmt: skip
    assert palm.parameters == pytest.approx(540.35e9, rel=1e-4)


def test_query_and_key_norms_have_one_weight_per_element_of_a_head() -> None:
    assert gpt(qk_norm=True).layer_parameters(0) - gpt().layer_parameters(0) == 2 * 8


def test_a_mixture_counts_all_experts_and_activates_some() -> None:
    # 8 experts of width 10 and a router of h x 8 in place of an MLP, in 2 of 3 layers; 3 experts are active.
    mixture = Mixture(8, 3, 10, shared_ffn_size=20, dense_layers=(0,), router_bias=True)
    mixed = gpt(mixture=mixture)
    dense_mlp = 2 * 32 * 128 + 128 + 32
    assert mixed.layer_parameters(0) == gpt().layer_parameters(0)
    assert mixed.layer_parameters(1) == gpt().layer_parameters(1) - dense_mlp + 2 * 32 * (8 * 10 + 20) + 32 * 8 + 8
    assert mixed.parameters - mixed.active_parameters == 2 * (8 - 3) * 2 * 32 * 10


def test_flops_per_token_is_the_palm_rule() -> None:
    # 6 N + 12 L a d s; causal halves the last term (PaLM, appendix B).
    model = gpt()
    assert flops_per_token(model, 64) == 6 * (3 * 12 * 32**2 + 100 * 32) + 12 * 3 * 32 * 64
    assert flops_per_token(model, 64, causal=True) == 6 * (3 * 12 * 32**2 + 100 * 32) + 6 * 3 * 32 * 64


def test_flops_of_a_mixture_count_the_active_experts() -> None:
    # Only k of E experts enter 6 N: the difference to all experts is 6 x (E - k) matrices.
    few, all_of_them = (gpt(mixture=Mixture(8, k, 10)) for k in (2, 8))
    assert flops_per_token(all_of_them, 64) - flops_per_token(few, 64) == 6 * 3 * (8 - 2) * 2 * 32 * 10


def test_flops_of_latent_attention_count_both_kinds_of_heads() -> None:
    # Scores over heads of 16 + 4, values over heads of 12: 6 L a (20 + 12) s in place of 12 L a d s.
    mla = LatentAttention(None, 8, nope_head_dim=16, rope_head_dim=4, value_head_dim=12)
    model = gpt(mla=mla, head_dim=20, qkv_bias=False, attention_output_bias=False)
    assert flops_per_token(model, 64) - 6 * model.matmul_parameters == 6 * 3 * 4 * 32 * 64


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"layers": 0}, "layers"),
        ({"vocabulary": -1}, "vocabulary"),
        ({"learned_positions": -1}, "learned_positions"),
        ({"kv_heads": 3}, "kv_heads"),
        ({"mixture": Mixture(4, 5, 10)}, "mixture.experts_per_token"),
        ({"mixture": Mixture(0, 0, 10)}, "mixture.experts"),
        ({"mixture": Mixture(4, 2, 10, dense_layers=(3,))}, "mixture.dense_layers"),
    ],
)
def test_a_shape_that_contradicts_itself_is_refused_by_field(changes: dict[str, object], field: str) -> None:
    with pytest.raises(ShapeError) as refusal:
        gpt(**changes)
    assert field in [broken for broken, _ in refusal.value.broken]


def test_every_broken_rule_is_in_one_refusal() -> None:
    with pytest.raises(ShapeError) as refusal:
        gpt(kv_heads=3, mixture=Mixture(4, 5, 10))
    assert [field for field, _ in refusal.value.broken] == ["kv_heads", "mixture.experts_per_token"]


def test_llama_405b_flops_at_8192_tokens() -> None:
    # N = 405,853,388,800 - embedding 128,256 x 16,384 - norms (2 x 126 + 1) x 16,384.
    n = 405_853_388_800 - 128_256 * 16_384 - 253 * 16_384
    assert flops_per_token(load_model("llama3.1-405b"), 8192) == 6 * n + 12 * 126 * 128 * 128 * 8192
