"""Kernels of core attention that are slower in the backward pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from small import load_small

from trnsim.hardware import Sourced, load_family
from trnsim.simulation.estimate import estimate
from trnsim.simulation.machine import build_rates

if TYPE_CHECKING:
    from pathlib import Path

    from trnsim.scenario import Scenario

ALONE = {"layout__tp": 1, "layout__pp": 1, "layout__dp": 1, "training__global_batch": 4, "run__steps": 1}
LAYERS, TOKENS, HIDDEN, SEQUENCE = 8, 512, 1024, 512


def with_ratio(scenario: Scenario, ratio: float | None) -> Scenario:
    number = None if ratio is None else Sourced(ratio, "assumed", "a law", "2026-11-30")
    family = replace(scenario.cluster.software, attention_backward_ratio=number)
    return replace(scenario, cluster=replace(scenario.cluster, software=family))


@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
def test_gradients_of_attention_take_longer_and_nothing_else(tmp_path: Path, recompute: str) -> None:
    # of 4 microbatches: 8 layers x 2.5 x 4 n s h FLOPs, (r - 1) times as long; what runs again is a forward pass
    scenario = load_small(tmp_path, **ALONE, training__recompute=recompute)
    rates = build_rates(scenario)
    flops = 4 * LAYERS * 2.5 * 4 * TOKENS * SEQUENCE * HIDDEN
    one_s, longer_s = (estimate(with_ratio(scenario, ratio)).time_s for ratio in (1.0, 1.6))
    attention_s = flops * rates.flop_time_ratio["core_attention"] / rates.matmul_flops_per_s
    assert longer_s - one_s == pytest.approx(0.6 * attention_s, rel=1e-6)
    assert estimate(with_ratio(scenario, None)).time_s == one_s


def test_triton_kernels_are_slower_backward() -> None:
    # FlashAttention-2, arXiv 2307.08691: up to 73 and 63 % of the peak, 1.3 to 1.5 and 2 times as fast as those in Triton
    ratio = load_family("fsdp-h100").attention_backward_ratio
    assert ratio is not None
    found = [ratio.low, ratio.value, ratio.high]
    assert found == pytest.approx([(73 / faster) / (63 / 2) for faster in (1.5, 1.4, 1.3)], abs=0.01)
