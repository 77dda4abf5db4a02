"""Hand-made pipelines: equal or given stage times, no model behind them."""

from __future__ import annotations

from trnsim.engine import Activity, Collective, Engine, Part, Transfer, Window, last_step
from trnsim.schedules import schedule
from trnsim.training import Bucket, Neighbourhood, RankPlan, StagePasses, train


def activity(name: str, seconds: float, heading: str = "compute") -> Activity:
    return Activity(name, (Part(name, heading, seconds),))


def passes(forward_s: float, backward_s: float, segments: int = 1) -> StagePasses:
    return StagePasses(
        forward=activity("forward", forward_s),
        backward=activity("backward", backward_s),
        segments=tuple(activity("backward", backward_s / segments) for _ in range(segments)),
        buckets=tuple(Bucket(f"gradients {number}", 1, 1) for number in range(segments)),
    )


def plan(kind: str, stage: int, stages: int, microbatches: int, work: StagePasses, **transfers: object) -> RankPlan:
    given: dict[str, object] = {
        "send_activation_s": 0.0,
        "send_gradient_s": 0.0,
        "reduce_s": (),
        "overlap": True,
        "tied_s": None,
        "optimizer": activity("optimizer", 0.0, "optimizer"),
        "gather_s": None,
    }
    turns = schedule(kind, stages, microbatches)[stage]
    planned = {key.removesuffix("_s"): transfer(value) for key, value in {**given, **transfers}.items()}
    return RankPlan(turns=turns, passes=work, **planned)  # type: ignore[arg-type]


def transfer(value: object) -> object:
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
        previous = cohorts[stage - 1] if stage else None
        following = cohorts[stage + 1] if stage + 1 < len(cohorts) else None
        near = Neighbourhood(previous, following, None, data, None)
        engine.start(cohort, train(cohort, rank_plan, near, steps))
    engine.run()
    return engine, last_step(cohorts)
