"""Models as Hugging Face writes them: counted to the unit, refused by key."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from trnsim.errors import InputError
from trnsim.workload import load_model, parse_huggingface, refusal

if TYPE_CHECKING:
    from pathlib import Path

# Shapes as published; keys that do not matter here are left out, apart from some that must be ignored.
LLAMA_405B: dict[str, Any] = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 16384,
    "intermediate_size": 53248,
    "num_hidden_layers": 126,
    "num_attention_heads": 128,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "attention_bias": False,
    "mlp_bias": False,
    "tie_word_embeddings": False,
    "rope_scaling": {"factor": 8.0, "rope_type": "llama3"},
    "pretraining_tp": 1,
}
LLAMA_13B = LLAMA_405B | {
    "hidden_size": 5120,
    "intermediate_size": 13824,
    "num_hidden_layers": 40,
    "num_attention_heads": 40,
    "num_key_value_heads": 40,
    "vocab_size": 32016,
    "sequence_parallel_enabled": False,
}
LLAMA_1B = LLAMA_405B | {
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "head_dim": 64,
    "tie_word_embeddings": True,
}
MISTRAL_7B: dict[str, Any] = {
    "model_type": "mistral",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 32000,
    "sliding_window": None,
    "tie_word_embeddings": False,
}
MIXTRAL = MISTRAL_7B | {"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2}
QWEN2_7B: dict[str, Any] = {
    "model_type": "qwen2",
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "vocab_size": 152064,
    "sliding_window": 131072,
    "max_window_layers": 28,
    "use_sliding_window": False,
    "tie_word_embeddings": False,
}
QWEN3_8B = QWEN2_7B | {
    "model_type": "qwen3",
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151936,
    "attention_bias": False,
}
QWEN3_235B = QWEN3_8B | {
    "model_type": "qwen3_moe",
    "num_hidden_layers": 94,
    "num_attention_heads": 64,
    "num_key_value_heads": 4,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "moe_intermediate_size": 1536,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "norm_topk_prob": True,
}
DEEPSEEK_V3: dict[str, Any] = {
    "model_type": "deepseek_v3",
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "vocab_size": 129280,
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 2048,
    "first_k_dense_replace": 3,
    "moe_layer_freq": 1,
    "topk_method": "noaux_tc",
    "n_group": 8,
    "num_nextn_predict_layers": 1,
    "quantization_config": {"quant_method": "fp8"},
    "tie_word_embeddings": False,
}
DEEPSEEK_V2_LITE = DEEPSEEK_V3 | {
    "model_type": "deepseek_v2",
    "hidden_size": 2048,
    "intermediate_size": 10944,
    "num_hidden_layers": 27,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "vocab_size": 102400,
    "q_lora_rank": None,
    "n_routed_experts": 64,
    "n_shared_experts": 2,
    "num_experts_per_tok": 6,
    "moe_intermediate_size": 1408,
    "first_k_dense_replace": 1,
    "topk_method": "greedy",
    "num_nextn_predict_layers": None,
}
DBRX: dict[str, Any] = {
    "model_type": "dbrx",
    "d_model": 6144,
    "n_heads": 48,
    "n_layers": 40,
    "vocab_size": 100352,
    "max_seq_len": 32768,
    "attn_config": {"kv_n_heads": 8, "clip_qkv": 8, "model_type": "", "rope_theta": 500000},
    "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4, "model_type": ""},
    "resid_pdrop": 0.0,
    "tie_word_embeddings": False,
}
GPT2: dict[str, Any] = {
    "model_type": "gpt2",
    "n_embd": 768,
    "n_layer": 12,
    "n_head": 12,
    "n_positions": 1024,
    "n_ctx": 1024,
    "vocab_size": 50257,
    "resid_pdrop": 0.1,
    "summary_type": "cls_index",
    "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}},
}
PYTHIA_7B: dict[str, Any] = {
    "model_type": "gpt_neox",
    "hidden_size": 4096,
    "intermediate_size": 16384,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "vocab_size": 50432,
    "rotary_pct": 0.25,
    "use_parallel_residual": True,
    "tie_word_embeddings": False,
}


@pytest.mark.parametrize(
    ("config", "parameters", "active"),
    [
        pytest.param(LLAMA_405B, 405_853_388_800, 405_853_388_800, id="Llama 3.1 405B"),
        pytest.param(LLAMA_13B, 13_016_028_160, 13_016_028_160, id="Llama 2 13B of NxD"),
        pytest.param(LLAMA_1B, 1_235_814_400, 1_235_814_400, id="Llama 3.2 1B, tied"),
        pytest.param(MISTRAL_7B, 7_241_732_096, 7_241_732_096, id="Mistral 7B"),
        pytest.param(MIXTRAL, 46_702_792_704, 12_879_925_248, id="Mixtral 8x7B"),
        pytest.param(QWEN2_7B, 7_615_616_512, 7_615_616_512, id="Qwen2 7B, qkv bias"),
        pytest.param(QWEN3_8B, 8_190_735_360, 8_190_735_360, id="Qwen3 8B, qk norm"),
        pytest.param(QWEN3_235B, 235_093_634_560, 22_190_763_520, id="Qwen3 235B-A22B"),
        pytest.param(DEEPSEEK_V3, 671_026_419_200, 37_552_297_472, id="DeepSeek-V3"),
        pytest.param(DEEPSEEK_V2_LITE, 15_706_484_224, 2_661_150_208, id="DeepSeek-V2-Lite"),
        pytest.param(DBRX, 131_596_523_520, 36_469_708_800, id="DBRX"),
        pytest.param(GPT2, 124_439_808, 124_439_808, id="GPT-2"),
        pytest.param(PYTHIA_7B, 6_857_302_016, 6_857_302_016, id="Pythia 6.9B"),
    ],
)
def test_published_models_count_to_the_unit(config: dict[str, Any], parameters: int, active: int) -> None:
    # The totals are those of the published weights; active = all - idle experts.
    model = parse_huggingface(config)
    assert (model.parameters, model.active_parameters) == (parameters, active)


def refused(config: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(InputError) as found:
        parse_huggingface(config)
    assert found.value.exit_code == 2
    return {problem.key: problem.message for problem in found.value.problems}


def test_head_dim_beats_hidden_size_over_heads() -> None:
    # 64 heads of 128 over a hidden size of 4096: 4096 / 64 would be 64.
    assert parse_huggingface(QWEN3_235B).head_dim == 128


def test_a_null_head_dim_falls_back_with_a_note() -> None:
    model = parse_huggingface(LLAMA_405B | {"head_dim": None})
    assert model.head_dim == 128
    assert "head_dim is null: hidden size 16384 / 128 heads = 128" in model.notes


def test_a_head_dim_that_cannot_be_derived_is_asked_for() -> None:
    assert "hidden size 16384 / 96 heads is not whole" in refused(LLAMA_405B | {"num_attention_heads": 96})["head_dim"]
    assert "missing" in refused({key: value for key, value in QWEN3_8B.items() if key != "head_dim"})["head_dim"]


def test_missing_kv_heads_are_a_choice_of_llama_only() -> None:
    without = {key: value for key, value in LLAMA_405B.items() if key != "num_key_value_heads"}
    model = parse_huggingface(without)
    assert model.kv_heads == 128
    assert "num_key_value_heads is missing: as many as attention heads, 128" in model.notes
    without = {key: value for key, value in MISTRAL_7B.items() if key != "num_key_value_heads"}
    assert "missing" in refused(without)["num_key_value_heads"]
    assert parse_huggingface(MISTRAL_7B | {"num_key_value_heads": None}).kv_heads == 32


def test_a_missing_tie_is_the_default_of_its_kind_and_noted() -> None:
    model = parse_huggingface(GPT2)
    assert model.tied_embeddings
    assert any(note.startswith("tie_word_embeddings is missing: tied") for note in model.notes)


def test_the_mlp_of_gpt2_is_four_times_as_wide_unless_given() -> None:
    model = parse_huggingface(GPT2 | {"n_inner": None})
    assert model.ffn_size == 3072
    assert "n_inner is null: 4 x hidden size = 3072" in model.notes
    assert parse_huggingface(GPT2 | {"n_inner": 2048}).ffn_size == 2048
    assert (model.learned_positions, model.dropout) == (1024, True)


def test_llama_biases_are_read() -> None:
    # attention_bias: q, k, v and output; mlp_bias: gate, up and down.
    plain = parse_huggingface(LLAMA_405B)
    biased = parse_huggingface(LLAMA_405B | {"attention_bias": True, "mlp_bias": True})
    assert biased.layer_parameters(0) - plain.layer_parameters(0) == (128 + 16) * 128 + 16384 + 2 * 53248 + 16384


def test_mixture_layers_follow_step_and_list() -> None:
    # Layer i is a mixture when (i + 1) % step == 0 and i is not in mlp_only_layers.
    mixture = parse_huggingface(QWEN3_235B | {"decoder_sparse_step": 2, "mlp_only_layers": [3]}).mixture
    assert mixture is not None
    assert mixture.dense_layers == tuple(sorted({*range(0, 94, 2), 3}))


def test_multi_token_prediction_is_left_out_and_said() -> None:
    assert "multi-token-prediction layers are not counted: 1" in parse_huggingface(DEEPSEEK_V3).notes


def test_a_decoder_nested_in_text_config_is_read() -> None:
    nested = {
        "model_type": "llava",
        "architectures": ["LlavaForConditionalGeneration"],
        "text_config": LLAMA_13B,
        "vision_config": {"hidden_size": 1024, "num_hidden_layers": 24},
    }
    model = parse_huggingface(nested)
    assert model.parameters == 13_016_028_160
    assert "only the decoder in text_config is counted, not vision_config" in model.notes


def test_problems_inside_text_config_carry_their_path() -> None:
    nested = {"model_type": "llava", "text_config": LLAMA_13B | {"num_local_experts": 8, "hidden_size": None}}
    assert set(refused(nested)) == {"text_config.num_local_experts", "text_config.hidden_size"}


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"layer_types": 5}, "layer_types"),
        ({"mlp_only_layers": 3}, "mlp_only_layers"),
        ({"attn_config": "fast"}, "attn_config"),
        ({"model_type": ["llama"], "architectures": None}, "model_type"),
        ({"architectures": "Qwen3MoeForCausalLM", "model_type": None}, "architectures"),
        ({"hidden_size": True}, "hidden_size"),
        ({"vocab_size": 1.5}, "vocab_size"),
        ({"tie_word_embeddings": "no"}, "tie_word_embeddings"),
    ],
)
def test_values_of_another_type_are_refused_not_stumbled_over(changes: dict[str, Any], key: str) -> None:
    assert key in refused(QWEN3_235B | changes)


def test_an_architecture_speaks_where_the_model_type_does_not() -> None:
    assert parse_huggingface(LLAMA_405B | {"model_type": None}).layers == 126
    fork = parse_huggingface(DEEPSEEK_V3 | {"model_type": "kimi_k2", "architectures": ["DeepseekV3ForCausalLM"]})
    assert "read as deepseek_v3, the kind of DeepseekV3ForCausalLM, not kimi_k2" in fork.notes


def test_an_unknown_kind_is_refused_with_the_list() -> None:
    message = refused({"model_type": "gemma2", "architectures": ["Gemma2ForCausalLM"]})["model_type"]
    assert 'unknown model_type "gemma2"' in message
    assert "qwen3_moe" in message


@pytest.mark.parametrize(
    ("changes", "key", "word"),
    [
        ({"layer_types": ["full_attention", "sliding_attention"]}, "layer_types", "in some of the layers"),
        ({"layer_types": ["full_attention", "linear_attention"]}, "layer_types", "linear_attention"),
        ({"attention_chunk_size": 8192}, "attention_chunk_size", "chunked attention"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type", "relative_key"),
        ({"alibi": True}, "alibi", "ALiBi"),
        ({"num_local_experts": 8}, "num_local_experts", "mixture of experts"),
        ({"moe_intermediate_size": 1024}, "moe_intermediate_size", "mixture of experts"),
        ({"kv_lora_rank": 512}, "kv_lora_rank", "may change the shape"),
        ({"ffn_config": {"ffn_depth": 2}}, "ffn_config.ffn_depth", "may change the shape"),
    ],
)
def test_what_is_not_understood_is_refused_by_name(changes: dict[str, Any], key: str, word: str) -> None:
    assert word in refused(LLAMA_405B | changes)[key]


def test_a_sliding_window_counts_in_qwen_only_when_it_is_used() -> None:
    assert parse_huggingface(QWEN2_7B).sliding_window == 0
    used = QWEN2_7B | {"use_sliding_window": True}
    assert parse_huggingface(used | {"max_window_layers": 0}).sliding_window == 131072
    assert parse_huggingface(used | {"max_window_layers": 28}).sliding_window == 0  # from layer 28 of 28 on
    assert "windows from layer 21 on" in refused(used | {"max_window_layers": 21})["max_window_layers"]


def test_a_sliding_window_in_all_layers_is_read() -> None:
    mistral = LLAMA_405B | {"model_type": "mistral"}
    assert parse_huggingface(mistral | {"sliding_window": 4096}).sliding_window == 4096
    kinds = {"sliding_window": 4096, "layer_types": ["sliding_attention"] * 126}
    assert parse_huggingface(mistral | kinds).sliding_window == 4096
    assert parse_huggingface(mistral | kinds | {"layer_types": ["full_attention"] * 126}).sliding_window == 0


MPT_7B = {
    "model_type": "mpt",
    "d_model": 4096,
    "n_heads": 32,
    "n_layers": 32,
    "expansion_ratio": 4,
    "max_seq_len": 2048,
    "vocab_size": 50368,
    "resid_pdrop": 0.0,
    "no_bias": False,
    "learned_pos_emb": True,
    "attn_config": {"attn_type": "multihead_attention", "attn_impl": "triton", "alibi": False, "attn_pdrop": 0.0},
}
"""The keys of MPT, with the sizes of llm-foundry's benchmarks."""


