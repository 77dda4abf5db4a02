"""The catalog as it ships: every value has a source, and the counts are those that AWS prints."""

from __future__ import annotations

import math
import pickle
import re
from copy import deepcopy
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import pytest

import trnsim.hardware.catalog_files
from trnsim.documents import Document, problems_of, read_document, read_text
from trnsim.hardware import (
    Chip,
    Kind,
    NoScaleUp,
    Server,
    SoftwareFamily,
    SourcedFile,
    StarScaleUp,
    SwitchedScaleUp,
    TorusScaleUp,
    every_value,
    family_for,
    load_chip,
    load_family,
    load_server,
    names,
)
from trnsim.hardware.collective_family import CollectiveFamily, CollectiveFamilyFile, load_collective_family
from trnsim.hardware.schema import ChipFile, FamilyFile, ServerFile

if TYPE_CHECKING:
    from collections.abc import Iterator

MODELS: dict[str, type[SourcedFile]] = {
    "chips": ChipFile,
    "servers": ServerFile,
    "families": FamilyFile,
    "collective-families": CollectiveFamilyFile,
}
CATALOG = Path(trnsim.hardware.catalog_files.__file__).parent / "catalog"
FILES = sorted(CATALOG.glob("*/*.yaml"))
GIB = 2**30


def every_spec() -> Iterator[Chip | Server | SoftwareFamily | CollectiveFamily]:
    """Every entry of the catalog in every variant."""
    for path in FILES:
        spec = load(path.parent.name, path.stem)
        yield spec
        yield from (load(path.parent.name, f"{path.stem}@{variant}") for variant in spec.variants)


def load(kind: str, name: str) -> Chip | Server | SoftwareFamily | CollectiveFamily:
    match kind:
        case "chips":
            return load_chip(name)
        case "servers":
            return load_server(name)
        case "families":
            return load_family(name)
        case _:
            return load_collective_family(name)


