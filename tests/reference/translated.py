"""What trnsim is about to simulate, told to the oracle; and what it found, told in the oracle's words.

Everything is read from the plans of an unfolded run, one member a rank. Who belongs to whom is worked out anew from
the mesh, and who waits for slower chips in a pass is left out: the oracle finds it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reference.oracle import Diary, Entry, Job, Machine, Passes, Stretch

from trnsim.engine import Part, picoseconds
from trnsim.engine.operations import STRAGGLER_WAIT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from trnsim.engine import Activity, Log, Transfer
    from trnsim.parallel import Mesh
    from trnsim.training import Member, RankPlan, StagePasses


def machine(members: Iterable[Member], mesh: Mesh, *, sharing: int, steps: int, links_are_shared: bool) -> Machine:
    """Describe an unfolded run, in which so many consecutive data-parallel ranks share."""
    plans = {member.node.first_rank: member.plan for member in members}
    jobs = [_job(plans[rank]) for rank in range(mesh.ranks)]
    pipelines = list(_lines("pp", mesh))
    replicas = list(_lines("dp", mesh))
    groups = {"tp": list(_lines("tp", mesh))}
    groups["dp"] = [ranks[first : first + sharing] for ranks in replicas for first in range(0, len(ranks), sharing)]
    groups["dp copies"] = [ranks[first::sharing] for ranks in replicas for first in range(sharing)]
    groups["tied"] = [[ranks[0], ranks[-1]] for ranks in pipelines]
    return Machine(jobs, pipelines, groups, steps, links_are_shared)


def diary(member: Member) -> Diary:
    """Tell what a member of a finished run did."""
    cohort = member.cohort
    return Diary(_entries(cohort.log), _entries(cohort.stream), [time_ps for _, _, time_ps in cohort.step_ends])


def _lines(axis: str, mesh: Mesh) -> Iterator[list[int]]:
    """Yield the ranks that differ along one axis only, by their coordinate."""
    lines: dict[tuple[tuple[str, int], ...], list[tuple[int, int]]] = {}
    for rank in range(mesh.ranks):
        place = mesh.coordinates(rank)
        others = tuple(sorted((name, number) for name, number in place.items() if name != axis))
        lines.setdefault(others, []).append((place[axis], rank))
    for line in lines.values():
        yield [rank for _, rank in sorted(line)]


def _job(plan: RankPlan) -> Job:
    exchanges, sharding = plan.exchanges, plan.exchanges.sharding
    return Job(
        turns=[(turn.kind, turn.microbatch, turn.virtual_stage) for turn in plan.turns],
        passes={place: _passes(passes) for place, passes in plan.passes.items()},
        optimizer=_stretches(plan.optimizer),
        send_activation=_stretch(plan.send_activation),
        send_gradient=_stretch(plan.send_gradient),
        sends_block=plan.blocking_sends,
        tied=_stretch(plan.tied),
        zero=sharding.zero,
        overlap=sharding.overlap,
        prefetch=sharding.prefetch,
        keeps_weights=not sharding.reshard_after_forward,
        reduce=[_stretch_of(launch.transfer) for launch in exchanges.reduce],
        merge=[_stretch_of(launch.transfer) for launch in exchanges.merge],
        gather=[_stretch_of(launch.transfer) for launch in exchanges.gather],
    )


def _passes(passes: StagePasses) -> Passes:
    return Passes(
        forward=_stretches(passes.forward),
        backward=_stretches(passes.backward),
        cut_forward=[_stretches(segment) for segment in passes.forward_segments],
        cut_backward=[_stretches(segment) for segment in passes.segments],
        buckets=passes.buckets,
    )


def _stretches(activity: Activity) -> Sequence[Stretch]:
    return [_stretch_of(part) for part in activity.parts if part.heading != STRAGGLER_WAIT]


def _stretch(transfer: Transfer | None) -> Stretch | None:
    return None if transfer is None else _stretch_of(transfer)


def _stretch_of(work: Part | Transfer) -> Stretch:
    if isinstance(work, Part):
        if work.transfer is None:
            return Stretch(work.duration_ps)
        return _stretch_of(work.transfer)._replace(meets=True)  # a matmul beside it lasts until the slowest has done
    busy_ps = tuple((kind, picoseconds(busy_s)) for kind, busy_s in work.busy_s.items())
    return Stretch(picoseconds(work.duration_s), busy_ps)


def _entries(log: Log) -> list[Entry]:
    names = {"weights": "weights 0"}
    return [
        Entry(names.get(row.operation.name, row.operation.name), (row.start_ps, row.ready_ps, row.end_ps))
        for row in log.rows()
    ]
