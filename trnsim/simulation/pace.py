"""What sets the pace of a perturbed step: slow chips and impaired links on its critical path, and the stage most on it."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from trnsim.engine import Activity, seconds
from trnsim.fabric import Task
from trnsim.parallel import Group
from trnsim.topology.places import Cable, Trunk
from trnsim.training import EXPOSED_TP, Planner, counterparts, critical_path
from trnsim.units import format_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from trnsim.fabric import Price
    from trnsim.fabric.struck import Culprit
    from trnsim.simulation.machine import Machine
    from trnsim.simulation.simulated import Simulated
    from trnsim.training import Communication, Leg

__all__ = ["pace_note"]

_MOST_NAMED = 2

_TENSOR = "tensor collectives"

_UNNUMBERED = re.compile(r" \d+$")
"""What is not said of the name of a collective: the number of the bucket."""


class _Carried(NamedTuple):
    """What some ranks send each other: members of a group, or sender and receiver."""

    what: str
    ranks: Group | tuple[int, int]


class _Burden(NamedTuple):
    """What takes longer on the path at a slow chip or over an impaired link, and about how much longer."""

    what: str
    lost_s: float


def pace_note(machine: Machine, run: Simulated) -> str:
    """Name the slow chips and impaired links that cost most on the critical path, and the stage whose work is most of it."""
    path = critical_path(
        run.members_by_rank(),
        run.spec,
        run.communication,
        run.window,
        run.last.node.first_rank,
        are_together=machine.chunk is None,
    )
    worked_ps: Counter[tuple[int, Group]] = Counter()
    for leg in path:
        if isinstance(leg.operation, Activity) and isinstance(leg.ranks, Group):
            worked_ps[_stage(run, leg), leg.ranks] += min(_work_ps(leg.operation), leg.end_ps - leg.start_ps)
    (stage, group), longest_ps = max(worked_ps.items(), key=itemgetter(1))
    server = machine.placement.slot(group.first).server
    return (
        f"{_set_by(chain(_slow_chips(machine, run, path), _weak_links(machine, run, path)))}; longest on it: work of stage "
        f"{stage} on server {server}, {format_time(seconds(longest_ps))} of {format_time(run.window.duration_s)}"
    )


def _set_by(found: Iterable[tuple[str, _Burden]]) -> str:
    """Name the chips and links that cost most."""
    burdens: defaultdict[str, list[_Burden]] = defaultdict(list)
    for name, burden in found:
        burdens[name].append(burden)
    if not burdens:
        return "no slow chip or impaired link is on the critical path"
    lost_s = {name: sum(burden.lost_s for burden in of_it) for name, of_it in burdens.items()}
    worst = sorted(lost_s, key=lambda name: -lost_s[name])[:_MOST_NAMED]
    said = (f"{name} ({_whats(burdens[name])}, about {format_time(lost_s[name])} longer)" for name in worst)
    return f"set on the critical path by {' and '.join(said)}"


def _whats(burdens: Sequence[_Burden]) -> str:
    """Say what takes longer, what loses most first."""
    ordered = dict.fromkeys(each.what for each in sorted(burdens, key=lambda each: -each.lost_s))
    return ", ".join([*list(ordered)[:_MOST_NAMED], *(["..."] if len(ordered) > _MOST_NAMED else [])])


def _stage(run: Simulated, leg: Leg) -> int:
    return run.spec.mesh.coordinates(leg.rank)["pp"]


def _work_ps(activity: Activity) -> int:
    return sum(part.duration_ps for part in activity.parts if part.heading != EXPOSED_TP)


def _slow_chips(machine: Machine, run: Simulated, path: Iterable[Leg]) -> Iterator[tuple[str, _Burden]]:
    """Yield the slowest chip of each tensor group that works on the path."""
    member_of, healthy = run.members_by_rank(), Planner(run.spec, {}, is_paced=True)
    meant: dict[int, Activity] = {}
    lost_ps: Counter[tuple[int, Group]] = Counter()
    for leg in path:
        if isinstance(leg.operation, Activity) and isinstance(leg.ranks, Group):
            if machine.chunk is not None:  # a piece of a pass, without its collectives
                meant_ps = round(leg.operation.duration_ps * run.spec.slow.get(leg.rank, 1.0))
            else:
                if id(leg.operation) not in meant:
                    member = member_of(leg.rank)
                    plan = healthy.plan(replace(member.node, speed=1.0, pace=1.0))
                    meant |= {id(mine): theirs for mine, theirs in counterparts(member.plan, plan)}
                meant_ps = meant.get(id(leg.operation), leg.operation).duration_ps
            lost_ps[_stage(run, leg), leg.ranks] += leg.operation.duration_ps - meant_ps
    for (stage, group), lost in lost_ps.items():
        speed, rank = min((run.spec.slow.get(rank, 1.0), rank) for rank in group.members())
        if lost > 0 and speed < 1:
            slot = machine.placement.slot(rank)
            name = f"server {slot.server}/chip {slot.chip} at {speed:.4g} of its speed"
            yield name, _Burden(f"work of stage {stage}", seconds(lost))


def _carried_on(run: Simulated, path: Iterable[Leg]) -> Mapping[_Carried, Counter[tuple[Task, float]]]:
    """Sum up what is carried on the path by the ranks that it joins: tasks, and how long each time."""
    carried: defaultdict[_Carried, Counter[tuple[Task, float]]] = defaultdict(Counter)
    for leg in path:
        what, transfers = f"{_UNNUMBERED.sub('', leg.operation.name)} of stage {_stage(run, leg)}", [leg.transfer]
        if isinstance(leg.operation, Activity):
            what = f"{_TENSOR} of stage {_stage(run, leg)}"
            transfers = [part.transfer for part in leg.operation.parts]
        elif not isinstance(leg.ranks, Group):
            what = f"what stage {_stage(run, leg)} sends"
        tasks = ((each.task, each.duration_s) for each in transfers if each and isinstance(each.task, Task))
        carried[_Carried(what, leg.ranks)].update(tasks)
    return carried


def _weak_links(machine: Machine, run: Simulated, path: Iterable[Leg]) -> Iterator[tuple[str, _Burden]]:
    """Yield for all that is carried on the path the impaired link for which it takes longer, or goes about it otherwise."""
    if machine.fabric is machine.healthy:
        return
    healthy, skewed = run.communication.on(machine.healthy), 1 + run.spec.rates.scale_skew_fraction
    for (what, ranks), tasks in _carried_on(run, path).items():
        lost_s: defaultdict[str, float] = defaultdict(float)
        in_passes = what.startswith(_TENSOR)  # whose skew is in proportion to how long they are
        for (task, took_s), times in tasks.items():  # of a collective beside a matmul only what outlasts it
            meant, found = _price(healthy, task, ranks), _price(run.communication, task, ranks)
            if found.time_s > meant.time_s:
                for name, share in _causes(machine, found, meant, ranks):
                    longer_s = min(took_s, found.time_s - meant.time_s)
                    lost_s[name] += share * times * longer_s * (skewed if in_passes else 1)
        yield from ((name, _Burden(what, lost)) for name, lost in lost_s.items())


def _causes(
    machine: Machine, found: Price, meant: Price, ranks: Group | tuple[int, int]
) -> Iterator[tuple[str, float]]:
    """Yield the impaired links for which something is dearer than it was meant to be, each with its share of that."""
    losses_s = machine.fabric.losses(meant.task, ranks)
    if not losses_s:  # chosen for another group, which has the impaired link
        yield f"{found.algorithm} in place of {meant.algorithm}", 1.0
    for culprit, lost_s in losses_s.items():
        yield _named(machine, culprit), lost_s / sum(losses_s.values())


def _price(communication: Communication, task: Task, ranks: Group | tuple[int, int]) -> Price:
    if isinstance(ranks, Group):
        return communication.collective(task.op, ranks, int(task.size_bytes))
    return communication.message(*ranks)


def _named(machine: Machine, culprit: Culprit) -> str:
    """Name an impaired link, and say what is left of it."""
    impairments, places = machine.impairments, machine.places
    if isinstance(culprit, Trunk):
        kind = next(kind for kind, tier in places.trunks.items() if tier == culprit.tier)
        name, share = f"{kind} of {places.name(kind, culprit.group)}", impairments.trunks[culprit]
    elif isinstance(culprit, Cable):
        name, share = str(culprit), impairments.cables[culprit.server][culprit.ends]
    else:
        name, share = f"{places.nic} of {places.name(places.nic, culprit)}", impairments.nics[culprit]
    return f"{name} at {share:.4g} of its bandwidth" if share else f"{name}, which has failed"
