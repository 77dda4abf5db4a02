"""Catalog files that people write: what is refused, and with which words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trnsim.hardware
from trnsim.documents import Document, Table, problems_of
from trnsim.errors import InputError, Problem
from trnsim.hardware import (
    SourcedFile,
    SourcedValue,
    every_value,
    family_for,
    load_chip,
    load_family,
    load_server,
    read_entry,
)

CATALOG = Path(trnsim.hardware.__file__).parent / "catalog"


def copy(tmp_path: Path, entry: str, *changes: tuple[str, str], name: str = "") -> Path:
    """Write a catalog file elsewhere with some of its text replaced."""
    text = (CATALOG / f"{entry}.yaml").read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = tmp_path / (name or f"{Path(entry).name}.yaml")
    path.write_text(text)
    return path


def refusal(load: Any, *arguments: Any) -> dict[str, Problem]:
    """Return the problems that a loader reports, by key."""
    with pytest.raises(InputError) as caught:
        load(*arguments)
    assert caught.value.exit_code == 2
    return {problem.key: problem for problem in caught.value.problems}


def test_a_file_of_ones_own_by_path_and_by_path_with_variant(tmp_path: Path) -> None:
    path = copy(tmp_path, "servers/trn3-gen2-ultraserver", ("value: 144,", "value: 72,"), name="half.yaml")
    half = load_server(str(path))
    assert (half.name, half.chips, half.chip.name) == ("half", 72, "trainium3")
    assert load_server("half.yaml@pessimistic", tmp_path).name == "half@pessimistic"


def test_an_existing_path_beats_a_name_and_a_variant(tmp_path: Path) -> None:
    copy(tmp_path, "chips/trainium2", ("96 GiB", "48 GiB"), name="trainium3")
    assert load_chip("trainium3", tmp_path).memory_bytes.value == 48 * 2**30
    copy(tmp_path, "chips/trainium2", ("96 GiB", "24 GiB"), name="odd@name.yaml")
    assert load_chip("odd@name.yaml", tmp_path).memory_bytes.value == 24 * 2**30


def test_the_chip_of_a_server_is_relative_to_the_servers_file(tmp_path: Path) -> None:
    copy(tmp_path, "chips/trainium2", ("96 GiB", "48 GiB"), name="small.yaml")
    server = copy(tmp_path, "servers/trn2.48xlarge", ("chip: trainium2", "chip: small.yaml"))
    assert load_server(str(server)).chip.memory_bytes.value == 48 * 2**30


@pytest.mark.parametrize(
    ("load", "name", "message"),
    [
        (load_chip, "tranium2", 'unknown chip "tranium2"; did you mean trainium2'),
        (load_server, "trn2.48xl", 'unknown server "trn2.48xl"; did you mean trn2.48xlarge'),
        (load_family, "neuron-trn4", 'unknown family "neuron-trn4"; did you mean neuron-trn'),
        (load_server, "missing/server.yaml", "no such file"),
    ],
)
def test_an_unknown_name_gets_its_neighbours(load: Any, name: str, message: str) -> None:
    assert message in refusal(load, name)[""].message


def test_an_unknown_variant_gets_the_list() -> None:
    # a problem without a key or a line: that of the place where the variant was asked for
    problem = refusal(load_server, "trn3-gen2-ultraserver@pesimistic")[""]
    assert 'unknown variant "pesimistic"; did you mean pessimistic?' in problem.message
    assert (problem.line, problem.file) == (None, "trn3-gen2-ultraserver@pesimistic")
    assert "known: none" in refusal(load_server, "trn2.48xlarge@fast")[""].message
    assert 'unknown variant ""' in refusal(load_server, "trn3-gen2-ultraserver@")[""].message


def test_an_unknown_variant_of_a_chip_is_a_problem_of_the_key_that_names_it(tmp_path: Path) -> None:
    path = copy(tmp_path, "servers/trn2.48xlarge", ("chip: trainium2", "chip: trainium2@fast"))
    problem = refusal(load_server, str(path))["chip"]
    assert (problem.line, problem.message) == (2, 'unknown variant "fast"; known: nki-guide')


def test_the_family_of_a_chip_is_relative_to_the_chips_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "chips").mkdir()
    copy(tmp_path, "families/neuron-trn2", ("value: 0.344", "value: 0.3"), name="chips/mine.yaml")
    name = "software_family: neuron-trn2"
    chip = copy(tmp_path, "chips/trainium2", (name, "software_family: mine.yaml@no-recompute"), name="chips/a.yaml")
    monkeypatch.chdir(tmp_path)
    family = family_for(load_chip("chips/a.yaml"))
    assert (family.name, family.recompute_fitted) == ("mine@no-recompute", "none")
    chip.write_text(chip.read_text().replace("mine.yaml@no-recompute", "neuron-trn9"))
    problem = refusal(load_chip, str(chip))["software_family"]
    assert (problem.line, problem.value) == (3, "neuron-trn9")
    assert 'unknown family "neuron-trn9"' in problem.message


def test_an_unknown_chip_is_a_problem_of_the_key_that_names_it(tmp_path: Path) -> None:
    path = copy(tmp_path, "servers/trn2.48xlarge", ("chip: trainium2", "chip: trainium9"))
    problem = refusal(load_server, str(path))["chip"]
    assert (problem.line, problem.value, problem.file) == (2, "trainium9", str(path))
    assert 'unknown chip "trainium9"' in problem.message


def test_a_broken_chip_file_is_reported_under_its_own_name(tmp_path: Path) -> None:
    chip = copy(tmp_path, "chips/trainium2", ("value: 96 GiB", "value: 96"), name="broken.yaml")
    server = copy(tmp_path, "servers/trn2.48xlarge", ("chip: trainium2", "chip: broken.yaml"))
    problem = refusal(load_server, str(server))["memory.value"]
    assert problem.file == str(chip)
    assert "bare number" in problem.message


def test_a_value_without_its_source(tmp_path: Path) -> None:
    path = copy(tmp_path, "chips/trainium2", ("{value: 96 GiB, kind: official, source: trainium2-page}", "96 GiB"))
    problem = refusal(load_chip, str(path))["memory"]
    assert problem.message == "every value needs its source; write {value: 96 GiB, kind: official, source: KEY}"


def test_all_problems_come_in_one_report(tmp_path: Path) -> None:
    path = copy(
        tmp_path,
        "chips/trainium2",
        ("value: 96 GiB", "value: 96"),
        ("memory_bandwidth: {value: 2.9 TB/s, kind: official", "memory_bandwidth: {value: 2.9 TB/s, kind: oficial"),
        ("source: lnc-page}", "source: lnc-pages}"),
    )
    problems = refusal(load_chip, str(path))
    assert set(problems) == {"memory.value", "memory_bandwidth.kind", "neuron_cores.lnc.allowed.source"}
    assert "did you mean official" in problems["memory_bandwidth.kind"].message
    assert 'unknown source "lnc-pages"; did you mean lnc-page?' in problems["neuron_cores.lnc.allowed.source"].message
    assert all(problem.line for problem in problems.values())


def test_a_problem_in_a_variant_stands_on_the_variants_line(tmp_path: Path) -> None:
    path = copy(tmp_path, "chips/trainium2", ("value: 3 TB/s", "value: 3"))
    line = next(n for n, text in enumerate(path.read_text().splitlines(), start=1) if "value: 3," in text)
    assert load_chip(str(path)).memory_bandwidth_bytes_per_s.value == 2.9e12
    assert refusal(load_chip, f"{path}@nki-guide")["memory_bandwidth.value"].line == line


@pytest.mark.parametrize(
    ("entry", "old", "new", "key", "message"),
    [
        ("chips/trainium2", "value: [1, 2]", "value: [1, 3]", "neuron_cores.lnc.allowed", "8 NeuronCores do not split"),
        ("chips/trainium2", "default: {value: 2", "default: {value: 4", "neuron_cores.lnc.default", "4 is not among"),
        ("chips/trainium2", "read: 2026-11-30", "read: yesterday", "sources.trainium2-page.read", "a date is due"),
        ("servers/trn2-ultraserver", "value: [4, 4, 4]", "value: [4, 4]", "scale_up.dims", "4 x 4 = 16 chips, not 64"),
        ("servers/trn2-ultraserver", "value: [4, 4, 4]", "value: [8, 8]", "scale_up.links", "2 axes need"),
        (
            "servers/trn2-ultraserver",
            "xy, neuronlink-z]",
            "xy, neuronlink-xy]",
            "links.neuronlink-z",
            "no axis or level",
        ),
        ("servers/trn2-ultraserver", "xy, neuronlink-z]", "xy, neuronlink-q]", "scale_up", "unknown link class"),
        ("servers/trn2-ultraserver", "[0, 1, 2,", "[0, 0, 2,", "ring_chip_order", "once, 0 to 15"),
        (
            "servers/trn2-ultraserver",
            "chips_per_host: {value: 16",
            "chips_per_host: {value: 24",
            "chips_per_host",
            "64",
        ),
        ("servers/trn3-gen2-ultraserver", "rack_size: {value: 72", "rack_size: {value: 70", "scale_up.rack_size", "70"),
        (
            "servers/trn3-gen2-ultraserver",
            "rack_size: {value: 72",
            "rack_size: {value: 100",
            "scale_up.rack_size",
            "144",
        ),
        (
            "servers/trn2.3xlarge",
            "chips: {value: 1,",
            "chips: {value: 2,",
            "scale_up",
            "chips 0 and 1 of 2 have no path",
        ),
        ("servers/trn2.3xlarge", "kind: none", "kind: mesh", "scale_up", "torus"),
        ("servers/trn2.3xlarge", "kind: none", "sort: none", "scale_up", "missing key 'kind'"),
        (
            "servers/trn2.48xlarge",
            "kind: torus",
            "kind: none",
            "scale_up.dims",
            "a scale_up of this kind has no such key",
        ),
        ("servers/trn2.48xlarge", "value: [4, 4]", "value: []", "scale_up.dims.value", "an empty list"),
        ("servers/trn2.48xlarge", "value: [1, 4, 8, 16]", "value: []", "instance_use.allowed.value", "an empty list"),
        ("servers/trn2.48xlarge", "chips: {value: 16", "chips: {value: 1e6", "chips.value", "at most 16,384"),
        ("servers/trn2.48xlarge", "{value: 15 us", "{value: 2 s", "scale_out.latency.value", "at most 1"),
        ("chips/trainium2", "value: 96 GiB", "value: 0 B", "memory.value", "above 0"),
        ("chips/trainium2", "value: [1, 2]", "value: []", "neuron_cores.lnc.allowed.value", "an empty list"),
        ("families/neuron-trn2", "value: 0.80", "value: 1e-9", "memory_efficiency.value", "at least 0.001"),
        ("families/neuron-trn2", "chips: [trainium2]", "chips: []", "chips", "an empty list"),
        ("servers/trn2.3xlarge", "value: 0.68", "value: 1.5", "scale_out.achieved_fraction.value", "at most 1"),
        ("families/neuron-trn2", "high: 0.754", "high: 1.2", "gemm_efficiency.high", "at most 1"),
        ("families/neuron-trn2", "low: 0.258", "low: 0.4", "gemm_efficiency", "0.4 <= 0.344"),
    ],
)
def test_contradictions_are_refused(tmp_path: Path, entry: str, old: str, new: str, key: str, message: str) -> None:
    load = {"chips": load_chip, "servers": load_server, "families": load_family}[entry.partition("/")[0]]
    problems = refusal(load, str(copy(tmp_path, entry, (old, new))))
    assert message in problems[key].message
    assert problems[key].line is not None


class Ranged(Table):
    share: SourcedValue[float]


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
def test_a_value_lies_in_its_range(low: float, value: float, high: float) -> None:
    # law: accepted exactly when low <= value <= high
    table = {"value": value, "low": low, "high": high, "kind": "assumed", "source": "a"}
    problems = problems_of(Document("a.yaml", None, {"share": table}), Ranged)
    assert (not problems) == (low <= value <= high)


class Tiers(SourcedFile):
    radix: SourcedValue[int]


def test_other_rooms_read_their_own_sourced_files(tmp_path: Path) -> None:
    path = tmp_path / "fabric.yaml"
    path.write_text(
        "sources: {a: {text: a switch, read: 2026-11-30}}\n"
        "radix: {value: 64, kind: assumed, source: a, note: 12.8 Tbit/s of 200 Gbit/s ports}\n"
    )
    entry = read_entry(path, Tiers)
    radix = entry.sourced(entry.file.radix)
    assert (entry.name, radix.value, radix.read) == ("fabric", 64, "2026-11-30")
    assert radix.source == "a switch: 12.8 Tbit/s of 200 Gbit/s ports"


def test_every_value_names_each_value_once() -> None:
    server = load_server("trn2-ultraserver")
    listed = [name for name, _ in every_value(server)]
    assert len(listed) == len(set(listed))
    assert {"chips", "chip.memory_bytes", "chip.peak_flops_per_s.fp8", "scale_out.latency_s"} <= set(listed)
    assert {"scale_up.dims", "scale_up.links.neuronlink-z.latency_s", "facts.host_memory"} <= set(listed)
    switched = dict(every_value(load_server("trn3-gen2-ultraserver")))
    assert switched["scale_up.rack.bandwidth_bytes_per_s"].value == 512e9