def test_mpt_counts_as_llm_foundry_prints() -> None:
    # NumParams of its benchmark tables
    model = parse_huggingface(MPT_7B)
    assert model.parameters == 6_658_859_008
    assert (model.kv_heads, model.tied_embeddings, model.dropout) == (32, True, False)


def test_mpt_without_positions_biases_and_with_one_kv_head() -> None:
    # 32 layers: 3 + 1 + 4 + 1 = 9 biases of the hidden size each; 2,048 positions; 31 of 32 key and value heads of 128
    whole = parse_huggingface(MPT_7B)
    attention = {"attn_type": "multihead_attention", "alibi": True}
    alibi = parse_huggingface(MPT_7B | {"attn_config": attention})
    assert whole.parameters - alibi.parameters == 2048 * 4096
    bare = parse_huggingface(MPT_7B | {"no_bias": True})
    assert whole.parameters - bare.parameters == 32 * 9 * 4096
    single = parse_huggingface(MPT_7B | {"no_bias": True, "attn_config": {"attn_type": "multiquery_attention"}})
    assert bare.parameters - single.parameters == 32 * 2 * 31 * 128 * 4096
    grouped = {"attn_type": "grouped_query_attention", "kv_n_heads": 8}
    assert parse_huggingface(MPT_7B | {"attn_config": grouped}).kv_heads == 8


