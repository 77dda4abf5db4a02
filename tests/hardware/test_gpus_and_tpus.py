"""GPUs and TPUs of the catalog: their counts multiply to what their makers print for the whole machine."""

from __future__ import annotations

import math

import pytest

from trnsim.hardware import StarScaleUp, TorusScaleUp, load_chip, load_server


@pytest.mark.parametrize(
    ("server", "chips", "host", "terabytes_per_s", "nic_gbit"),
    [
        # NVLink of all GPUs, both directions; compute NICs of the node
        ("dgx-a100", 8, 8, 4.8, 1_600),
        ("dgx-a100-40gb", 8, 8, 4.8, 1_600),
        ("hgx-a100-4nic", 8, 8, 4.8, 800),
        ("hgx-a100-4nic@4x100g", 8, 8, 4.8, 400),
        ("dgx-h100", 8, 8, 7.2, 3_200),
        ("dgx-h200", 8, 8, 7.2, 3_200),
        ("dgx-b200", 8, 8, 14.4, 3_200),
        ("nvl72", 72, 4, 129.6, 28_800),
        ("gb300-nvl72", 72, 4, 129.6, 57_600),
    ],
)
def test_bandwidths_of_a_server_of_gpus(
    server: str, chips: int, host: int, terabytes_per_s: float, nic_gbit: float
) -> None:
    found = load_server(server)
    assert isinstance(found.scale_up, StarScaleUp)
    assert (found.chips, found.chips_per_host) == (chips, host)
    assert 2 * chips * found.scale_up.switch.bandwidth_bytes_per_s.value == pytest.approx(terabytes_per_s * 1e12)
    assert found.scale_out is not None
    assert chips * found.scale_out.bandwidth_bytes_per_s.value * 8 == pytest.approx(nic_gbit * 1e9)


@pytest.mark.parametrize(
    ("server", "petaflops_bf16_sparse", "terabytes_per_s"),
    [("dgx-h100", 15.83, 26.8), ("dgx-b200", 36, 64), ("nvl72", 360, 576), ("gb300-nvl72", 360, 576)],
)
def test_totals_of_a_server(server: str, petaflops_bf16_sparse: float, terabytes_per_s: float) -> None:
    # a whole machine is printed with sparsity, which doubles the dense peak
    chips, chip = load_server(server).chips, load_server(server).chip
    assert 2 * chips * chip.peak_flops_per_s["bf16"].value == pytest.approx(petaflops_bf16_sparse * 1e15, rel=1e-3)
    assert chips * chip.memory_bandwidth_bytes_per_s.value == pytest.approx(terabytes_per_s * 1e12)


@pytest.mark.parametrize(
    ("server", "dims", "gigabytes_per_s"),
    [
        ("tpu-v4-4x4x4", (4, 4, 4), 600),
        ("tpu-v4-4x4x4@12x16x16", (12, 16, 16), 600),
        ("tpu-v5e-16x16", (16, 16), 400),
        ("tpu-v5p-4x4x4", (4, 4, 4), 1_200),
        ("tpu-v5p-8x8x8", (8, 8, 8), 1_200),
        ("tpu-v5p-8x8x8@16x16x8", (16, 16, 8), 1_200),
        ("tpu-v6e-16x16", (16, 16), 800),
        ("tpu-v6e-16x16@2x4", (2, 4), 800),
        ("tpu-v7-4x8x8", (4, 8, 8), 1_200),
        ("tpu-v7-4x8x8@4x4x4", (4, 4, 4), 1_200),
    ],
)
def test_links_of_a_tpu(server: str, dims: tuple[int, ...], gigabytes_per_s: float) -> None:
    # two links an axis, both directions
    scale_up = load_server(server).scale_up
    assert isinstance(scale_up, TorusScaleUp)
    assert scale_up.dims == dims
    assert load_server(server).chips == math.prod(dims)
    total = sum(2 * 2 * link.bandwidth_bytes_per_s.value for link in scale_up.links)
    assert total == pytest.approx(gigabytes_per_s * 1e9)


def test_a_line_carries_half_of_what_a_ring_does() -> None:
    # slices of v6e with fewer than 16 chips along an axis have no cable back to its first chip
    for name, rings in (
        ("16x16", 2),
        ("16x16@8x16", 1),
        ("16x16@8x8", 0),
        ("16x16@4x8", 0),
        ("16x16@4x4", 0),
        ("16x16@2x4", 0),
    ):
        scale_up = load_server(f"tpu-v6e-{name}").scale_up
        assert isinstance(scale_up, TorusScaleUp)
        shares = [link.achieved_fraction.value for link in scale_up.links]
        assert shares == [0.45] * (2 - rings) + [0.9] * rings


def test_fp8_doubles_the_peak_from_hopper_on() -> None:
    for name in ("h100", "h200", "b200", "gb200", "gb300", "tpu-v7"):
        peaks = load_chip(name).peak_flops_per_s
        assert peaks["fp8"].value == pytest.approx(2 * peaks["bf16"].value, rel=1e-3)
    for name in ("a100-40", "a100-80", "tpu-v4", "tpu-v5e", "tpu-v6e"):
        assert "fp8" not in load_chip(name).peak_flops_per_s


def test_a_chip_without_neuron_cores_is_one_rank() -> None:
    chip = load_chip("h100")
    assert chip.logical_cores(None) == 1
    with pytest.raises(ValueError, match="h100 allows no LNC, not 1"):
        chip.logical_cores(1)
    with pytest.raises(ValueError, match="trainium2 allows LNC 1 or 2, not None"):
        load_chip("trainium2").logical_cores(None)
