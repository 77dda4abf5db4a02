"""Schedules obey laws for pipelines of every shape, and replayed they have the bubble that theory gives."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import accumulate
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.schedules import (
    Pass,
    Pipeline,
    broken_rules,
    interleaved_names,
    schedule,
    schedule_kind,
    schedule_names,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trnsim.schedules import Kind


@st.composite
def shapes(draw: st.DrawFn, names: Sequence[str] = schedule_names()) -> tuple[Kind, Pipeline]:
    """Draw a schedule and a pipeline that it can have."""
    kind = schedule_kind(draw(st.sampled_from(names)))
    stages = draw(st.integers(2 if kind.interleaves else 1, 7))
    virtual_stages = draw(st.integers(2, 4)) if kind.interleaves else 1
    microbatches = draw(st.integers(1, 5)) * stages if kind.whole_rounds else draw(st.integers(1, 20))
    return kind, Pipeline(stages, microbatches, virtual_stages)


def needs(each: Pass, last: int) -> Iterator[Pass]:
    """Yield what a pass waits for: the virtual stage before it, or the one behind it and its own forward pass."""
    if each.kind == "B":
        yield each._replace(kind="F")
    neighbour = each.virtual_stage + (-1 if each.kind == "F" else 1)
    if 0 <= neighbour <= last:
        yield each._replace(virtual_stage=neighbour)


def replay(
    orders: Sequence[Sequence[Pass]], forwards: Sequence[int], backward: int, transfer: int = 0
) -> dict[Pass, int]:
    """Return the end of each pass; a backward pass takes `backward` times a forward pass, which `forwards` has by virtual stage."""
    ends: dict[Pass, int] = {}
    clocks, position = [0] * len(orders), [0] * len(orders)
    while any(position[stage] < len(order) for stage, order in enumerate(orders)):
        moved = False
        for stage, order in enumerate(orders):
            while position[stage] < len(order):
                each = order[position[stage]]
                before = list(needs(each, len(forwards) - 1))
                if not ends.keys() >= set(before):
                    break
                arrivals = (ends[one] + transfer * (one.virtual_stage != each.virtual_stage) for one in before)
                work = forwards[each.virtual_stage] * (1 if each.kind == "F" else backward)
                clocks[stage] = ends[each] = max([clocks[stage], *arrivals]) + work
                position[stage] += 1
                moved = True
        assert moved, "the schedule stalls"
    return ends


# --- laws of all schedules -----------------------------------------------------------------------------------------


@given(shapes())
def test_all_schedules_do_the_same_work(shape: tuple[Kind, Pipeline]) -> None:
    # F and B of every microbatch through every virtual stage, exactly once, on the stage that holds it
    kind, pipeline = shape
    work = Counter(each for order in schedule(kind.name, pipeline) for each in order)
    everything = {
        Pass(way, number, place)
        for way in ("F", "B")
        for number in range(pipeline.microbatches)
        for place in range(pipeline.last + 1)
    }
    assert work == Counter(everything)
    for stage, order in enumerate(schedule(kind.name, pipeline)):
        assert {each.virtual_stage % pipeline.stages for each in order} == {stage}


@given(shapes())
def test_forward_before_backward(shape: tuple[Kind, Pipeline]) -> None:
    kind, pipeline = shape
    for order in schedule(kind.name, pipeline):
        at = {each: position for position, each in enumerate(order)}
        assert all(at[each._replace(kind="F")] < at[each] for each in order if each.kind == "B")


@given(shapes())
def test_what_is_held_reaches_the_bound_and_not_more(shape: tuple[Kind, Pipeline]) -> None:
    # in flight = forward passes done less backward passes done; its maximum is what memory has to hold
    kind, pipeline = shape
    for stage, order in enumerate(schedule(kind.name, pipeline)):
        counts = [0, *accumulate(1 if each.kind == "F" else -1 for each in order)]
        assert counts[-1] == 0
        assert max(counts) == kind.in_flight(stage, pipeline)


@given(shapes(), st.integers(1, 5), st.integers(1, 4))
def test_bubble_of_equal_stages(shape: tuple[Kind, Pipeline], forward: int, backward: int) -> None:
    # A step is its work, m v slots of a forward and a backward pass through one virtual stage, and the idle slots that
    # the schedule states: the same on every stage, whatever a backward pass takes, with fewer microbatches than stages too.
    kind, pipeline = shape
    orders = schedule(kind.name, pipeline)
    ends = replay(orders, [forward] * (pipeline.last + 1), backward)
    slots = pipeline.microbatches * pipeline.virtual_stages + kind.bubble_slots(pipeline)
    assert max(ends.values()) == slots * forward * (1 + backward)


@given(shapes(), st.integers(0, 3), st.data())
def test_a_step_is_never_shorter_than_its_busiest_stage_or_its_critical_path(
    shape: tuple[Kind, Pipeline], transfer: int, data: st.DataObject
) -> None:
    # no stall, and T >= the work of any stage; T >= one microbatch through all virtual stages and back
    kind, pipeline = shape
    size = pipeline.last + 1
    forwards = data.draw(st.lists(st.integers(0, 7), min_size=size, max_size=size))
    end = max(replay(schedule(kind.name, pipeline), forwards, 2, transfer).values())
    work = [sum(forwards[place] for place in pipeline.virtual_stages_of(stage)) for stage in range(pipeline.stages)]
    assert end >= 3 * pipeline.microbatches * max(work)
    assert end >= 3 * sum(forwards) + 2 * transfer * pipeline.last


@given(shapes(("1f1b", "gpipe", "breadth-first")), st.data())
def test_the_slowest_stage_sets_the_beat(shape: tuple[Kind, Pipeline], data: st.DataObject) -> None:
    # one more microbatch costs the slowest stage's slot, once the pipeline is full; virtual stages of one stage alike
    kind, pipeline = shape
    lengths = data.draw(st.lists(st.integers(1, 7), min_size=pipeline.stages, max_size=pipeline.stages))
    full = pipeline.microbatches + 4 * pipeline.stages
    orders = [schedule(kind.name, pipeline._replace(microbatches=count)) for count in (full, full + 1)]
    ends = [max(replay(order, lengths * pipeline.virtual_stages, backward=2).values()) for order in orders]
    assert ends[1] - ends[0] == 3 * pipeline.virtual_stages * max(lengths)


@given(shapes(interleaved_names()), st.integers(1, 4))
def test_interleaving_divides_the_bubble(shape: tuple[Kind, Pipeline], backward: int) -> None:
    # the same model on v virtual stages a stage, each 1/v as long: what is idle is 1/v of that of 1F1B, exactly
    kind, pipeline = shape
    stages, _, virtual_stages = pipeline
    rounds = pipeline.microbatches * stages  # at least as many microbatches as stages
    idle = []
    for name, v in (("1f1b", 1), (kind.name, virtual_stages)):
        forward = virtual_stages // v
        orders = schedule(name, Pipeline(stages, rounds, v))
        work = rounds * virtual_stages * (1 + backward)
        idle.append(max(replay(orders, [forward] * (stages * v), backward).values()) - work)
    assert idle[0] == virtual_stages * idle[1] == virtual_stages * (stages - 1) * (1 + backward)


# --- what was published of each ------------------------------------------------------------------------------------


@given(shapes(("1f1b",)))
def test_1f1b_warms_up_as_megatron_and_then_alternates(shape: tuple[Kind, Pipeline]) -> None:
    # stage s: w = min(p - s - 1, m) forward passes, then F B in turn, then w backward passes; both in order 0 .. m-1
    kind, pipeline = shape
    microbatches = pipeline.microbatches
    for stage, order in enumerate(schedule("1f1b", pipeline)):
        warm_up = min(pipeline.stages - stage - 1, microbatches)
        assert "".join(each.kind for each in order) == "F" * warm_up + "FB" * (microbatches - warm_up) + "B" * warm_up
        for way in "FB":
            assert [each.microbatch for each in order if each.kind == way] == list(range(microbatches))
        assert kind.in_flight(stage, pipeline) == min(pipeline.stages - stage, microbatches)


@given(shapes(("gpipe",)))
def test_gpipe_goes_all_forward_then_all_backward(shape: tuple[Kind, Pipeline]) -> None:
    _, pipeline = shape
    microbatches = pipeline.microbatches
    for order in schedule("gpipe", pipeline):
        assert "".join(each.kind for each in order) == "F" * microbatches + "B" * microbatches
        assert [each.microbatch for each in order] == [*range(microbatches), *reversed(range(microbatches))]


@given(shapes(("interleaved-1f1b",)))
def test_interleaved_1f1b_warms_up_as_megatron(shape: tuple[Kind, Pipeline]) -> None:
    # Megatron-LM, get_pp_rank_microbatches: (p - s - 1) 2 + (v - 1) p forward passes, at most all m v of them, and from
    # then on one forward and one backward in turn
    _, (stages, microbatches, virtual_stages) = shape
    for stage, order in enumerate(schedule("interleaved-1f1b", shape[1])):
        every = microbatches * virtual_stages
        warm_up = min((stages - stage - 1) * 2 + (virtual_stages - 1) * stages, every)
        assert "".join(each.kind for each in order) == "F" * warm_up + "FB" * (every - warm_up) + "B" * warm_up


def test_interleaved_1f1b_takes_rounds_as_megatron() -> None:
    # Megatron-LM, get_schedule_table with groups of p = 2 microbatches and 2 virtual stages: microbatches 0 1 0 1 2 3 2 3 on
    # virtual stages 0 0 1 1 0 0 1 1 of the stage; backward the same with virtual stages 1 1 0 0 1 1 0 0. p = 2 is legal.
    for stage, order in enumerate(schedule("interleaved-1f1b", Pipeline(2, 4, 2))):
        taken = {way: [each[1:] for each in order if each.kind == way] for way in "FB"}
        low, high = stage, stage + 2
        assert taken["F"] == [(0, low), (1, low), (0, high), (1, high), (2, low), (3, low), (2, high), (3, high)]
        assert taken["B"] == [(0, high), (1, high), (0, low), (1, low), (2, high), (3, high), (2, low), (3, low)]


@given(st.integers(2, 16), st.integers(2, 8), st.integers(3, 8))
def test_memory_of_interleaved_1f1b_is_that_of_korthikanti(stages: int, virtual_stages: int, rounds: int) -> None:
    # arXiv:2205.05198, section 4.2.3: the first stage holds 1 + (p - 1)/(p v) times the p microbatches of 1F1B
    pipeline = Pipeline(stages, rounds * stages, virtual_stages)
    held = Fraction(schedule_kind("interleaved-1f1b").in_flight(0, pipeline), virtual_stages)
    assert held == stages * (1 + Fraction(stages - 1, stages * virtual_stages))


@given(shapes(("1f1b", "gpipe", "interleaved-1f1b")))
def test_bubble_is_that_of_the_megatron_paper(shape: tuple[Kind, Pipeline]) -> None:
    # SC21, section 2.2: idle over ideal time is (p - 1)/m, and (p - 1)/(v m) with v virtual stages
    kind, pipeline = shape
    stages, microbatches, virtual_stages = pipeline
    assert Fraction(kind.bubble_slots(pipeline), microbatches * virtual_stages) == Fraction(
        stages - 1, virtual_stages * microbatches
    )


@given(shapes(("breadth-first",)))
def test_breadth_first_is_done_with_one_virtual_stage_after_the_other(shape: tuple[Kind, Pipeline]) -> None:
    # all microbatches through each virtual stage in the order of the model, then all back: everything is held at the turn
    kind, pipeline = shape
    for stage, order in enumerate(schedule(kind.name, pipeline)):
        passes = [
            (place, number) for place in pipeline.virtual_stages_of(stage) for number in range(pipeline.microbatches)
        ]
        assert [(each.virtual_stage, each.microbatch) for each in order] == [*passes, *reversed(passes)]
        assert kind.in_flight(stage, pipeline) == pipeline.microbatches * pipeline.virtual_stages


# --- names and refusals --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spelling", ["1F1B", "1f1b", "GPipe", "g-pipe"])
def test_names_are_read_without_regard_to_case_and_dashes(spelling: str) -> None:
    assert len(schedule(spelling, Pipeline(3, 5))) == 3


def test_an_unknown_schedule_gets_the_list() -> None:
    known = "1f1b, breadth-first, gpipe, interleaved-1f1b"
    with pytest.raises(ValueError, match=rf'unknown schedule "1f2b"; did you mean 1f1b.*\? known: {known}'):
        schedule("1f2b", Pipeline(2, 2))


@pytest.mark.parametrize("pipeline", [Pipeline(0, 1), Pipeline(1, 0), Pipeline(-2, 4), Pipeline(2, 2, 0)])
def test_nothing_to_schedule_is_refused(pipeline: Pipeline) -> None:
    with pytest.raises(ValueError, match="needs stages, microbatches and virtual stages"):
        schedule("1f1b", pipeline)


@pytest.mark.parametrize(
    ("name", "pipeline", "broken"),
    [
        ("interleaved-1f1b", Pipeline(4, 6, 2), {"microbatches": (4, 8)}),
        ("interleaved-1f1b", Pipeline(4, 2, 2), {"microbatches": (4,)}),
        ("interleaved-1f1b", Pipeline(4, 8, 1), {"virtual_stages": ()}),
        ("interleaved-1f1b", Pipeline(1, 8, 2), {"stages": ()}),
        ("interleaved-1f1b", Pipeline(2, 2, 2), {}),
        ("breadth-first", Pipeline(4, 2, 2), {}),
        ("breadth-first", Pipeline(1, 2, 1), {"stages": (), "virtual_stages": ()}),
        ("1f1b", Pipeline(4, 6, 2), {"virtual_stages": ()}),
        ("gpipe", Pipeline(1, 1, 1), {}),
    ],
)
def test_shapes_that_a_schedule_cannot_have(name: str, pipeline: Pipeline, broken: dict[str, tuple[int, ...]]) -> None:
    # rule 5: microbatches a multiple of p, v > 1, p > 1; p = 2 is legal, and breadth-first takes any number of microbatches
    assert {each.number: each.nearest for each in broken_rules(schedule_kind(name), pipeline)} == broken
    if broken:
        with pytest.raises(ValueError, match=name):
            schedule(name, pipeline)
