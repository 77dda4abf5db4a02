"""Tensor-parallel collectives beside their matmul: what is exposed, in closed form."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small import simulate_small

from trnsim.engine import Activity, Transfer
from trnsim.training import Rates, priced_blocks, stage_passes
from trnsim.workload import Block, Exchange, Work

if TYPE_CHECKING:
    from pathlib import Path

UNIT = Rates(
    peak_flops_per_s=1.0,
    memory_bandwidth_bytes_per_s=1.0,
    gemm_efficiency=1.0,
    memory_efficiency=1.0,
    flop_time_ratio={},
    byte_term="hidden",
    host_layer_s=0.0,
    host_pass_s=0.0,
    collective_skew_s=0.0,
    scale_skew_fraction=0.0,
)
GATHER, SCATTER = Exchange("up input", "all-gather", 1), Exchange("down sum", "reduce-scatter", 1)


def layer(matmul: int) -> Block:
    """Two matmuls of that length between a gather and a reduce-scatter, and something between them."""
    up, between, down = Work("up", matmul, 0), Work("between", 7, 0), Work("down", matmul, 0)
    return Block("layer", (GATHER, up, between, down, SCATTER), (), (), 1, 0)


def forward(matmul: int, ranks: int, collective_s: float, rates: Rates = UNIT, pace: Rates = UNIT) -> Activity:
    """Return the forward pass of one such layer, whose collectives take that long, half of it on links."""
    transfer = Transfer(collective_s, {"link": collective_s / 2})
    own, paced = (
        priced_blocks([layer(matmul)], each, lambda _: transfer, recompute="none", ring_ranks=ranks)
        for each in (rates, pace)
    )
    passes = stage_passes(own, paced, [])
    return passes.forward


@given(st.integers(2, 64), st.integers(1, 100), st.floats(0.5, 300.0))
def test_all_but_one_of_the_parts_of_a_matmul_hide_a_collective(ranks: int, matmul: int, collective_s: float) -> None:
    # Exposed: max(0, T - (t-1)/t x matmul), twice; the links are as busy as without a ring.
    ring, alone = (forward(matmul, n, collective_s) for n in (ranks, 1))
    exposed = sum(part.duration_s for part in ring.parts if part.heading == "exposed_tp")
    assert exposed == pytest.approx(2 * max(0.0, collective_s - (ranks - 1) / ranks * matmul))
    assert sum(part.duration_s for part in ring.parts if part.heading == "compute") == 2 * matmul + 7
    assert sum(sum(part.transfer.busy_s.values()) for part in ring.parts if part.transfer) == pytest.approx(
        collective_s
    )
    assert alone.duration_s == pytest.approx(2 * matmul + 7 + 2 * collective_s)
    assert ring.rendezvous == 0


@given(st.integers(1, 64), st.integers(1, 100), st.floats(0.5, 300.0), st.floats(0.05, 0.95))
def test_a_group_has_its_links_alike_however_fast_each_rank_is(
    ranks: int, matmul: int, collective_s: float, speed: float
) -> None:
    # One collective is on the links once: who is faster waits for the slowest, whose matmul hides most of it.
    slow = UNIT.at_speed(speed)
    of_fast, of_slow = (forward(matmul, ranks, collective_s, rates, slow) for rates in (UNIT, slow))
    assert of_fast.joint_course.stints == of_slow.joint_course.stints
    assert of_fast.duration_ps == of_slow.duration_ps == of_fast.joint_course.duration_ps
    assert sum(part.duration_s for part in of_fast.parts if part.heading == "compute") == pytest.approx(2 * matmul + 7)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rings")


def test_a_ring_changes_exposed_time_and_nothing_else(folder: Path) -> None:
    alone, ring = (
        simulate_small(folder, training__tensor_parallel_overlap=overlap, run__fidelity="closed_form", run__skew="off")
        for overlap in ("none", "ring")
    )
    assert ring.step.breakdown_s.compute == pytest.approx(alone.step.breakdown_s.compute, rel=1e-6)
    assert ring.step.breakdown_s.exposed_tp < alone.step.breakdown_s.exposed_tp
    assert [use.bytes for use in ring.collectives] == [use.bytes for use in alone.collectives]
    assert ring.memory == alone.memory


def test_all_reduces_have_no_ring(folder: Path) -> None:
    # Without sequence parallelism there is nothing to gather or to scatter.
    overrides = {"layout__sequence_parallel": "false", "training__tensor_parallel_overlap": "ring"}
    ring, alone = (simulate_small(folder, **overrides), simulate_small(folder, layout__sequence_parallel="false"))
    assert ring.step.time_s == alone.step.time_s
    assert any("training.tensor_parallel_overlap has no effect" in warning for warning in ring.warnings)
