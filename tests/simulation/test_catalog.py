"""What a user's words stand for, and what the lists say."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

import pytest

from trnsim.errors import InputError
from trnsim.simulation import catalog
from trnsim.simulation.catalog import PLURALS, Kind, Reference, entries, find, names

if TYPE_CHECKING:
    from pathlib import Path


def test_every_kind_is_listed_under_its_plural() -> None:
    assert set(PLURALS.values()) == set(get_args(Kind))


@pytest.mark.parametrize("kind", get_args(Kind))
def test_entries_are_the_names_in_order_each_with_a_line(kind: Kind) -> None:
    listed = entries(kind)
    assert sorted(entry.name for entry in listed) == list(names(kind))
    assert listed == tuple(sorted(listed, key=lambda entry: (entry.group, entry.name)))
    assert all(entry.summary and "\n" not in entry.summary for entry in listed)


@pytest.mark.parametrize(
    ("words", "kind", "name"),
    [
        ("trainium2", "chip", "trainium2"),
        ("chip:trainium2", "chip", "trainium2"),
        ("chips:trainium2", "chip", "trainium2"),
        ("trn3-gen2-ultraserver@pessimistic", "server", "trn3-gen2-ultraserver@pessimistic"),
        ("server:trn2-ultraserver", "server", "trn2-ultraserver"),
        ("ultracluster", "topology", "ultracluster"),
        ("neuron-trn1", "family", "neuron-trn1"),
        ("llama3.1-405b", "model", "llama3.1-405b"),
        ("trn3-million", "scenario", "trn3-million"),
    ],
)
def test_name(words: str, kind: Kind, name: str) -> None:
    assert find(words) == Reference(kind, name)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("schema: 1", "scenario"),
        ("model_type: llama", "model"),
        ("architectures: [LlamaForCausalLM]", "model"),
        ("hidden_size: 64", "model"),
        ("memory_bandwidth: {value: 8}", "chip"),
        ("chips_per_host: {value: 4}", "server"),
        ("gemm_efficiency: {value: 0.5}", "family"),
        ("tiers: []", "topology"),
    ],
)
def test_file_is_told_by_its_content(text: str, kind: Kind, tmp_path: Path) -> None:
    file = tmp_path / "thing.yaml"
    file.write_text(text)
    assert find(str(file)) == Reference(kind, str(file))


def test_existing_path_beats_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "trainium2").write_text("hidden_size: 64")
    monkeypatch.chdir(tmp_path)
    assert find("trainium2").kind == "model"


def test_path_with_a_variant(tmp_path: Path) -> None:
    # as in a scenario: PATH@VARIANT, and a file whose name has an @ is itself
    for name in ("thing.yaml", "thing.yaml@odd"):
        (tmp_path / name).write_text("memory_bandwidth: {value: 8}")
    assert find(f"{tmp_path}/thing.yaml@fast") == Reference("chip", f"{tmp_path}/thing.yaml@fast")
    assert find(f"{tmp_path}/thing.yaml@odd").kind == "chip"
    with pytest.raises(InputError, match="nothing in the catalog has this name"):
        find(f"{tmp_path}/other.yaml@fast")


def test_unknown_content_lists_the_marks(tmp_path: Path) -> None:
    file = tmp_path / "thing.yaml"
    file.write_text("a: 1")
    with pytest.raises(InputError, match="schema, model_type, architectures") as refusal:
        find(str(file))
    assert refusal.value.exit_code == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("trn2-ultraservr", "did you mean trn2-ultraserver"),
        ("zzz", "`trnsim list KIND` shows the names of a kind"),
        ("gadget:trainium2", 'unknown kind "gadget"; known: chip, family, model, scenario, server, topology'),
    ],
)
def test_unknown_words(words: str, message: str) -> None:
    with pytest.raises(InputError) as refusal:
        find(words)
    assert message in str(refusal.value)


def test_shared_name_asks_for_the_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "names", lambda kind: ("twin",) if kind in {"chip", "model"} else ())
    with pytest.raises(InputError, match="chip and model share this name; write chip:twin or model:twin"):
        find("twin")
    assert find("model:twin") == Reference("model", "twin")
