"""The story of a rank, on pipelines whose times are known in closed form."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pipelines import activity, passes, plan, run_pipeline

from trnsim.engine import account

kinds = pytest.mark.parametrize("kind", ["gpipe", "1f1b"])
F, B = 1e-3, 2e-3


@kinds
@given(stages=st.integers(1, 6), microbatches=st.integers(1, 12))
def test_the_bubble_of_equal_stages_with_free_transfers(kind: str, stages: int, microbatches: int) -> None:
    # (p - 1) / (m + p - 1) of the step (Narayanan et al. 2021, section 2.2), for GPipe and 1F1B alike,
    # also for fewer microbatches than stages: T = (m + p - 1)(F + B) to the picosecond.
    plans = [plan(kind, stage, stages, microbatches, passes(F, B)) for stage in range(stages)]
    _, window = run_pipeline(plans)
    slots = microbatches + stages - 1
    assert window.duration_s == slots * 3 / 1000
    parts = account(window.last, window).by_heading()
    assert parts.get("bubble", 0.0) == (stages - 1) * 3 / 1000
    assert parts["compute"] == microbatches * 3 / 1000


@kinds
def test_64_more_microbatches_add_exactly_64_slots(kind: str) -> None:
    # T(m) = (m + p - 1) slot, so T(128) - T(64) = 64 slots, transfers or not.
    for transfer_s in (0.0, 0.3e-3):
        ends = []
        for microbatches in (64, 128):
            sends = {"send_activation_s": transfer_s, "send_gradient_s": transfer_s}
            plans = [plan(kind, stage, 4, microbatches, passes(F, B), **sends) for stage in range(4)]
            ends.append(run_pipeline(plans)[1].end_ps)
        slots, rest = divmod(ends[1] - ends[0], 64)
        assert rest == 0
        assert slots >= 3 * 10**9
        assert (transfer_s == 0.0) == (slots == 3 * 10**9)


@given(
    st.sampled_from(["gpipe", "1f1b"]),
    st.lists(st.integers(1, 5), min_size=1, max_size=5),
    st.integers(1, 8),
    st.integers(0, 3),
)
def test_the_step_is_never_below_the_busiest_stage_or_the_critical_path(
    kind: str, lengths: list[int], microbatches: int, transfer: int
) -> None:
    # T >= m (F_s + B_s) of every stage, and T >= one microbatch through all stages and back;
    # the parts of every rank that finishes last sum to the step to the picosecond.
    stages = len(lengths)
    plans = [
        plan(
            kind,
            stage,
            stages,
            microbatches,
            passes(length * F, length * B),
            send_activation_s=transfer * F if stage + 1 < stages else None,
            send_gradient_s=transfer * F if stage else None,
        )
        for stage, length in enumerate(lengths)
    ]
    _, window = run_pipeline(plans)
    millisecond = 10**9
    assert window.end_ps >= 3 * microbatches * max(lengths) * millisecond
    assert window.end_ps >= (3 * sum(lengths) + 2 * transfer * (stages - 1)) * millisecond
    assert sum(round(part * 1e12) for part in account(window.last, window).by_heading().values()) == window.end_ps


def test_one_slow_stage_sets_the_beat() -> None:
    # One stage k times as long: m k (F + B) + (p - 1)(F + B), for GPipe wherever it is, for 1F1B at the end.
    stages, microbatches, slow = 4, 16, 3
    for kind, places in (("gpipe", range(stages)), ("1f1b", [stages - 1])):
        for place in places:
            plans = [
                plan(kind, stage, stages, microbatches, passes(F, B) if stage != place else passes(slow * F, slow * B))
                for stage in range(stages)
            ]
            _, window = run_pipeline(plans)
            assert window.duration_s == (microbatches * slow + stages - 1) * 3 / 1000


def test_a_second_step_begins_when_the_first_is_over() -> None:
    # The window is the time between the ends of two steps; in steady state it equals the first step.
    plans = [plan("1f1b", stage, 3, 6, passes(F, B)) for stage in range(3)]
    _, one = run_pipeline(plans, steps=1)
    _, two = run_pipeline(plans, steps=2)
    assert two.duration_s == two.first_step_s == one.duration_s == 8 * 3 / 1000


def test_buckets_hide_behind_the_backward_pass() -> None:
    # One stage, 4 buckets of 0.5 ms at 0.5, 1.0, 1.5, 2.0 ms into the last backward pass of 2 ms: only the
    # last one is exposed. Launched after the backward pass, all four are.
    work = passes(F, B, segments=4)
    reduce_s = (0.5e-3,) * 4
    _, hidden = run_pipeline([plan("1f1b", 0, 1, 2, work, reduce_s=reduce_s)], replicas=8)
    _, shown = run_pipeline([plan("1f1b", 0, 1, 2, work, reduce_s=reduce_s, overlap=False)], replicas=8)
    assert hidden.duration_s == 6.5e-3
    assert shown.duration_s == 8e-3
    assert account(hidden.last, hidden).by_heading() == {"compute": 6e-3, "exposed_dp": 0.5e-3}


def test_slow_buckets_queue_on_their_stream() -> None:
    # 4 buckets of 1 ms, ready every 0.5 ms from 4.5 ms on: they run back to back and end at 8.5 ms.
    _, window = run_pipeline([plan("1f1b", 0, 1, 2, passes(F, B, segments=4), reduce_s=(1e-3,) * 4)], replicas=8)
    assert window.duration_s == 8.5e-3


def test_the_update_follows_the_reduction_and_the_gather_follows_the_update() -> None:
    # 3 ms of work, 1 ms reduce-scatter, 0.25 ms optimizer, 0.5 ms all-gather: 4.75 ms.
    rank_plan = plan(
        "1f1b",
        0,
        1,
        1,
        passes(F, B),
        reduce_s=(1e-3,),
        optimizer=activity("optimizer", 0.25e-3, "optimizer"),
        gather_s=0.5e-3,
    )
    _, window = run_pipeline([rank_plan], replicas=4)
    assert window.duration_s == 4.75e-3
    assert account(window.last, window).by_heading() == {"compute": 3e-3, "exposed_dp": 1.5e-3, "optimizer": 0.25e-3}


@given(st.integers(1, 6), st.integers(1, 10))
def test_events_grow_with_passes_and_not_with_ranks(stages: int, microbatches: int) -> None:
    # A stage pass is one event, a message one: at most 4 p m, one a collective, two a process; ranks do not enter.
    plans = [
        plan(
            "1f1b",
            stage,
            stages,
            microbatches,
            passes(F, B),
            send_activation_s=0.0 if stage + 1 < stages else None,
            send_gradient_s=0.0 if stage else None,
            reduce_s=(1e-3,),
        )
        for stage in range(stages)
    ]
    few, _ = run_pipeline(plans, replicas=2)
    many, _ = run_pipeline(plans, replicas=100_000)
    assert few.events == many.events
    assert few.events == 2 * stages * microbatches + 2 * (stages - 1) * microbatches + 3 * stages
