"""What trnsim is about to simulate, told to the oracle; and what it found, told in the oracle's words.

Everything is read from the plans of an unfolded run, one member a rank. Who belongs to whom is worked out anew from
the mesh.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reference.oracle import Diary, Entry, Job, Machine, Stretch

from trnsim.engine import Part, picoseconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from trnsim.engine import Activity, Log, Transfer
    from trnsim.parallel import Mesh
    from trnsim.training import Member, RankPlan


def machine(members: Iterable[Member], mesh: Mesh, *, steps: int, links_are_shared: bool) -> Machine:
    """Describe an unfolded run."""
    plans = {member.node.first_rank: member.plan for member in members}
    jobs = [_job(plans[rank]) for rank in range(mesh.ranks)]
    pipelines = list(_lines("pp", mesh))
    groups = {axis: list(_lines(axis, mesh)) for axis in ("tp", "dp")}
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
    passes = plan.passes
    return Job(
        turns=[(turn.kind, turn.microbatch) for turn in plan.turns],
        forward=_stretches(passes.forward),
        backward=_stretches(passes.backward),
        segments=[_stretches(segment) for segment in passes.segments],
        optimizer=_stretches(plan.optimizer),
        overlap=plan.overlap,
        send_activation=_stretch(plan.send_activation),
        send_gradient=_stretch(plan.send_gradient),
        reduce=[(bucket.name, _stretch_of(each)) for bucket, each in zip(passes.buckets, plan.reduce, strict=False)],
        tied=_stretch(plan.tied),
        gather=_stretch(plan.gather),
    )


def _stretches(activity: Activity) -> Sequence[Stretch]:
    return [_stretch_of(part) for part in activity.parts]


def _stretch(transfer: Transfer | None) -> Stretch | None:
    return None if transfer is None else _stretch_of(transfer)


def _stretch_of(work: Part | Transfer) -> Stretch:
    busy_ps = tuple((kind, picoseconds(busy_s)) for kind, busy_s in work.busy_s.items())
    meets = isinstance(work, Part) and work.heading == "exposed_tp"
    return Stretch(picoseconds(work.duration_s), busy_ps, meets)


def _entries(log: Log) -> list[Entry]:
    return [Entry(row.operation.name, (row.start_ps, row.ready_ps, row.end_ps)) for row in log.rows()]
