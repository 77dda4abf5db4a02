"""A steady state changes nothing but the events: every time of every rank is the one that is simulated without it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from drawn_steps import (
    SERVERS,
    Drawn,
    layouts,
    of_a_scenario,
    of_drawn_prices,
    palettes,
    slow_chips,
    speeds,
)
from hypothesis import event, given, settings
from hypothesis import strategies as st
from pipelines import activity, passes, plan
from small import load_small, simulate_small

import trnsim
from trnsim.engine import Engine, Transfer
from trnsim.schedules import Pass, Pipeline, borders, repeats, schedule, schedule_names
from trnsim.training import Neighbourhood, RankPlan, Steady, train

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from trnsim.engine import Cohort
    from trnsim.training import Member


def told(cohorts: Iterable[Cohort]) -> Iterator[tuple[object, ...]]:
    """Yield everything that is known of each cohort at the end of a run."""
    for cohort in cohorts:
        for log in (cohort.log, cohort.stream):
            yield str(cohort), [operation.name for operation in log.operations], log.times_ps.tolist()
        yield str(cohort), cohort.step_ends


def compare(drawn: Drawn) -> int:
    """Hold a step in which steady states are looked for against one in which they are not; return the passes left out."""
    plain, nothing = drawn.live(drawn.folded)
    watched, turns = drawn.live(drawn.folded, is_watched=True)
    assert nothing == 0
    assert list(told(cohorts_of(watched))) == list(told(cohorts_of(plain)))
    return turns


def cohorts_of(members: tuple[Member, ...]) -> list[Cohort]:
    return [member.cohort for member in members]


def a_scenario_is_the_same(folder: Path, **drawn: Any) -> None:
    event(f"steady: {compare(of_a_scenario(folder, **drawn)) > 0}")


def drawn_prices_are_the_same(folder: Path, **drawn: Any) -> None:
    event(f"steady: {compare(of_drawn_prices(folder, **drawn)) > 0}")


scenarios = given(layout=layouts(most_rounds=12), chips=slow_chips, server=st.sampled_from(SERVERS))
steps = given(
    layout=layouts(most_rounds=12),
    chips=slow_chips,
    palette=palettes,
    seed=st.integers(0, 99),
    speed=speeds,
    interference=st.sampled_from([0.0, 0.5]),
)

test_scenarios = settings(max_examples=40)(scenarios(a_scenario_is_the_same))
test_drawn_prices = settings(max_examples=100)(steps(drawn_prices_are_the_same))

test_many_scenarios = pytest.mark.slow(settings(max_examples=1000)(scenarios(a_scenario_is_the_same)))
test_many_drawn_prices = pytest.mark.slow(settings(max_examples=4000)(steps(drawn_prices_are_the_same)))


@pytest.mark.parametrize("kind", schedule_names())
@pytest.mark.parametrize("zero", [0, 1, 2, 3])
@pytest.mark.parametrize("sends", ["blocking", "overlapped"])
def test_a_schedule_in_which_messages_do_not_pile_up_comes_to_a_steady_state(
    kind: str, zero: int, sends: str, folder: Path
) -> None:
    virtual_stages = 2 if kind in {"interleaved-1f1b", "breadth-first"} else 1
    layout = {
        "layout__pp": 2,
        "layout__zero": zero,
        "training__global_batch": 4 * 48,
        "schedule__kind": kind,
        "schedule__virtual_stages": virtual_stages,
        "schedule__sends": sends,
    }
    turns = compare(of_a_scenario(folder, layout, {}, SERVERS[3]))
    # Where all forward passes come first, what a stage has received and not used yet grows with every microbatch.
    assert turns > 48 or kind in {"gpipe", "breadth-first"}


def a_pipeline_that_catches_up(before_ps: int, late_ps: int) -> list[RankPlan]:
    """Return stages of 100, 1 and 100 ps, the second of which is late for its second step.

    It can post a message every 90 ps only, so after it has caught up it waits 10 ps less for each than for the one before,
    while both others do the same every 100 ps.
    """
    return [
        plan(
            "gpipe",
            stage,
            Pipeline(3, 80, 1),
            passes(work_ps * 1e-12, 7e-12),
            send_activation=Transfer(message_ps * 1e-12),
            send_gradient=Transfer(1e-12),
            optimizer=activity("optimizer", idle_ps * 1e-12, "optimizer"),
            blocking_sends=False,
        )
        for stage, (work_ps, message_ps, idle_ps) in enumerate([(100, before_ps, 0), (1, 90, late_ps), (100, 1, 0)])
    ]


def live(plans: list[RankPlan], *, is_watched: bool) -> list[Cohort]:
    """Let one rank a stage live through two steps."""
    engine = Engine()
    steady = Steady(engine) if is_watched else None
    ranks = [engine.cohort(f"stage {stage}", ranks=1, first=f"pp{stage}") for stage in range(len(plans))]
    for rank, own, before, after in zip(ranks, plans, [None, *ranks], [*ranks[1:], None], strict=False):
        engine.start(rank, train(rank, own, Neighbourhood(before, after, None, None, None, None), 2, steady))
    engine.run()
    if steady is not None:
        steady.settle()
    return ranks


@pytest.mark.parametrize("before_ps", [5, 15, 30, 50, 70])
@pytest.mark.parametrize("late_ps", [150, 300, 523])
def test_a_message_that_is_waited_for_until_it_may_be_posted_belongs_to_the_state(before_ps: int, late_ps: int) -> None:
    plans = a_pipeline_that_catches_up(before_ps, late_ps)
    watched, plain = (live(plans, is_watched=is_watched) for is_watched in (True, False))
    assert list(told(watched)) == list(told(plain))


@pytest.mark.parametrize("microbatches", [16, 64, 256])
def test_a_step_costs_as_many_events_whatever_its_microbatches(microbatches: int, folder: Path) -> None:
    few, many = (
        simulate_small(folder, layout__pp=4, layout__dp=1, training__global_batch=count) for count in (12, microbatches)
    )
    assert many.engine.events == few.engine.events
    assert many.step.time_s > few.step.time_s


def test_the_oracle_of_a_run_is_the_run_without_folding(folder: Path) -> None:
    # Without folding nothing is left out, and the fingerprint is the same.
    folded, single = (
        simulate_small(folder, layout__pp=4, training__global_batch=128, run__folding=folding)
        for folding in ("auto", "'off'")
    )
    assert folded.provenance.fingerprint == single.provenance.fingerprint
    assert folded.engine.events < single.engine.events / 4


def test_what_is_left_out_is_said(folder: Path) -> None:
    result = trnsim.simulate(load_small(folder, layout__pp=4, training__global_batch=128))
    assert "steady state" in result.derived


@st.composite
def pipelines(draw: st.DrawFn) -> tuple[str, Pipeline]:
    kind = draw(st.sampled_from(schedule_names()))
    virtual = kind in {"interleaved-1f1b", "breadth-first"}
    stages = draw(st.integers(1 + virtual, 4))
    count = draw(st.integers(1, 5)) * (stages if virtual else 1)
    return kind, Pipeline(stages, count, 2 if virtual else 1)


@given(pipelines(), st.data())
def test_what_repeats_is_the_same_passes_some_microbatches_later(
    drawn: tuple[str, Pipeline], data: st.DataObject
) -> None:
    for turns in schedule(*drawn):
        first = data.draw(st.integers(0, len(turns) - 2))
        second = data.draw(st.integers(first + 1, len(turns) - 1))
        times, later = repeats(turns, first, second)
        length = second - first
        assert 0 <= times * length <= len(turns) - second
        for number in range(first, second + times * length + 1 if times else first):
            of_first = turns[first + (number - first) % length]
            moved = of_first.microbatch + (number - first) // length * later
            assert turns[number] == Pass(of_first.kind, moved, of_first.virtual_stage)
            assert number not in borders(turns)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("steady")
