"""The story of a rank, on pipelines whose times are known in closed form."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from pipelines import BUCKETS, activity, exchanges, passes, plan, run_pipeline

from trnsim.engine import account
from trnsim.schedules import Pipeline, interleaved_names, schedule_kind, schedule_names
from trnsim.training import SEND_ACTIVATION, RankPlan

F, B = 1e-3, 2e-3
MILLISECOND = 10**9


@st.composite
def pipelines(draw: st.DrawFn, most_rounds: int = 3) -> tuple[str, Pipeline]:
    """Draw a schedule and a pipeline that it can have."""
    kind = schedule_kind(draw(st.sampled_from(schedule_names())))
    stages = draw(st.integers(2 if kind.interleaves else 1, 5))
    rounds = draw(st.integers(1, most_rounds)) * stages
    microbatches = rounds if kind.whole_rounds else draw(st.integers(1, rounds))
    return kind.name, Pipeline(stages, microbatches, draw(st.integers(2, 4)) if kind.interleaves else 1)


def plans_of(kind: str, pipeline: Pipeline, **transfers: object) -> list[RankPlan]:
    return [plan(kind, stage, pipeline, passes(F, B), **transfers) for stage in range(pipeline.stages)]


@given(pipelines())
def test_the_bubble_of_equal_stages_with_free_transfers(shape: tuple[str, Pipeline]) -> None:
    # m v slots of work and the idle slots that the schedule states: for GPipe and 1F1B p - 1, and so for interleaved 1F1B,
    # whose slots are 1/v as long (Narayanan et al. 2021, section 2.2); to the picosecond, also for m < p.
    kind, pipeline = shape
    _, window = run_pipeline(plans_of(kind, pipeline))
    works, idles = pipeline.microbatches * pipeline.virtual_stages, schedule_kind(kind).bubble_slots(pipeline)
    assert window.duration_s == (works + idles) * 3 / 1000
    parts = account(window.last, window).by_heading()
    assert parts.get("bubble", 0.0) == idles * 3 / 1000
    assert parts["compute"] == works * 3 / 1000


@pytest.mark.parametrize("kind", schedule_names())
@pytest.mark.parametrize("sends", ["blocking", "overlapped"])
def test_64_more_microbatches_add_exactly_64_slots(kind: str, sends: str) -> None:
    # T(m) = a + m x slot, so T(128) - T(64) = 64 slots, transfers or not; a slot is all of a stage, v virtual stages.
    v = 2 if kind in interleaved_names() else 1
    for transfer_s in (0.0, 0.3e-3):
        ends = []
        for microbatches in (64, 128):
            given_ = {
                "send_activation_s": transfer_s,
                "send_gradient_s": transfer_s,
                "blocking_sends": sends == "blocking",
            }
            ends.append(run_pipeline(plans_of(kind, Pipeline(4, microbatches, v), **given_))[1].end_ps)
        slots, rest = divmod(ends[1] - ends[0], 64)
        assert rest == 0
        assert slots >= 3 * v * MILLISECOND
        if transfer_s == 0.0:
            assert slots == 3 * v * MILLISECOND


@given(pipelines(), st.booleans(), st.integers(0, 3), st.data())
def test_the_step_is_never_below_the_busiest_stage_or_the_critical_path(
    shape: tuple[str, Pipeline], blocking: bool, transfer: int, data: st.DataObject
) -> None:
    # Nothing stalls. T >= m (F + B) of every stage, and T >= one microbatch through all virtual stages and back; the parts
    # of the rank that finishes last sum to the step to the picosecond.
    kind, pipeline = shape
    size = pipeline.last + 1
    lengths = data.draw(st.lists(st.integers(1, 5), min_size=size, max_size=size))
    plans = []
    for stage in range(pipeline.stages):
        held = [lengths[place] for place in pipeline.virtual_stages_of(stage)]
        work = [passes(length * F, length * B) for length in held]
        sends = {"send_activation_s": transfer * F, "send_gradient_s": transfer * F, "blocking_sends": blocking}
        plans.append(plan(kind, stage, pipeline, work, **sends))
    _, window = run_pipeline(plans)
    busiest = max(
        sum(lengths[place] for place in pipeline.virtual_stages_of(stage)) for stage in range(pipeline.stages)
    )
    assert window.end_ps >= 3 * pipeline.microbatches * busiest * MILLISECOND
    assert window.end_ps >= (3 * sum(lengths) + 2 * transfer * pipeline.last) * MILLISECOND
    assert sum(round(part * 1e12) for part in account(window.last, window).by_heading().values()) == window.end_ps


@given(pipelines(), st.integers(0, 12))
def test_sends_that_overlap_never_cost_more(shape: tuple[str, Pipeline], quarters: int) -> None:
    # A rank that need not wait for its messages is never later than one that must.
    kind, pipeline = shape
    sends = {"send_activation_s": quarters * F / 4, "send_gradient_s": quarters * F / 4}
    blocking, overlapped = (
        run_pipeline(plans_of(kind, pipeline, **sends, blocking_sends=blocks))[1].end_ps for blocks in (True, False)
    )
    assert overlapped <= blocking


def test_a_message_hides_behind_the_next_pass() -> None:
    # 2 stages of 2 virtual stages, 4 microbatches; a message takes 0.4 of a forward pass. Overlapped, the first rank works
    # without a break through its warm-up of 2 (p - 1) + (v - 1) p = 4 forward passes; blocking, it stops after each of them.
    starts = {}
    for blocks in (True, False):
        sends = {"send_activation_s": 0.4e-3, "send_gradient_s": 0.4e-3, "blocking_sends": blocks}
        engine, _ = run_pipeline(plans_of("interleaved-1f1b", Pipeline(2, 4, 2), **sends))
        forwards = [row.start_ps for row in engine.cohorts[0].log.rows() if row.operation.name == "forward"]
        starts[blocks] = [start / MILLISECOND for start in forwards[:2]]
    assert starts == {True: [0.0, 1.4], False: [0.0, 1.0]}


def test_messages_of_one_way_follow_one_another() -> None:
    # A message of 2.5 ms after each forward pass of 1 ms: the second is ready at 2 ms and leaves at 3.5 ms, when the first
    # has arrived; until then the sender is blocked.
    sends = {"send_activation_s": 2.5e-3, "send_gradient_s": 0.0, "blocking_sends": False}
    engine, _ = run_pipeline(plans_of("gpipe", Pipeline(2, 2), **sends))
    sent = [row for row in engine.cohorts[0].stream.rows() if row.operation is SEND_ACTIVATION]
    assert [(row.ready_ps, row.end_ps) for row in sent] == [(10**9, 35 * 10**8), (35 * 10**8, 6 * 10**9)]
    blocked = [row for row in engine.cohorts[0].log.rows() if row.operation is SEND_ACTIVATION]
    assert [(row.start_ps, row.end_ps) for row in blocked[:1]] == [(2 * 10**9, 35 * 10**8)]


def test_one_slow_stage_sets_the_beat() -> None:
    # One stage k times as long: m k (F + B) + (p - 1)(F + B), for GPipe wherever it is, for 1F1B at the end.
    stages, microbatches, slow = 4, 16, 3
    for kind, places in (("gpipe", range(stages)), ("1f1b", [stages - 1])):
        for place in places:
            plans = [
                plan(
                    kind,
                    stage,
                    Pipeline(stages, microbatches),
                    passes(F, B) if stage != place else passes(slow * F, slow * B),
                )
                for stage in range(stages)
            ]
            _, window = run_pipeline(plans)
            assert window.duration_s == (microbatches * slow + stages - 1) * 3 / 1000


def test_a_second_step_begins_when_the_first_is_over() -> None:
    # The window is the time between the ends of two steps; in steady state it equals the first step.
    plans = plans_of("1f1b", Pipeline(3, 6))
    _, one = run_pipeline(plans, steps=1)
    _, two = run_pipeline(plans, steps=2)
    assert two.duration_s == two.first_step_s == one.duration_s == 8 * 3 / 1000


def test_buckets_hide_behind_the_backward_pass() -> None:
    # One stage, 4 buckets of 0.5 ms at 0.5, 1.0, 1.5, 2.0 ms into the last backward pass of 2 ms: only the
    # last one is exposed. Launched after the backward pass, all four are.
    work = passes(F, B, segments=4)
    beside, after = (
        exchanges(replace(BUCKETS, overlap=overlap), reduce_s=0.5e-3, buckets=4) for overlap in ("buckets", "none")
    )
    _, hidden = run_pipeline([plan("1f1b", 0, Pipeline(1, 2), work, exchanges=beside)], replicas=8)
    _, shown = run_pipeline([plan("1f1b", 0, Pipeline(1, 2), work, exchanges=after)], replicas=8)
    assert hidden.duration_s == 6.5e-3
    assert shown.duration_s == 8e-3
    assert account(hidden.last, hidden).by_heading() == {"compute": 6e-3, "exposed_dp": 0.5e-3}


def test_slow_buckets_queue_on_their_stream() -> None:
    # 4 buckets of 1 ms, ready every 0.5 ms from 4.5 ms on: they run back to back and end at 8.5 ms.
    slow = exchanges(reduce_s=1e-3, buckets=4)
    _, window = run_pipeline([plan("1f1b", 0, Pipeline(1, 2), passes(F, B, segments=4), exchanges=slow)], replicas=8)
    assert window.duration_s == 8.5e-3


def test_the_update_follows_the_reduction_and_the_gather_follows_the_update() -> None:
    # 3 ms of work, 1 ms reduce-scatter, 0.25 ms optimizer, 0.5 ms all-gather: 4.75 ms.
    rank_plan = plan(
        "1f1b",
        0,
        Pipeline(1, 1),
        passes(F, B),
        exchanges=exchanges(reduce_s=1e-3, gather_s=0.5e-3),
        optimizer=activity("optimizer", 0.25e-3, "optimizer"),
    )
    _, window = run_pipeline([rank_plan], replicas=4)
    assert window.duration_s == 4.75e-3
    assert account(window.last, window).by_heading() == {"compute": 3e-3, "exposed_dp": 1.5e-3, "optimizer": 0.25e-3}


def test_buckets_of_a_virtual_stage_leave_when_its_last_backward_pass_is_over() -> None:
    # 2 stages of 2 virtual stages, 4 microbatches of 3 ms: interleaved 1F1B ends the last backward pass of the second
    # virtual stage 2 passes of p = 2 microbatches before that of the first. Breadth-first has all of m = 4 in between, so that
    # a reduction of 8 ms hides behind them; only that of the first virtual stage is exposed.
    for kind, exposed in (("interleaved-1f1b", 12e-3), ("breadth-first", 8e-3)):
        pipeline = Pipeline(2, 4, 2)
        work = [passes(F, B, first=1), passes(F, B)]  # the bucket of the last virtual stage is the first to be complete
        plans = [plan(kind, stage, pipeline, work, exchanges=exchanges(reduce_s=8e-3, buckets=2)) for stage in range(2)]
        engine, window = run_pipeline(plans, replicas=8)
        first, second = (row.start_ps for row in engine.cohorts[0].stream.rows() if "gradients" in row.operation.name)
        backwards = [row.end_ps for row in engine.cohorts[0].log.rows() if row.operation.name == "backward"]
        places = [turn.virtual_stage for turn in plans[0].turns if turn.kind == "B"]
        assert first == max(end for end, place in zip(backwards, places, strict=True) if place == 2)
        assert second == backwards[-1]
        assert account(engine.cohorts[0], window).by_heading()["exposed_dp"] == pytest.approx(exposed)


@given(pipelines())
def test_events_grow_with_passes_and_not_with_ranks(shape: tuple[str, Pipeline]) -> None:
    # A stage pass is one event, a message one: fewer than 4 p v m; one a collective, two a process; ranks do not enter.
    kind, pipeline = shape
    work = [passes(F, B, first=pipeline.virtual_stages - 1 - number) for number in range(pipeline.virtual_stages)]
    plans = [
        plan(
            kind,
            stage,
            pipeline,
            work,
            exchanges=exchanges(reduce_s=1e-3, buckets=pipeline.virtual_stages),
        )
        for stage in range(pipeline.stages)
    ]
    few, _ = run_pipeline(plans, replicas=2)
    many, _ = run_pipeline(plans, replicas=100_000)
    assert few.events == many.events
    stages, microbatches, virtual_stages = pipeline
    collectives = stages * virtual_stages
    messages = 2 * pipeline.last * microbatches
    assert few.events == 2 * stages * virtual_stages * microbatches + messages + collectives + 2 * stages


@pytest.mark.parametrize("kind", schedule_names())
def test_32768_microbatches_are_linear(kind: str) -> None:
    # T(32,768) from T(64) and T(128): the same slot for each microbatch, within 0.1 %.
    v = 2 if kind in interleaved_names() else 1
    sends = {"send_activation_s": 0.1e-3, "send_gradient_s": 0.1e-3}
    few, more, many = (
        run_pipeline(plans_of(kind, Pipeline(2, microbatches, v), **sends))[1].end_ps
        for microbatches in (64, 128, 32768)
    )
    assert many == pytest.approx(few + (more - few) / 64 * (32768 - 64), rel=1e-3)
