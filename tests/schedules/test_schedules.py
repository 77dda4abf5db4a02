"""Schedules obey laws for any number of stages and microbatches, and replayed they have the bubble that theory gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.schedules import Pass, in_flight, schedule, schedule_names

if TYPE_CHECKING:
    from collections.abc import Sequence

kinds = st.sampled_from(schedule_names())
stage_counts = st.integers(1, 9)
microbatch_counts = st.integers(1, 24)


def replay(orders: Sequence[Sequence[Pass]], durations: Sequence[int], backward: int) -> int:
    """Return the end of the last pass; a backward pass takes `backward` times a forward pass, transfers take nothing.

    A forward pass waits for the stage before, a backward pass for the stage behind and its own forward pass.
    """
    stages = len(orders)
    ends: dict[tuple[int, Pass], int] = {}
    clocks, position = [0] * stages, [0] * stages
    while any(position[stage] < len(orders[stage]) for stage in range(stages)):
        moved = False
        for stage, order in enumerate(orders):
            while position[stage] < len(order):
                each = order[position[stage]]
                before = (
                    {(stage - 1, each)}
                    if each.kind == "F"
                    else {(stage, Pass("F", each.microbatch)), (stage + 1, each)}
                )
                needed = {(neighbour, work) for neighbour, work in before if 0 <= neighbour < stages}
                if not needed <= ends.keys():
                    break
                start = max([clocks[stage], *(ends[key] for key in needed)])
                clocks[stage] = start + durations[stage] * (1 if each.kind == "F" else backward)
                ends[stage, each] = clocks[stage]
                position[stage] += 1
                moved = True
        assert moved, "the schedule stalls"
    return max(clocks)


@given(kinds, stage_counts, microbatch_counts)
def test_every_microbatch_passes_once_and_forward_first(kind: str, stages: int, microbatches: int) -> None:
    # each stage: F and B of every microbatch exactly once, F before B
    for order in schedule(kind, stages, microbatches):
        assert len(order) == 2 * microbatches
        at = {each: position for position, each in enumerate(order)}
        for microbatch in range(microbatches):
            assert at[Pass("F", microbatch)] < at[Pass("B", microbatch)]


@given(kinds, stage_counts, microbatch_counts)
def test_held_microbatches_reach_the_bound_and_not_more(kind: str, stages: int, microbatches: int) -> None:
    # in flight = forward passes done less backward passes done; its maximum is what memory has to hold
    for stage, order in enumerate(schedule(kind, stages, microbatches)):
        held = [0]
        for each in order:
            held.append(held[-1] + (1 if each.kind == "F" else -1))
        assert held[-1] == 0
        assert max(held) == in_flight(kind, stage, stages, microbatches)


@given(stage_counts, microbatch_counts)
def test_1f1b_warms_up_as_megatron_and_then_alternates(stages: int, microbatches: int) -> None:
    # stage s: w = min(p - s - 1, m) forward passes, then F B in turn, then w backward passes; both in order 0 .. m-1
    for stage, order in enumerate(schedule("1f1b", stages, microbatches)):
        warm_up = min(stages - stage - 1, microbatches)
        kinds_in_order = "".join(each.kind for each in order)
        assert kinds_in_order == "F" * warm_up + "FB" * (microbatches - warm_up) + "B" * warm_up
        for kind in "FB":
            assert [each.microbatch for each in order if each.kind == kind] == list(range(microbatches))
        assert in_flight("1f1b", stage, stages, microbatches) == min(stages - stage, microbatches)


@given(stage_counts, microbatch_counts)
def test_gpipe_goes_all_forward_then_all_backward(stages: int, microbatches: int) -> None:
    for order in schedule("gpipe", stages, microbatches):
        assert "".join(each.kind for each in order) == "F" * microbatches + "B" * microbatches
        assert [each.microbatch for each in order] == [*range(microbatches), *reversed(range(microbatches))]


@given(kinds, stage_counts, microbatch_counts, st.integers(1, 5), st.integers(1, 4))
def test_bubble_of_equal_stages(kind: str, stages: int, microbatches: int, forward: int, backward: int) -> None:
    # a step is (m + p - 1) slots of one forward and one backward pass; of these m work, so the bubble is
    # (p - 1)/(m + p - 1), also with fewer microbatches than stages
    end = replay(schedule(kind, stages, microbatches), [forward] * stages, backward)
    slot = forward * (1 + backward)
    assert end == (microbatches + stages - 1) * slot
    assert (end - microbatches * slot) * (microbatches + stages - 1) == (stages - 1) * end


@given(kinds, stage_counts, microbatch_counts, st.data())
def test_the_slowest_stage_sets_the_beat(kind: str, stages: int, microbatches: int, data: st.DataObject) -> None:
    # one more microbatch costs the slowest stage's slot, once the pipeline is full
    durations = data.draw(st.lists(st.integers(1, 7), min_size=stages, max_size=stages))
    full = microbatches + 4 * stages
    ends = [replay(schedule(kind, stages, count), durations, backward=2) for count in (full, full + 1)]
    assert ends[1] - ends[0] == 3 * max(durations)


@pytest.mark.parametrize("spelling", ["1F1B", "1f1b", "GPipe", "g-pipe"])
def test_names_are_read_without_regard_to_case_and_dashes(spelling: str) -> None:
    assert len(schedule(spelling, 3, 5)) == 3


def test_an_unknown_schedule_gets_the_list() -> None:
    with pytest.raises(ValueError, match=r'unknown schedule "1f2b"; did you mean 1f1b\? known: 1f1b, gpipe'):
        schedule("1f2b", 2, 2)


@pytest.mark.parametrize(("stages", "microbatches"), [(0, 1), (1, 0), (-2, 4)])
def test_nothing_to_schedule_is_refused(stages: int, microbatches: int) -> None:
    with pytest.raises(ValueError, match="needs a stage and a microbatch"):
        schedule("1f1b", stages, microbatches)


@pytest.mark.parametrize("stage", [-1, 4])
def test_a_stage_that_is_not_there_is_refused(stage: int) -> None:
    with pytest.raises(ValueError, match="no stage"):
        in_flight("gpipe", stage, 4, 8)
