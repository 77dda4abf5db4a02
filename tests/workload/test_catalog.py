"""The catalog of models, and models in trnsim's own keys."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from trnsim import workload
from trnsim.documents import Document, read_document
from trnsim.errors import InputError
from trnsim.workload import load_model, model_names, read_model

CATALOG = Path(workload.__file__).parent / "catalog"

# Counts by hand or as published by their makers: Llama 2 and 3 as on the model cards' weights.
PARAMETERS = {
    "llama2-7b": 6_738_415_616,
    "llama2-13b": 13_015_864_320,
    "llama2-70b": 68_976_648_192,
    "llama3-8b": 8_030_261_248,
    "llama3-70b": 70_553_706_496,
    "llama3.1-8b": 8_030_261_248,
    "llama3.1-70b": 70_553_706_496,
    "llama3.1-405b": 405_853_388_800,
    # MPT as the benchmark tables of llm-foundry print it, for sequences of 2,048
    "mpt-125m": 125_311_488,
    "mpt-350m": 355_985_408,
    "mpt-760m": 760_470_528,
    "mpt-1b": 1_315_950_592,
    "mpt-3b": 2_651_837_440,
    "mpt-7b": 6_658_859_008,
    "mpt-13b": 12_853_954_560,
    "mpt-30b": 29_975_214_080,
    "mpt-70b": 64_862_437_376,
}
GPT_SHAPES = {  # layers, hidden size, positions, vocabulary
    "gpt3-6.7b": (32, 4096, 2048, 50257),
    "gpt3-23b": (28, 8192, 2048, 50257),
    "gpt3-46b": (56, 8192, 2048, 50257),
    "gpt3-175b": (96, 12288, 2048, 50257),
    "gpt-1t": (126, 25600, 8192, 51200),
    "gpt-22b": (48, 6144, 2048, 51200),
    "gpt-76b": (60, 10240, 2048, 51200),
    "gpt-310b": (96, 16384, 2048, 51200),
    "gpt-530b": (105, 20480, 2048, 51200),
    "gpt-1t-128": (128, 25600, 2048, 51200),
}
PRINTED_BILLIONS = {"gpt-76b": 76.1, "gpt-310b": 310.1, "gpt-530b": 529.6, "gpt-1t-128": 1008.0}  # SC21, table 1

TINY: dict[str, Any] = {
    "layers": 2,
    "hidden_size": 64,
    "attention_heads": 4,
    "ffn_size": 256,
    "vocabulary": 1000,
}


def own_keys(**changes: Any) -> Document:
    return Document("model.yaml", None, TINY | changes)


@pytest.mark.parametrize(("name", "parameters"), PARAMETERS.items())
def test_counts_to_the_unit(name: str, parameters: int) -> None:
    assert load_model(name).parameters == parameters


@pytest.mark.parametrize(("name", "shape"), GPT_SHAPES.items())
def test_gpt_counts_by_the_closed_form(name: str, shape: tuple[int, int, int, int]) -> None:
    # L (12 h^2 + 13 h) + (V + s) h + 2 h, with tied tables.
    layers, h, positions, vocabulary = shape
    assert load_model(name).parameters == layers * (12 * h**2 + 13 * h) + (vocabulary + positions) * h + 2 * h


@pytest.mark.parametrize(("name", "billions"), PRINTED_BILLIONS.items())
def test_megatrons_gpts_have_the_printed_size(name: str, billions: float) -> None:
    assert round(load_model(name).parameters / 1e9, 1) == billions


def test_the_catalog_holds_what_was_promised() -> None:
    assert set(model_names()) == {*PARAMETERS, *GPT_SHAPES}


def test_aws_gpt3_23b_and_46b_have_the_same_layers() -> None:
    # The two benchmarks differ in depth only, so that 4 and 8 stages hold 7 identical layers each.
    small, large = load_model("gpt3-23b"), load_model("gpt3-46b")
    assert small.layer_parameters(0) == large.layer_parameters(0)
    assert (small.layers / 4, large.layers / 8) == (7, 7)


@pytest.mark.parametrize("name", model_names())
def test_every_entry_has_a_source_its_date_and_its_kind(name: str) -> None:
    data = read_document(CATALOG / f"{name}.yaml").data
    assert len(data["source"]) > 20
    assert data["kind"] in {"official", "third-party", "inferred", "assumed"}
    dt.date.fromisoformat(data["read"])
    assert load_model(name).source == f"{data['source']} ({data['kind']}, read {data['read']})"


def test_own_keys_default_to_plain_attention() -> None:
    # kv_heads = heads = 4 and head_dim = 64 / 4: q, k, v, output 4 h^2, gated MLP 3 h f, two norms.
    model = read_model(own_keys())
    assert (model.kv_heads, model.head_dim, model.name) == (4, 16, "model.yaml")
    assert model.layer_parameters(0) == 4 * 64**2 + 3 * 64 * 256 + 2 * 64


def test_own_keys_describe_mixtures_and_latent_attention() -> None:
    mixture = {"experts": 4, "experts_per_token": 2, "expert_ffn_size": 32, "dense_layers": [0]}
    mla = {"key_value_rank": 8, "nope_head_dim": 16, "rope_head_dim": 4, "value_head_dim": 16}
    model = read_model(own_keys(mixture=mixture, mla=mla))
    # Queries h x a (16 + 4), latent h (8 + 4) and its norm, keys and values 8 x a (16 + 16), output a 16 x h.
    attention = 64 * 80 + 64 * 12 + 8 + 8 * 4 * 32 + 4 * 16 * 64
    assert model.layer_parameters(0) == attention + 3 * 64 * 256 + 2 * 64
    assert model.layer_parameters(1) == attention + 4 * 3 * 64 * 32 + 64 * 4 + 2 * 64


def test_all_problems_of_own_keys_come_at_once() -> None:
    with pytest.raises(InputError) as refusal:
        read_model(own_keys(layers=0, hiden_size=64, vocabulary="many"))
    found = {problem.key: problem.message for problem in refusal.value.problems}
    assert set(found) == {"layers", "hiden_size", "vocabulary"}
    assert "hidden_size" in found["hiden_size"]
    assert refusal.value.exit_code == 2


@pytest.mark.parametrize(
    ("changes", "key", "arithmetic"),
    [
        ({"attention_heads": 6}, "attention_heads", "64 / 6"),
        ({"attention_heads": 6, "head_dim": 8, "kv_heads": 4}, "kv_heads", "6 mod 4 = 2"),
        (
            {"mixture": {"experts": 2, "experts_per_token": 3, "expert_ffn_size": 8}},
            "mixture.experts_per_token",
            "3 of 2",
        ),
    ],
)
def test_own_keys_that_contradict_each_other_show_the_arithmetic(
    changes: dict[str, Any], key: str, arithmetic: str
) -> None:
    with pytest.raises(InputError) as refusal:
        read_model(own_keys(**changes))
    (problem,) = refusal.value.problems
    assert problem.key == key
    assert arithmetic in problem.message


def test_an_unknown_name_gets_near_matches() -> None:
    with pytest.raises(InputError, match=r"did you mean llama3.1-405b"):
        load_model("llama3.1-450b")


def test_a_path_beats_a_name_and_is_relative_to_the_file_around_it(tmp_path: Path) -> None:
    (tmp_path / "llama3-8b").write_text("{layers: 1, hidden_size: 8, attention_heads: 1, ffn_size: 8, vocabulary: 8}")
    assert load_model("llama3-8b", relative_to=tmp_path).layers == 1
    assert load_model("llama3-8b").layers == 32


def test_problems_carry_their_lines(tmp_path: Path) -> None:
    file = tmp_path / "tiny.yaml"
    file.write_text("layers: 2\nhidden_size: 64\nattention_heads: 5\nffn_size: 256\nvocabulary: 1000\n")
    with pytest.raises(InputError, match=r"line 3  attention_heads = 5"):
        load_model(str(file))