def values_of(table: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Key paths of all tables that hold a value, outside the variants."""
    for key, inner in table.items():
        if isinstance(inner, dict) and "value" in inner:
            yield (*path, key)
        elif isinstance(inner, dict) and key != "variants":
            yield from values_of(inner, (*path, key))


def changed(document: Document, path: tuple[str, ...], **changes: Any) -> Document:
    """Copy a document, with other entries in the value at a path; None takes one away."""
    data = deepcopy(document.data)
    table = data
    for step in path:
        table = table[step]
    for key, value in changes.items():
        if value is None:
            del table[key]
        else:
            table[key] = value
    return Document(document.name, None, data)


def test_the_catalog_holds_what_it_should() -> None:
    tpus = {"tpu-v4", "tpu-v5e", "tpu-v5p", "tpu-v6e", "tpu-v7"}
    nvidia = {"a100-40", "a100-80", "h100", "h200", "b200", "gb200", "gb300"}
    assert set(names("chips")) == {"trainium1", "trainium2", "trainium3"} | tpus | nvidia
    assert set(names("servers")) >= {"trn1.32xlarge", "trn1n.32xlarge", "trn2.3xlarge", "trn2.48xlarge"}
    assert set(names("servers")) >= {"trn2-ultraserver", "trn3-gen1-ultraserver", "trn3-gen2-ultraserver"}
    assert set(names("servers")) >= {"dgx-a100", "dgx-a100-40gb", "dgx-h100", "dgx-h200", "dgx-b200"}
    assert set(names("servers")) >= {"nvl72", "gb300-nvl72", "tpu-v5p-8x8x8", "tpu-v6e-16x16"}
    assert set(names("families")) >= {"neuron-trn1", "neuron-trn2", "neuron-trn3", "megatron-a100", "fsdp-h100"}
    assert names("collective-families") == ("nccl-b200", "nccl-h200", "neuron-trn1")


def test_every_value_has_a_kind_a_source_and_a_date() -> None:
    # law: no number without a source, whatever the variant
    seen = 0
    for spec in every_spec():
        values = dict(every_value(spec))
        assert len(values) >= (5 if isinstance(spec, CollectiveFamily) else 6), spec.name
        for name, value in values.items():
            assert value.kind in get_args(Kind), (spec.name, name)
            assert len(value.source) > 15, (spec.name, name)
            assert date(2020, 1, 1) < date.fromisoformat(value.read), (spec.name, name)
            seen += 1
    assert seen > 400


def test_every_plain_field_of_a_specification_has_its_source() -> None:
    # law: a plain number stands in `basis` under its own name, with the same value
    for spec in every_spec():
        for name, sourced in ({} if isinstance(spec, Chip) else spec.basis).items():
            value: object = spec
            for step in name.split("."):
                value = getattr(value, step)
            if name != "ring_chip_order":  # the file gives it for one host, the specification for the server
                assert value == sourced.value, (spec.name, name)
    cores = load_chip("trainium1").neuron_cores
    assert cores is not None
    assert {"count", "lnc", "default_lnc"} == set(cores.basis)
    assert {"chips", "chips_per_host"} <= set(load_server("trn2.3xlarge").basis)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_value_without_source_kind_or_unit_is_refused(path: Path) -> None:
    # law: taking the source or the kind away from any value, or the unit from any text with one, is a problem there
    document, model = read_document(path), MODELS[path.parent.name]
    assert problems_of(document, model) == ()
    for value in values_of(document.data):
        key = ".".join(value)
        for entry in ("source", "kind"):
            assert f"{key}.{entry}" in {p.key for p in problems_of(changed(document, value, **{entry: None}), model)}
        written = document.value_of(f"{key}.value")
        if isinstance(written, str) and value[0] != "facts":
            assert f"{key}.value" in {p.key for p in problems_of(changed(document, value, value=5), model)}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_declared_source_is_used(path: Path) -> None:
    cited = set(re.findall(r"source: ([\w.-]+)", path.read_text()))
    assert cited == set(read_document(path).data["sources"])


def test_specifications_travel_between_processes() -> None:
    for spec in every_spec():
        assert pickle.loads(pickle.dumps(spec)) == spec  # noqa: S301  # our own bytes


def test_a_server_reads_only_its_own_file_and_its_chips(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def reading(path: Path) -> str:
        read.append(path.name)
        return read_text(path)

    monkeypatch.setattr(trnsim.hardware.catalog_files, "read_text", reading)
    family_for(load_server("trn2-ultraserver").chip)
    assert read == ["trn2-ultraserver.yaml", "trainium2.yaml", "neuron-trn2.yaml"]


def test_a_file_that_changes_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    text = (CATALOG / "families" / "neuron-trn1.yaml").read_text(encoding="utf-8")
    path.write_text(text, encoding="utf-8")
    before = load_family(str(path)).gemm_efficiency.value
    path.write_text(text.replace(str(before), "0.755"), encoding="utf-8")
    assert load_family(str(path)).gemm_efficiency.value == 0.755


@pytest.mark.parametrize(
    ("name", "chips", "bf16", "fp8", "fp32", "memory_gib", "bandwidth"),
    [
        # AWS Neuron SDK trn1-arch.rst, trn2-arch.rst, trn3-arch.rst: chips, PFLOP/s, GiB and TB/s (trn1: GiB/s) in all
        ("trn1.32xlarge", 16, 3.04, 3.04, 0.76, 512, 13_120 * GIB / 1e12),
        ("trn1n.32xlarge", 16, 3.04, 3.04, 0.76, 512, 13_120 * GIB / 1e12),
        ("trn2.48xlarge", 16, 10.7, 20.8, 2.9, 1536, 46.4),
        ("trn2-ultraserver", 64, 42.8, 83.2, 11.6, 6144, 185.6),
        ("trn3-gen1-ultraserver", 64, 42.944, 161.088, 11.712, 9216, 313.6),
        ("trn3-gen2-ultraserver", 144, 96.624, 362.448, 26.352, 20_736, 705.6),
    ],
)
def test_chips_times_chip_is_what_aws_prints_for_the_server(
    name: str, chips: int, bf16: float, fp8: float, fp32: float, memory_gib: int, bandwidth: float
) -> None:
    server = load_server(name)
    chip = server.chip
    assert server.chips == chips
    assert chips * chip.memory_bytes.value == memory_gib * GIB
    # printed with three digits for trn2, and the UltraServer is four times the rounded instance: within 0.3 %
    for dtype, printed in (("bf16", bf16), ("fp8", fp8), ("fp32", fp32)):
        assert chips * chip.peak_flops_per_s[dtype].value == pytest.approx(printed * 1e15, rel=3e-3)
    assert chips * chip.memory_bandwidth_bytes_per_s.value == pytest.approx(bandwidth * 1e12, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "efa_gbit"),
    [
        ("trn1.32xlarge", 800),
        ("trn1n.32xlarge", 1600),
        ("trn2.48xlarge", 3200),
        ("trn2-ultraserver", 4 * 3200),
        ("trn3-gen1-ultraserver", 12_800),
        ("trn3-gen2-ultraserver", 28_800),
    ],
)
def test_efa_of_all_chips_is_what_aws_prints(name: str, efa_gbit: float) -> None:
    server = load_server(name)
    assert server.scale_out is not None
    assert server.chips * server.scale_out.bandwidth_bytes_per_s.value * 8 == pytest.approx(efa_gbit * 1e9, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "both_ways_gb"),
    [("trn1.32xlarge", 384), ("trn1n.32xlarge", 768), ("trn2.48xlarge", 1024), ("trn2-ultraserver", 1280)],
)
def test_neuronlink_of_a_torus_chip_is_what_aws_prints(name: str, both_ways_gb: float) -> None:
    # two neighbours on each axis, two directions on each link; 1.28 TB/s = 2 x (4 x 128 + 2 x 64)
    scale_up = load_server(name).scale_up
    assert isinstance(scale_up, TorusScaleUp)
    per_direction = sum(2 * link.bandwidth_bytes_per_s.value for link in scale_up.links)
    assert 2 * per_direction == pytest.approx(both_ways_gb * 1e9, rel=1e-12)


@pytest.mark.parametrize(
    ("variant", "per_direction_gb"),
    [
        ("", (512, 512, 128)),  # 64, 64 and 16 lanes of PCIe 6 at 8 GB/s
        ("@pessimistic", (256, 320, 128)),  # 4, 5 and 2 links of 8 lanes, as the text of AWS's page counts them
    ],
)
@pytest.mark.parametrize("name", ["trn3-gen1-ultraserver", "trn3-gen2-ultraserver"])
def test_neuronlink_of_a_switched_chip(name: str, variant: str, per_direction_gb: tuple[float, ...]) -> None:
    server = load_server(name + variant)
    scale_up = server.scale_up
    assert isinstance(scale_up, SwitchedScaleUp)
    rates = [link.bandwidth_bytes_per_s.value for link in (scale_up.sled, scale_up.rack, scale_up.cross)]
    assert rates == [gb * 1e9 for gb in per_direction_gb]
    assert server.name == name + variant
    assert "pessimistic" in server.variants
    # the default adds up to the 2,048 (without the cross-rack cable) that AWS prints a chip, both directions summed
    if not variant:
        assert 2 * (rates[0] + rates[1]) == 2048e9


@pytest.mark.parametrize(
    ("name", "hops"),
    [("trn3-gen1-ultraserver", (1, 2, 3)), ("trn3-gen2-ultraserver", (1, 3, 4))],  # SemiAnalysis, 2025-12-04
)
def test_path_latencies_stand_in_the_proportion_of_the_hops(name: str, hops: tuple[int, int, int]) -> None:
    # chip - sled switch - chip; chip - rack switch - chip; the latter and the cable to the twin; one hop is 1.5 us
    scale_up = load_server(name).scale_up
    assert isinstance(scale_up, SwitchedScaleUp)
    in_sled = 2 * scale_up.sled.latency_s.value
    in_rack = 2 * scale_up.rack.latency_s.value
    to_other_rack = in_rack + scale_up.cross.latency_s.value
    assert (in_sled, in_rack, to_other_rack) == pytest.approx([1.5e-6 * hop for hop in hops], rel=1e-12)


def test_shapes_and_hosts() -> None:
    # the product of the axes, or racks x rack, is the number of chips; hosts divide it
    for name in names("servers"):
        server = load_server(name)
        assert server.hosts * server.chips_per_host == server.chips
        match server.scale_up:
            case TorusScaleUp(dims=dims, links=links):
                assert math.prod(dims) == server.chips
                assert len(links) == len(dims)
            case SwitchedScaleUp(sled_size=sled, rack_size=rack):
                assert rack % sled == 0
                assert server.chips == 2 * rack
            case StarScaleUp():
                assert server.chips > 1
            case NoScaleUp():
                assert server.chips == 1
    assert load_server("trn2-ultraserver").hosts == 4
    assert load_server("trn3-gen1-ultraserver").hosts == 4
    assert load_server("trn3-gen2-ultraserver").hosts == 36
    # 9,216 chips: 144 Trn2 UltraServers of 4 hosts, 64 Trn3 UltraServers of 36
    assert (144 * 4, 64 * 36) == (576, 2304)


def test_effective_bandwidth_is_datasheet_times_achieved() -> None:
    efa = load_server("trn2.48xlarge").scale_out
    assert efa is not None
    assert efa.effective_bytes_per_s == pytest.approx(25e9 * 0.68, rel=1e-12)
    assert efa.latency_s.value == pytest.approx(15e-6, rel=1e-12)


def test_a_server_without_efa_says_so() -> None:
    assert load_server("trn1.2xlarge").scale_out is None


def test_ring_order_walks_neighbours_in_rings_of_eight() -> None:
    # rows 0 and 3, then rows 1 and 2: each half of an instance is a closed walk over links of the 4 x 4 torus
    for name, instances in (("trn2.48xlarge", 1), ("trn2-ultraserver", 4)):
        server = load_server(name)
        order = server.ring_chip_order
        assert order is not None
        assert sorted(order) == list(range(server.chips))
        for ring in (order[start : start + 8] for start in range(0, 16 * instances, 8)):
            for a, b in zip(ring, (*ring[1:], ring[0]), strict=True):
                dx, dy = (a - b) % 4, (a // 4 - b // 4) % 4
                assert a // 16 == b // 16
                assert (dx in {1, 3}) + (dy in {1, 3}) == 1
                assert 0 in {dx, dy}


def test_use_of_an_instance() -> None:
    trn1, trn2 = load_server("trn1.32xlarge").instance_use, load_server("trn2.48xlarge").instance_use
    assert trn1 is not None
    assert (trn1.unit, trn1.allowed, trn1.reported) == ("neuron_core", (1, 2, 8, 32), (16,))
    assert trn2 is not None
    assert (trn2.unit, trn2.allowed, trn2.reported) == ("chip", (1, 4, 8, 16), ())
    assert load_server("trn3-gen2-ultraserver").instance_use is None


@pytest.mark.parametrize(
    ("name", "cores", "lnc", "default", "logical"),
    [("trainium1", 2, (1,), 1, 2), ("trainium2", 8, (1, 2), 2, 4), ("trainium3", 8, (1, 2), 2, 4)],
)
def test_logical_cores(name: str, cores: int, lnc: tuple[int, ...], default: int, logical: int) -> None:
    chip = load_chip(name)
    assert chip.neuron_cores is not None
    assert (chip.neuron_cores.count, chip.neuron_cores.lnc, chip.neuron_cores.default_lnc) == (cores, lnc, default)
    assert chip.logical_cores(default) == logical
    assert chip.logical_cores(1) == cores
    with pytest.raises(ValueError, match=f"{name} allows LNC 1"):
        chip.logical_cores(3)


def test_core_links_scale_with_the_sustained_dma_bandwidth_of_a_logical_core() -> None:
    # 16 DMA engines a core at 17, 23 and 33 B/ns; the link of two ranks alone is measured on Trainium1, the others take the ratio
    engine = {"trainium1": 17, "trainium2": 23, "trainium3": 33}
    first = load_chip("trainium1").neuron_cores
    assert first is not None
    measured = first.link_bandwidth_bytes_per_s
    assert (measured.low, measured.value, measured.kind) == (58e9, 67.3e9, "inferred")
    for name in ("trainium2", "trainium3"):
        cores = load_chip(name).neuron_cores
        assert cores is not None
        ratio = cores.default_lnc * engine[name] / (first.default_lnc * engine["trainium1"])
        assert cores.link_bandwidth_bytes_per_s.value == pytest.approx(58e9 * ratio, rel=2e-3)
        assert cores.link_bandwidth_bytes_per_s.kind == "assumed"


def test_the_tensor_engines_alone() -> None:
    # 8 cores x 128 x 128 x 2 x 2.4 GHz = 629 TFLOP/s, printed as 8 x 79 = 632; the chip pages say 667 and 671
    for name, chip_peak in (("trainium2", 667e12), ("trainium3", 671e12)):
        chip = load_chip(name)
        assert chip.peak_flops_per_s["bf16"].value == chip_peak
        assert chip.tensor_engine_flops_per_s["bf16"].value == 632e12
        assert chip.tensor_engine_flops_per_s["bf16"].value == pytest.approx(8 * 128 * 128 * 2 * 2.4e9, rel=5e-3)


@pytest.mark.parametrize(
    ("name", "bandwidth"),
    [("trainium1@decimal-bandwidth", 820e9), ("trainium2@nki-guide", 3e12), ("trainium3@nki-guide", 4.7e12)],
)
def test_contradictions_about_the_hbm_are_variants(name: str, bandwidth: float) -> None:
    chip, default = load_chip(name), load_chip(name.partition("@")[0])
    assert chip.memory_bandwidth_bytes_per_s.value == bandwidth
    assert default.memory_bandwidth_bytes_per_s.value != bandwidth
    assert chip.memory_bytes == default.memory_bytes
