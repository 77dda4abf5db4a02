"""Data-parallel exchanges on one stage of equal buckets: step times in closed form, bytes of textbooks, memory in order."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from pipelines import exchanges, passes, plan, run_pipeline
from small import load_small, simulate_small

from trnsim.collectives import busbw_factor
from trnsim.engine import account
from trnsim.parallel import Sharding
from trnsim.schedules import Pipeline
from trnsim.simulation.machine import build_machine
from trnsim.simulation.memory import stage_memories
from trnsim.simulation.simulated import run_engine

if TYPE_CHECKING:
    from pathlib import Path

    from trnsim import Result

F, B, MS = 4e-3, 8e-3, 10**9
NONE = Sharding(3, ranks=8, group=8)
PREFETCH = replace(NONE, overlap="prefetch")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data-parallel")


def step_ms(sharding: Sharding, *, buckets: int = 4, microbatches: int = 3, steps: int = 1, **travel_s: float) -> float:
    """Return the time of a step in milliseconds: a forward pass of 4 ms and a backward pass of 8 ms, cut in buckets."""
    work = passes(F, B, segments=buckets)
    rank = plan("1f1b", 0, Pipeline(1, microbatches), work, exchanges=exchanges(sharding, buckets=buckets, **travel_s))
    _, window = run_pipeline([rank], replicas=8, steps=steps)
    assert sum(round(part * 1e12) for part in account(window.last, window).by_heading().values()) == (
        window.end_ps - window.start_ps
    )
    return (window.end_ps - window.start_ps) / MS


@given(
    buckets=st.sampled_from([1, 2, 4]),
    microbatches=st.integers(1, 5),
    gather=st.integers(0, 4),
    reduce=st.integers(0, 4),
)
def test_without_overlap_everything_is_waited_for(buckets: int, microbatches: int, gather: int, reduce: int) -> None:
    # ZeRO-3: m (F + B + n (2 g + r)), for n buckets.
    found = step_ms(NONE, buckets=buckets, microbatches=microbatches, gather_s=gather * 1e-3, reduce_s=reduce * 1e-3)
    assert found == pytest.approx(microbatches * (12 + buckets * (2 * gather + reduce)))


def test_prefetch_hides_all_gathers_but_the_first_of_a_pass() -> None:
    # Blocks of 1 and 2 ms, gathers of 0.5 ms: each pass waits for its first gather, and the last reduction of a microbatch
    # is ahead of the next gather of their group, or of the end of the step: m (F + B + 2 g + r).
    assert step_ms(PREFETCH, gather_s=0.5e-3, reduce_s=0.25e-3) == pytest.approx(3 * (12 + 1 + 0.25))


def test_gathers_longer_than_blocks_set_the_pace() -> None:
    # Forward blocks of 1 ms, gathers of 3 ms: 4 g + one block; backward blocks of 2 ms: 4 g + one block.
    assert step_ms(PREFETCH, microbatches=1, gather_s=3e-3) == pytest.approx(4 * 3 + 1 + 4 * 3 + 2)


def test_one_block_ahead_is_as_good_as_more_on_blocks_that_are_alike() -> None:
    # A gather starts no later than the one before it ends, so deeper prefetch gains nothing here.
    times = [step_ms(replace(PREFETCH, prefetch=depth), gather_s=3e-3) for depth in (1, 2, 4)]
    assert times[0] == times[1] == times[2]


def test_weights_that_are_kept_are_gathered_once() -> None:
    # reshard_after_forward: false: the first forward pass of the step gathers, nothing else does.
    assert step_ms(replace(NONE, reshard_after_forward=False), gather_s=1e-3) == pytest.approx(3 * 12 + 4)


def test_zero_2_reduces_with_every_microbatch_and_zero_1_with_the_last() -> None:
    # 4 buckets of 1 ms: after every backward pass, or after the last.
    two, one = (step_ms(replace(NONE, zero=zero), reduce_s=1e-3) for zero in (2, 1))
    assert (two, one) == pytest.approx((3 * 12 + 3 * 4, 3 * 12 + 4))


@given(st.integers(1, 3), st.sampled_from([1, 2]))
def test_shared_weights_come_beside_the_next_forward_pass(microbatches: int, zero: int) -> None:
    # ZeRO-1 and 2: without prefetch n g after the update; with it only the first of the gathers, which are as long as blocks.
    after = step_ms(replace(NONE, zero=zero), microbatches=microbatches, steps=2, gather_s=1e-3)
    beside = step_ms(replace(PREFETCH, zero=zero), microbatches=microbatches, steps=2, gather_s=1e-3)
    assert (after, beside) == pytest.approx((12 * microbatches + 4, 12 * microbatches + 1))


def test_the_first_step_waits_for_weights_as_all_others() -> None:
    # A step begins with the weights of the update before it, so it takes what the next one takes.
    work = exchanges(replace(PREFETCH, zero=1), gather_s=1e-3, reduce_s=1e-3, buckets=4)
    _, window = run_pipeline(
        [plan("1f1b", 0, Pipeline(1, 2), passes(F, B, segments=4), exchanges=work)], replicas=8, steps=2
    )
    assert window.duration_s == window.first_step_s


def test_copies_are_summed_after_the_ranks_that_share() -> None:
    # Hybrid: the last bucket is reduced when the pass is over (1 ms), then summed over the copies (3 ms). The merges are
    # on groups of their own: 3 ms each for buckets that are ready every 2 ms, so the last ends 4 x 3 ms after the first began.
    hybrid = Sharding(1, ranks=16, group=8, overlap="buckets")
    last_backward = 12.0 - 8.0
    first_merge = last_backward + 2 + 1
    assert step_ms(hybrid, microbatches=1, reduce_s=1e-3, merge_s=3e-3) == pytest.approx(first_merge + 4 * 3)


def test_at_most_two_buckets_of_shared_gradients_are_whole() -> None:
    # Reductions of 6 ms, blocks of 2 ms: a bucket leaves when the one before is reduced, which is waited for in the pass.
    slow = exchanges(replace(PREFETCH, zero=2), reduce_s=6e-3, buckets=4)
    rank = plan("1f1b", 0, Pipeline(1, 1), passes(F, B, segments=4), exchanges=slow)
    engine, window = run_pipeline([rank], replicas=8)
    assert window.end_ps == (4 + 2 + 4 * 6) * MS
    names = [row.operation.name for row in engine.cohorts[0].log.rows()]
    waits = [name for number in range(3) for name in ("backward", f"gradients {number}")]
    assert names == ["forward", "backward", *waits, "gradients 3", "optimizer"]


def sent_bytes(result: Result) -> float:
    """Return what a rank sends along dp in a step, as textbooks count: 2 (N-1)/N for an all-reduce, (N-1)/N for its halves."""
    return sum(
        use.count * use.bytes * busbw_factor(use.op, use.group_size) for use in result.collectives if use.axis == "dp"
    )


def test_zero_3_sends_half_again_as_much_as_zero_0(folder: Path) -> None:
    # Rajbhandari et al., section 7: 2 Psi for ZeRO-0 to 2, 3 Psi for ZeRO-3, with one microbatch and one number format.
    one = {"layout__pp": 1, "layout__dp": 8, "training__global_batch": 8, "training__gradient_dtype": "bf16"}
    sent = [sent_bytes(simulate_small(folder, **one, layout__zero=zero)) for zero in range(4)]
    parameters = simulate_small(folder, **one).stages[0].parameters
    assert sent[0] == sent[1] == sent[2] == pytest.approx(2 * 2 * parameters * 7 / 8)
    assert sent[3] == pytest.approx(1.5 * sent[0])
    kept = simulate_small(folder, **one, layout__zero=3, layout__reshard_after_forward="false")
    assert sent_bytes(kept) == pytest.approx(sent[0])


def test_hybrid_sharding_sums_a_share_between_the_groups(folder: Path) -> None:
    # Groups of 4 among 8: (4-1)/4 twice inside, and an all-reduce of a quarter between two copies: 2 (2-1)/2 / 4.
    one = {"layout__pp": 1, "layout__dp": 8, "training__global_batch": 8, "training__gradient_dtype": "bf16"}
    result = simulate_small(folder, **one, layout__zero_group=4)
    parameters = result.stages[0].parameters
    assert sent_bytes(result) == pytest.approx(2 * parameters * (2 * 3 / 4 + 1 / 4), rel=1e-6)


def test_what_is_summed_between_groups_is_priced_as_a_share(folder: Path) -> None:
    # An all-reduce over 2 copies of a quarter of a bucket: 2 (2 - 1) shares on the wires, each over 1 to 3 links.
    scenario = load_small(folder, layout__tp=1, layout__pp=1, layout__dp=8, layout__zero_group=4)
    node = run_engine(scenario, build_machine(scenario), folding=True).folding.nodes[0]
    for bucket, price in zip(node.stage.buckets, node.prices.merge, strict=True):
        share = 4 * -(-bucket.parameters // 4)
        assert 1 <= sum(price.bytes_by_kind.values()) / (2 * share) <= 3


@given(st.sampled_from([2, 4, 8]), st.sampled_from(["fp32", "bf16"]), st.sampled_from(["master", "fp32", "bf16"]))
def test_more_sharing_needs_less_memory(folder: Path, dp: int, dtype: str, states: str) -> None:
    # ZeRO 3 <= 2 <= 1 <= 0 for what is kept from step to step, and with small buckets for all of it.
    terms = [
        stage_memories(
            load_small(
                folder,
                layout__dp=dp,
                layout__zero=zero,
                training__gradient_dtype=dtype,
                training__states=states,
                training__bucket_parameters=1,
                model__layers=32,
            )
        )[0].terms
        for zero in range(4)
    ]
    assert all(less.states < more.states for more, less in pairwise(terms))
    assert all(less.total < more.total for more, less in pairwise(terms))


def test_more_sharing_ranks_need_less_memory(folder: Path) -> None:
    totals = [
        stage_memories(load_small(folder, layout__dp=8, layout__zero=3, layout__zero_group=group))[0].terms.total
        for group in (2, 4, 8)
    ]
    assert totals == sorted(totals, reverse=True)
    assert len(set(totals)) == 3


def test_reductions_in_bf16_send_half(folder: Path) -> None:
    wide, narrow = (
        simulate_small(folder, layout__zero=0, layout__dp=8, training__reduce_dtype=dtype) for dtype in ("fp32", "bf16")
    )
    assert sent_bytes(narrow) == sent_bytes(wide) / 2
    assert narrow.memory.by_term_bytes.gradients == wide.memory.by_term_bytes.gradients


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
def test_the_optimizer_updates_a_share(folder: Path, zero: int) -> None:
    # Its HBM traffic is divided by the ranks that share, from ZeRO-1 on.
    alone, shared = (
        simulate_small(folder, layout__zero=zero, layout__dp=dp).step.breakdown_s.optimizer for dp in (1, 8)
    )
    assert shared == pytest.approx(alone / (8 if zero else 1), rel=1e-4)


def test_weights_of_all_virtual_stages_are_asked_for_when_the_step_begins(folder: Path) -> None:
    # Asked for by each virtual stage at its turn they would hold the pipeline up; so prefetch is no slower than no prefetch.
    shape = {"schedule__kind": "interleaved-1f1b", "schedule__virtual_stages": 4, "layout__pp": 2, "layout__dp": 8}
    after, beside = (
        simulate_small(folder, **shape, training__data_parallel_overlap=overlap, run__skew="off").step
        for overlap in ("buckets", "prefetch")
    )
    assert beside.time_s < after.time_s
    assert beside.breakdown_s.exposed_dp < after.breakdown_s.exposed_dp
