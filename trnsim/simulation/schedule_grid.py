"""A pipeline schedule on equal stages with free messages, lived through by the same story as a training step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsim.engine import Activity, Engine, Part, Transfer, last_step, stretches
from trnsim.parallel import Sharding
from trnsim.results.schedule_grid import ScheduleGrid, TimedPass
from trnsim.schedules import Pipeline, broken_rules, schedule, schedule_kind, schedule_names
from trnsim.simulation.problems import Report
from trnsim.training import Exchanges, Neighbourhood, RankPlan, StagePasses, train

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trnsim.engine import Cohort
    from trnsim.schedules import Pass

__all__ = ["schedule_grid"]

MOST_PASSES = 1_000_000
FREE = Transfer(0.0)
NOTHING = Activity("optimizer", ())


def schedule_grid(
    name: str, *, stages: int, microbatches: int, virtual_stages: int = 1, backward: int = 2
) -> ScheduleGrid:
    """Find when each pass of a schedule runs, if all virtual stages are equal and messages free.

    Parameters
    ----------
    name
        Name of the schedule.
    stages, microbatches, virtual_stages
        Shape of the pipeline; virtual stages on each stage. >= 1.
    backward
        Time of a backward pass, in forward passes. >= 1.

    Raises
    ------
    InputError
        With everything that is wrong.

    Examples
    --------
    >>> grid = schedule_grid("interleaved-1f1b", stages=4, microbatches=8, virtual_stages=2)
    >>> grid.slots, grid.idle_slots, grid.bubble_over_work, grid.in_flight
    (19, 3, 0.1875, (11, 9, 7, 5))
    """
    pipeline = Pipeline(stages, microbatches, virtual_stages)
    name = _checked(name, pipeline, backward)
    kind, orders = schedule_kind(name), schedule(name, pipeline)
    cohorts = _lived(orders, pipeline, backward)
    idle = kind.bubble_slots(pipeline)
    return ScheduleGrid(
        name=name,
        stages=stages,
        microbatches=microbatches,
        virtual_stages=virtual_stages,
        backward=backward,
        time=round(last_step(cohorts).duration_s),
        slots=microbatches * virtual_stages + idle,
        idle_slots=idle,
        in_flight=tuple(kind.in_flight(stage, pipeline) for stage in range(stages)),
        passes=tuple(each for stage, cohort in enumerate(cohorts) for each in _timed(stage, cohort, orders[stage])),
    )


def _checked(name: str, pipeline: Pipeline, backward: int) -> str:
    report = Report("schedule")
    found = report.choice("name", name, schedule_names(), "schedule")
    for key, number in {**pipeline._asdict(), "backward": backward}.items():
        report.count(key, number)
    report.close()
    for broken in broken_rules(schedule_kind(found), pipeline):
        report.add(broken.number, broken.text, getattr(pipeline, broken.number))
    passes = 2 * (pipeline.last + 1) * pipeline.microbatches
    if passes > MOST_PASSES:
        message = f"{passes:,} passes are too many to show one by one; at most {MOST_PASSES:,}"
        report.add("microbatches", message, pipeline.microbatches)
    report.close()
    return found


def _lived(orders: Sequence[tuple[Pass, ...]], pipeline: Pipeline, backward: int) -> Sequence[Cohort]:
    """Let one rank of each stage live through the schedule; a forward pass takes a second."""
    forward, back = (Activity(way, (Part(way, way, s),)) for way, s in (("forward", 1.0), ("backward", backward)))
    work = StagePasses(forward, back, forward_segments=(), segments=(), buckets=())
    engine = Engine()
    cohorts = [engine.cohort(f"stage {stage}", ranks=1, first=f"pp{stage}") for stage in range(pipeline.stages)]
    for stage, (cohort, turns) in enumerate(zip(cohorts, orders, strict=True)):
        plan = RankPlan(
            turns=turns,
            passes=dict.fromkeys(pipeline.virtual_stages_of(stage), work),
            end=pipeline.last,
            send_activation=FREE,
            send_gradient=FREE,
            blocking_sends=True,
            exchanges=Exchanges(Sharding(zero=0, ranks=1, group=1)),
            tied=None,
            optimizer=NOTHING,
        )
        near = Neighbourhood(cohorts[stage - 1], cohorts[(stage + 1) % pipeline.stages], None, None, None, None)
        engine.start(cohort, train(cohort, plan, near, steps=1))
    engine.run()
    return cohorts


def _timed(stage: int, cohort: Cohort, turns: tuple[Pass, ...]) -> Iterator[TimedPass]:
    performed = [each for each in stretches(cohort.log) if each.name in {"forward", "backward"}]
    for turn, each in zip(turns, performed, strict=True):
        yield TimedPass(stage, *turn, round(each.start_s), round(each.end_s))
