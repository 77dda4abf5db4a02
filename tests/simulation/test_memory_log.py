"""Memory over time: the peak of a simulated step is what the order of its passes says, and all that comes goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from small import load_small, simulate_small

import trnsim
from trnsim.simulation.machine import build_machine, build_rates, build_step
from trnsim.simulation.memory import stage_memories

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("memory")


@settings(max_examples=25)
@given(
    kind=st.sampled_from(["gpipe", "1f1b", "interleaved-1f1b"]),
    pp=st.sampled_from([1, 2, 4]),
    rounds=st.integers(1, 3),
    zero=st.integers(0, 1),
    overlap=st.sampled_from(["none", "buckets", "prefetch"]),
    recompute=st.sampled_from(["none", "full"]),
    sends=st.sampled_from(["blocking", "overlapped"]),
)
def test_the_simulated_peak_is_that_of_the_order_of_passes(
    folder: Path, kind: str, pp: int, rounds: int, zero: int, overlap: str, recompute: str, sends: str
) -> None:
    # Without shared gradients and weights, what is held depends on the order of passes alone: the same peak, term by term,
    # on every stage; and the step ends with what it began with.
    interleaved = kind.startswith("interleaved")
    if pp == 1:
        kind, interleaved = "1f1b", False
    scenario = load_small(
        folder,
        schedule__kind=kind,
        schedule__virtual_stages=2 if interleaved else 1,
        schedule__sends=sends,
        layout__pp=pp,
        layout__zero=zero,
        training__global_batch=4 * pp * rounds,
        training__data_parallel_overlap=overlap,
        training__recompute=recompute,
    )
    report, counted = trnsim.memory(scenario), stage_memories(scenario)
    assert [peak.terms.terms() for peak in report.stages] == [
        {term: getattr(memory.terms, term) for term in report.worst.terms.terms()} for memory in counted
    ]
    first, last = report.timeline[0].terms, report.timeline[-1].terms
    assert (last.activations, last.buffers, last.communication) == (0, 0, 0)
    assert first.weights == last.weights
    assert all(point.terms.activations >= 0 for point in report.timeline)


@settings(max_examples=25)
@given(
    zero=st.sampled_from([2, 3]),
    dp=st.sampled_from([2, 4, 8]),
    overlap=st.sampled_from(["none", "buckets", "prefetch"]),
    prefetch=st.integers(1, 3),
    reshard=st.sampled_from(["true", "false"]),
    microbatches=st.integers(1, 3),
    bucket=st.sampled_from([1, 20_000_000]),
)
def test_shared_weights_and_gradients_stay_below_what_is_counted(
    folder: Path, zero: int, dp: int, overlap: str, prefetch: int, reshard: str, microbatches: int, bucket: int
) -> None:
    # What is gathered and not yet reduced depends on when it travels, and is never more than counted beforehand.
    scenario = load_small(
        folder,
        layout__pp=1,
        layout__dp=dp,
        layout__zero=zero,
        layout__reshard_after_forward=reshard,
        training__prefetch=prefetch,
        training__data_parallel_overlap=overlap,
        training__global_batch=dp * microbatches,
        training__bucket_parameters=bucket,
        training__recompute="full",
    )
    report, counted = trnsim.memory(scenario), stage_memories(scenario)[0].terms
    assert report.worst.bytes <= counted.total
    assert report.worst.terms.activations <= counted.activations
    assert any(point.terms.communication for point in report.timeline)
    assert report.timeline[-1].terms.communication == 0


def test_gathered_weights_come_and_go_with_their_blocks(folder: Path) -> None:
    # ZeRO-3, nothing ahead: one block's weights at a time in forward passes (2 bytes), and its fp32 gradient backward.
    scenario = load_small(
        folder,
        layout__pp=1,
        layout__dp=8,
        layout__zero=3,
        training__data_parallel_overlap="none",
        training__global_batch=8,
    )
    layer = 12 * 1024**2 // 2 + 2 * 1024
    seen = {point.terms.communication for point in trnsim.memory(scenario).timeline}
    assert {0, 2 * layer, 6 * layer} <= seen


def test_the_peak_is_found_in_the_last_step_and_named(folder: Path) -> None:
    # GPipe holds all microbatches at the turn: the last of them goes back first.
    report = trnsim.memory(load_small(folder, schedule__kind="gpipe", training__global_batch=16, run__steps=3))
    assert report.worst.during == "backward pass of microbatch 3"
    assert 0 < report.worst.time_s < report.step_time_s


def test_an_update_of_many_kernels_needs_12_bytes_more_a_parameter(folder: Path) -> None:
    # 12 of 12 bytes as long as the update lasts; with little else in flight it is the peak.
    scenario = load_small(folder, training__fused_update="false", layout__zero=0, training__sequence_length=2)
    report = trnsim.memory(scenario)
    assert report.worst.during == "update"
    assert report.worst.terms.buffers == report.worst.terms.optimizer
    assert [memory.terms.buffers for memory in stage_memories(scenario)][
        report.worst.stage
    ] == report.worst.terms.buffers


@pytest.mark.parametrize(("rank", "ranks_per_chip"), [("chip", 1), ("logical_core", 4)])
def test_states_with_the_host_take_no_memory_and_pass_over_its_link(
    folder: Path, rank: str, ranks_per_chip: int
) -> None:
    # 12 bytes a parameter each way at once over a rank's part of 64 GB/s, against 34 bytes of traffic in HBM at 4.9 TB/s.
    alone = {"layout__zero": 0, "layout__dp": 1, "layout__pp": 1, "training__global_batch": 1, "layout__rank": rank}
    before = simulate_small(folder, **alone)
    after = simulate_small(folder, **alone, training__optimizer_offload="true")
    assert after.memory.by_term_bytes.optimizer == 0
    states = before.memory.by_term_bytes.optimizer
    assert after.step.breakdown_s.optimizer == pytest.approx(states / (64e9 / ranks_per_chip), rel=1e-9)
    assert after.step.breakdown_s.optimizer > 10 * before.step.breakdown_s.optimizer
    assert "server.host_bandwidth_bytes_per_s" in after.assumptions.assumed
    assert "server.host_bandwidth_bytes_per_s" not in before.assumptions.assumed


def test_an_update_takes_the_longer_of_memory_and_the_way_to_the_host(folder: Path) -> None:
    # a way without end to its bandwidth leaves what HBM takes
    scenario = load_small(folder)
    spec = build_step(scenario, build_machine(scenario), build_rates(scenario), folding=True)
    assert replace(spec, host_bytes_per_s=1e30).update_s(10**9, spec.rates) == spec.update_s(10**9, spec.rates)
