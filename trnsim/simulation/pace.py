"""What sets the pace of a perturbed step: slow chips and impaired links on its critical path, and the stage most on it."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from trnsim.engine import Activity, seconds
from trnsim.fabric import Task
from trnsim.parallel import Group
from trnsim.topology.places import Cable, Trunk
from trnsim.training import critical_path
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
    work, carried = _summed(run, path)
    (stage, group), longest_ps = max(work.items(), key=itemgetter(1))
    server = machine.placement.slot(group.first).server
    return (
        f"{_set_by(chain(_slow_chips(machine, run, work), _weak_links(machine, run, carried)))}; longest on it: work of stage "
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


def _summed(
    run: Simulated, path: Iterable[Leg]
) -> tuple[Mapping[tuple[int, Group], int], Mapping[_Carried, Counter[tuple[Task, float]]]]:
    """Sum up the work on the path by stage and tensor group, and what is carried, and how long each time, by the ranks that it joins."""
    work: Counter[tuple[int, Group]] = Counter()
    carried: defaultdict[_Carried, Counter[tuple[Task, float]]] = defaultdict(Counter)
    for leg in path:
        stage = run.spec.mesh.coordinates(leg.rank)["pp"]
        what, transfers = f"{_UNNUMBERED.sub('', leg.operation.name)} of stage {stage}", [leg.transfer]
        if isinstance(leg.operation, Activity) and isinstance(leg.ranks, Group):
            parts = leg.operation.parts
            worked_ps = sum(part.duration_ps for part in parts if part.transfer is None)
            work[stage, leg.ranks] += min(worked_ps, leg.end_ps - leg.start_ps)
            what, transfers = f"tensor collectives of stage {stage}", [part.transfer for part in parts]
        elif not isinstance(leg.ranks, Group):
            what = f"what stage {stage} sends"
        tasks = ((each.task, each.duration_s) for each in transfers if each and isinstance(each.task, Task))
        carried[_Carried(what, leg.ranks)].update(tasks)
    return work, carried


def _slow_chips(
    machine: Machine, run: Simulated, work: Mapping[tuple[int, Group], int]
) -> Iterator[tuple[str, _Burden]]:
    """Yield the slowest chip of each tensor group that works on the path."""
    for (stage, group), worked_ps in work.items():
        speed, rank = min((run.spec.slow.get(rank, 1.0), rank) for rank in group.members())
        if speed < 1:
            slot = machine.placement.slot(rank)
            name = f"server {slot.server}/chip {slot.chip} at {speed:.4g} of its speed"
            yield name, _Burden(f"work of stage {stage}", seconds(worked_ps) * (1 - speed))


def _weak_links(
    machine: Machine, run: Simulated, carried: Mapping[_Carried, Counter[tuple[Task, float]]]
) -> Iterator[tuple[str, _Burden]]:
    """Yield for all that is carried on the path the impaired link for which it takes longer, or goes about it otherwise."""
    if machine.fabric is machine.healthy:
        return
    healthy = run.communication.on(machine.healthy)
    for (what, ranks), tasks in carried.items():
        lost_s: defaultdict[str, float] = defaultdict(float)
        for (task, took_s), times in tasks.items():  # of a collective beside a matmul only what outlasts it
            meant, found = _price(healthy, task, ranks), _price(run.communication, task, ranks)
            if found.time_s > meant.time_s:
                culprit = machine.fabric.culprit(meant.task, ranks)
                others = f"{found.algorithm} in place of {meant.algorithm}"  # as for a group that has the impaired link
                name = others if culprit is None else _named(machine, culprit)
                lost_s[name] += times * min(took_s, found.time_s - meant.time_s)
        yield from ((name, _Burden(what, lost)) for name, lost in lost_s.items())


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
