"""What is known about one thing, with sources."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from trnsim.errors import InputError
from trnsim.results import json_text
from trnsim.simulation.catalog import PLURALS, names
from trnsim.simulation.description import describe

if TYPE_CHECKING:
    from pathlib import Path

EVERYTHING = [f"{kind}:{name}" for kind in PLURALS.values() for name in names(kind)]


@pytest.mark.parametrize("words", EVERYTHING)
def test_everything_in_the_catalog_can_be_described(words: str) -> None:
    document = describe(words).to_dict()
    assert json.loads(json_text(document)) == document
    assert document["kind"] == words.partition(":")[0]


@pytest.mark.parametrize("words", [w for w in EVERYTHING if w.startswith(("chip", "server", "topology", "family"))])
def test_every_value_has_kind_source_and_date(words: str) -> None:
    for name, value in describe(words).values.items():
        assert value.kind in {"official", "third-party", "inferred", "assumed"}, name
        assert value.source, name
        assert len(value.read) == len("2026-11-30"), name


@pytest.mark.parametrize(
    ("words", "name", "value", "unit"),
    [
        ("chip:trainium2", "memory_bytes", 96 * 2**30, "B"),
        ("chip:trainium2", "peak_flops_per_s.bf16", 667e12, "FLOP/s"),
        ("chip:trainium2", "neuron_cores.count", 8, ""),
        ("server:trn3-gen2-ultraserver", "scale_out.latency_s", 15e-6, "s"),
        ("server:trn3-gen2-ultraserver", "scale_out.bandwidth_bytes_per_s", 25e9, "B/s"),
        ("server:trn3-gen2-ultraserver", "scale_out.achieved_fraction", 0.68, "fraction"),
        ("family:neuron-trn1", "collective_skew_s", 107e-6, "s"),
    ],
)
def test_values_carry_their_unit(words: str, name: str, value: float, unit: str) -> None:
    found = describe(words).values[name]
    assert found.value == pytest.approx(value)
    assert found.unit == unit


def test_model_document_has_the_promised_keys() -> None:
    document = describe("model:llama3.1-405b").to_dict()
    assert document["parameters"] == document["active_parameters"] == 405_853_388_800
    assert (document["layers"], document["hidden_size"]) == (126, 16_384)


def test_mixture_is_described_and_said_not_to_run(tmp_path: Path) -> None:
    # Mixtral-like: 8 experts, 2 visited. All less the 6 idle experts of each layer: 3 matrices of 64 x 32 each.
    file = tmp_path / "config.json"
    shape = {"hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2}
    experts = {"num_local_experts": 8, "num_experts_per_tok": 2, "intermediate_size": 32, "vocab_size": 100}
    file.write_text(json.dumps({"model_type": "mixtral", "architectures": ["MixtralForCausalLM"], **shape, **experts}))
    description = describe(str(file))
    idle = 3 * 6 * 3 * 64 * 32
    assert description.facts["active_parameters"] == description.facts["parameters"] - idle
    assert "not modelled by `trnsim run` yet" in description.notes[-1]


def test_server_document_counts_chips_and_links() -> None:
    document = describe("trn2-ultraserver").to_dict()
    assert (document["chip"], document["chips"], document["hosts"]) == ("trainium2", 64, 4)
    assert document["counted"]["chips"] == 64


def test_family_without_error_says_so() -> None:
    assert "no measurement" in describe("neuron-trn3").notes[-1]


def test_unknown_name_of_a_kind() -> None:
    with pytest.raises(InputError, match="did you mean trainium1"):
        describe("chip:trainium9")


def test_kinds_of_ranks_are_listed_with_what_makes_them_different() -> None:
    kinds = describe("trn3-million-blemishes").to_dict()["cohorts"]
    assert all(said.endswith(" more") or "; " in said for name, said in kinds.items() if not name.startswith("dp0."))
    assert kinds["dp0.pp1.tp1"].endswith("; pays what dp0.pp1.tp0 pays, but meets others")
    assert any("; unlike dp0.pp4.tp0 in activations 79.8 us (307 us)" in said for said in kinds.values())
    assert any(", chips at 0.87 of their speed; " in said for said in kinds.values())