@pytest.mark.parametrize("config", [MIXTRAL, QWEN3_235B, DEEPSEEK_V3, DBRX])
def test_a_mixture_is_never_read_as_dense(config: dict[str, Any]) -> None:
    # Told that it is a llama, or without its number of experts, a mixture is refused; as itself it is not run.
    spellings = {"num_local_experts", "num_experts", "n_routed_experts", "ffn_config"}
    assert refused(config | {"model_type": "llama"})
    assert refused({key: value for key, value in config.items() if key not in spellings})
    assert "mixture" in str(refusal(parse_huggingface(config)))


def test_latent_attention_with_biases_is_refused() -> None:
    assert "biases" in refused(DEEPSEEK_V3 | {"attention_bias": True})["attention_bias"]


def test_keys_that_change_nothing_are_ignored_and_unknown_ones_named() -> None:
    model = parse_huggingface(LLAMA_405B | {"torch_dtype": "bfloat16", "flavour": "vanilla", "extra_heads": 0})
    assert model.notes == ("ignored keys: flavour",)


def test_all_problems_come_at_once() -> None:
    broken = LLAMA_405B | {"hidden_size": "wide", "vocab_size": 0, "num_local_experts": 8, "mlp_bias": 1}
    assert set(refused(broken)) == {"hidden_size", "vocab_size", "num_local_experts", "mlp_bias"}


