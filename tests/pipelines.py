"""Hand-made pipelines: given times of virtual stages, no model behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trnsim.engine import Activity, Collective, Engine, Part, Transfer, Window, last_step
from trnsim.schedules import Pipeline, schedule, schedule_kind
from trnsim.training import Bucket, Neighbourhood, RankPlan, StagePasses, train

if TYPE_CHECKING:
    from collections.abc import Sequence


def activity(name: str, seconds: float, heading: str = "compute") -> Activity:
    return Activity(name, (Part(name, heading, seconds),))


def passes(forward_s: float, backward_s: float, segments: int = 1, first: int = 0) -> StagePasses:
    return StagePasses(
        forward=activity("forward", forward_s),
        backward=activity("backward", backward_s),
        segments=tuple(activity("backward", backward_s / segments) for _ in range(segments)),
        buckets=tuple(Bucket(first + number, 1, 1) for number in range(segments)),
    )


def plan(
    kind: str, stage: int, pipeline: Pipeline, work: StagePasses | Sequence[StagePasses], **transfers: Any
) -> RankPlan:
    """Plan one stage; `work` is that of its virtual stages, or of each of them."""
    places = pipeline.virtual_stages_of(stage)
    given: dict[str, Any] = {
        "send_activation_s": 0.0,
        "send_gradient_s": 0.0,
        "reduce_s": (),
        "overlap": True,
        "tied_s": None,
        "optimizer": activity("optimizer", 0.0, "optimizer"),
        "gather_s": None,
        "blocking_sends": schedule_kind(kind).sends == "blocking",
    }
    held = [work] * len(places) if isinstance(work, StagePasses) else work
    planned = {key.removesuffix("_s"): transfer(value) for key, value in {**given, **transfers}.items()}
    return RankPlan(
        turns=schedule(kind, pipeline)[stage],
        passes=dict(zip(places, held, strict=True)),
        end=pipeline.last,
        **planned,
    )


def transfer(value: Any) -> Any:
    """Make transfers of seconds; leave everything else alone."""
    if isinstance(value, tuple):
        return tuple(transfer(seconds) for seconds in value)
    return Transfer(value) if isinstance(value, float) else value


def run_pipeline(plans: list[RankPlan], *, replicas: int = 1, steps: int = 1) -> tuple[Engine, Window]:
    """Run one cohort a stage, each standing for `replicas` ranks that reduce their gradients together."""
    engine = Engine()
    cohorts = [engine.cohort(f"stage {stage}", ranks=replicas, first=f"pp{stage}") for stage in range(len(plans))]
    for stage, (cohort, rank_plan) in enumerate(zip(cohorts, plans, strict=True)):
        data = Collective("dp", {cohort: replicas}) if replicas > 1 else None
        goes_round = len(rank_plan.passes) > 1
        previous = cohorts[stage - 1] if stage or goes_round else None
        following = cohorts[(stage + 1) % len(cohorts)] if stage + 1 < len(cohorts) or goes_round else None
        near = Neighbourhood(previous, following, None, data, None)
        engine.start(cohort, train(cohort, rank_plan, near, steps))
    engine.run()
    return engine, last_step(cohorts)
