"""Hand-made pipelines: given times of virtual stages, no model behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trnsim.engine import Activity, Collective, Engine, Part, Transfer, Wait, Window, last_step
from trnsim.parallel import Sharding
from trnsim.schedules import Pipeline, schedule, schedule_kind
from trnsim.training import Exchanges, Launch, Neighbourhood, RankPlan, StagePasses, train

if TYPE_CHECKING:
    from collections.abc import Sequence

BUCKETS = Sharding(1, ranks=2, group=2, overlap="buckets")


def activity(name: str, seconds: float, heading: str = "compute") -> Activity:
    return Activity(name, (Part(name, heading, seconds),))


def passes(forward_s: float, backward_s: float, segments: int = 1, first: int = 0) -> StagePasses:
    return StagePasses(
        forward=activity("forward", forward_s),
        backward=activity("backward", backward_s),
        forward_segments=tuple(activity("forward", forward_s / segments) for _ in range(segments)),
        segments=tuple(activity("backward", backward_s / segments) for _ in range(segments)),
        buckets=tuple(range(first, first + segments)),
    )


def exchanges(
    sharding: Sharding = BUCKETS,
    *,
    reduce_s: float = 0.0,
    merge_s: float = 0.0,
    gather_s: float = 0.0,
    buckets: int = 1,
) -> Exchanges:
    """Exchange so many buckets, all alike; what takes no time is not exchanged."""

    def launches(name: str, seconds: float) -> tuple[Launch, ...]:
        waits = (Wait(f"{name} {number}", "straggler_wait", "exposed_dp") for number in range(buckets))
        return tuple(Launch(wait, Transfer(seconds)) for wait in waits if seconds)

    return Exchanges(
        sharding, launches("gradients", reduce_s), launches("copies", merge_s), launches("weights", gather_s)
    )


def plan(
    kind: str, stage: int, pipeline: Pipeline, work: StagePasses | Sequence[StagePasses], **given: Any
) -> RankPlan:
    """Plan one stage; `work` is that of its virtual stages, or of each of them; transfers are given in seconds."""
    places = pipeline.virtual_stages_of(stage)
    left_out: dict[str, Any] = {
        "send_activation_s": 0.0,
        "send_gradient_s": 0.0,
        "exchanges": Exchanges(BUCKETS),
        "tied_s": None,
        "optimizer": activity("optimizer", 0.0, "optimizer"),
        "blocking_sends": schedule_kind(kind).sends == "blocking",
    }
    held = [work] * len(places) if isinstance(work, StagePasses) else work
    planned: dict[str, Any] = {
        key.removesuffix("_s"): Transfer(value) if isinstance(value, float) else value
        for key, value in {**left_out, **given}.items()
    }
    return RankPlan(
        turns=schedule(kind, pipeline)[stage],
        passes=dict(zip(places, held, strict=True)),
        end=pipeline.last,
        **planned,
    )


def run_pipeline(plans: list[RankPlan], *, replicas: int = 1, steps: int = 1) -> tuple[Engine, Window]:
    """Run one cohort a stage, each standing for `replicas` ranks that reduce their gradients together."""
    engine = Engine()
    cohorts = [engine.cohort(f"stage {stage}", ranks=replicas, first=f"pp{stage}") for stage in range(len(plans))]
    for stage, (cohort, rank_plan) in enumerate(zip(cohorts, plans, strict=True)):
        sharing = Collective("dp", {cohort: replicas}) if replicas > 1 else None
        copies = Collective("dp copies", {cohort: 2}) if rank_plan.exchanges.merge else None
        goes_round = len(rank_plan.passes) > 1
        previous = cohorts[stage - 1] if stage or goes_round else None
        following = cohorts[(stage + 1) % len(cohorts)] if stage + 1 < len(cohorts) or goes_round else None
        near = Neighbourhood(previous, following, None, sharing, copies, None)
        engine.start(cohort, train(cohort, rank_plan, near, steps))
    engine.run()
    return engine, last_step(cohorts)