def test_two_spellings_must_agree() -> None:
    assert parse_huggingface(LLAMA_405B | {"n_layers": 126}).layers == 126
    assert "contradicts num_hidden_layers = 126" in refused(LLAMA_405B | {"n_layers": 80})["n_layers"]


def test_sizes_that_contradict_each_other_are_refused_by_their_key() -> None:
    assert "128 mod 7 = 2" in refused(LLAMA_405B | {"num_key_value_heads": 7})["num_key_value_heads"]
    assert "9 of 8" in refused(MIXTRAL | {"num_experts_per_tok": 9})["num_experts_per_tok"]
    assert "20 of 16" in refused(DBRX | {"ffn_config": DBRX["ffn_config"] | {"moe_top_k": 20}})["ffn_config.moe_top_k"]


def test_a_file_is_named_after_its_folder_and_its_problems_have_lines(tmp_path: Path) -> None:
    file = tmp_path / "tiny-llama" / "config.json"
    file.parent.mkdir()
    file.write_text(json.dumps(LLAMA_13B, indent=2))
    assert load_model(str(file)).name == "tiny-llama"
    file.write_text(json.dumps(LLAMA_13B | {"num_local_experts": 8}, indent=2))
    with pytest.raises(InputError) as found:
        load_model(str(file))
    (problem,) = found.value.problems
    assert problem.line == file.read_text().splitlines().index('  "num_local_experts": 8') + 1
    assert found.value.file == str(file)
