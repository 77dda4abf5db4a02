"""A schedule drawn: when passes run, checked against what the schedule states and against an independent replay."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trnsim.errors import InputError
from trnsim.schedules import schedule_kind, schedule_names
from trnsim.simulation.schedule_grid import schedule_grid


@settings(max_examples=30)
@given(st.sampled_from(schedule_names()), st.integers(2, 5), st.integers(1, 3), st.integers(2, 3), st.integers(1, 4))
def test_a_grid_is_as_long_as_its_slots(name: str, stages: int, rounds: int, several: int, backward: int) -> None:
    # every stage works m v slots of 1 + b and idles what the schedule states; passes of a stage follow one another;
    # a pass begins when what it needs is over, and the last one ends the step
    virtual_stages = several if schedule_kind(name).interleaves else 1
    grid = schedule_grid(
        name, stages=stages, microbatches=rounds * stages, virtual_stages=virtual_stages, backward=backward
    )
    assert grid.time == grid.slots * (1 + backward) == max(each.end for each in grid.passes)
    busy = Counter(dict.fromkeys(range(stages), 0))
    ends = {each[1:4]: each.end for each in grid.passes}
    for before, each in zip((None, *grid.passes), grid.passes, strict=False):
        busy[each.stage] += each.end - each.start
        if before is not None and before.stage == each.stage:
            assert before.end <= each.start
        way = -1 if each.kind == "F" else 1
        neighbour = (each.kind, each.microbatch, each.virtual_stage + way)
        assert ends.get(neighbour, 0) <= each.start
    assert set(busy.values()) == {(grid.slots - grid.idle_slots) * (1 + backward)}
    assert grid.bubble_fraction == pytest.approx(1 - busy[0] / grid.time)
    assert grid.bubble_over_work == pytest.approx(grid.time / busy[0] - 1)


def test_what_is_wrong_is_said_at_once() -> None:
    with pytest.raises(InputError) as error:
        schedule_grid("interleaved-1f1b", stages=4, microbatches=6)
    assert {problem.key: problem.value for problem in error.value.problems} == {
        "virtual_stages": "1",
        "microbatches": "6",
    }
    with pytest.raises(InputError, match="8,000,000 passes are too many"):
        schedule_grid("1f1b", stages=4, microbatches=1_000_000)
    with pytest.raises(InputError, match="did you mean gpipe"):
        schedule_grid("gpip", stages=4, microbatches=4)
    with pytest.raises(InputError, match="backward = 0"):
        schedule_grid("gpipe", stages=4, microbatches=4, backward=0)
