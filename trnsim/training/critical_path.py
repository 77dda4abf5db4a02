"""The critical path of a step: what was done or was on its way, one thing after the other, from its begin to its end.

It is followed backwards from the rank that finishes last. What a rank did before is next on the path, unless it had waited:
then it is what the last that it waited for did.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from trnsim.engine import Activity
from trnsim.parallel import Group
from trnsim.training.communication import Coordinates
from trnsim.training.data_parallel import COPIES, GRADIENTS
from trnsim.training.story import (
    RECEIVE_ACTIVATION,
    RECEIVE_GRADIENT,
    SEND_ACTIVATION,
    SEND_GRADIENT,
    TIED_EMBEDDING,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from trnsim.engine import Operation, Row, Transfer, Wait, Window
    from trnsim.training.cohorts import Member
    from trnsim.training.communication import Communication
    from trnsim.training.spec import StepSpec

__all__ = ["Leg", "critical_path"]

_SENT = {RECEIVE_ACTIVATION.name: (SEND_ACTIVATION, -1), RECEIVE_GRADIENT.name: (SEND_GRADIENT, 1)}
"""What is sent that is received, and how many stages further its sender is."""

_STEPS = {SEND_ACTIVATION.name: 1, SEND_GRADIENT.name: -1}


class Leg(NamedTuple):
    """A part of the path.

    Attributes
    ----------
    rank
        Who came last to it; the sender of a message.
    operation
        An activity, or what was waited for.
    ranks
        Who takes part: the tensor group of an activity, the members of a collective, sender and receiver of a message.
    transfer
        What was carried; None in an activity, whose parts have their own.
    start_ps, end_ps
        When it was on the path.
    """

    rank: int
    operation: Operation
    ranks: Group | tuple[int, int]
    transfer: Transfer | None
    start_ps: int
    end_ps: int


def critical_path(
    member_of: Callable[[int], Member],
    spec: StepSpec,
    communication: Communication,
    window: Window,
    last: int,
    *,
    are_together: bool = True,
) -> list[Leg]:
    """Return the critical path of the last step of a run, the last leg first; of ranks that came together, the lowest.

    Parameters
    ----------
    member_of
        Finds the member that stands for a rank.
    spec, communication
        What was run.
    window
        The last step.
    last
        A rank that finishes last.
    are_together
        Whether members of a group leave a collective together. Where they do not, as with single messages, each is taken to
        have waited for the last of them to join, if that was after it had begun to wait, and for its bytes from then on.

    Notes
    -----
    Legs join without gap or overlap.

    References
    ----------
    Yang, Miller, Critical path analysis for the execution of parallel and distributed programs, ICDCS 1988,
    doi:10.1109/DCS.1988.12538

    Examples
    --------
    >>> from trnsim.scenario import load
    >>> from trnsim.simulation.machine import build_machine
    >>> from trnsim.simulation.simulated import run_engine
    >>> scenario = load("trn3-ultraserver", ["training.global_batch=18"])
    >>> run = run_engine(scenario, build_machine(scenario), folding=True)
    >>> last = run.last.node.first_rank
    >>> path = critical_path(run.members_by_rank(), run.spec, run.communication, run.window, last)
    >>> path[0].operation.name, path[-1].operation.name
    ('weights 0', 'forward')
    >>> sum(leg.end_ps - leg.start_ps for leg in path) == run.window.end_ps - run.window.start_ps
    True
    """
    walk = _Walk(member_of, spec, communication, are_together=are_together)
    rank, time_ps = last, window.end_ps
    legs: list[Leg] = []
    while time_ps > window.start_ps:
        legs += walk.before(rank, time_ps)
        rank, time_ps = legs[-1].rank, legs[-1].start_ps
    return [leg._replace(start_ps=max(leg.start_ps, window.start_ps)) for leg in legs if leg.end_ps > leg.start_ps]


class _Diary:
    """What a rank did, by when it ended."""

    def __init__(self, member: Member) -> None:
        self.plan = member.plan
        self._log = member.cohort.log
        self._ends_ps = self._log.times_ps[2::3]

    def ended_at(self, time_ps: int) -> Iterator[Row]:
        """Yield what ended at a time, in order; only the first of it can have taken any."""
        for row in self._log.rows(bisect_left(self._ends_ps, time_ps)):
            if row.end_ps != time_ps:
                return
            yield row

    def rows(self) -> Iterator[Row]:
        """Yield all that it did."""
        return self._log.rows()

    def at(self, time_ps: int) -> Row:
        """Return what was going on until a time, as if it had ended then."""
        number = bisect_left(self._ends_ps, time_ps)
        row = next(self._log.rows(number))
        before_ps = self._ends_ps[number - 1] if number else 0
        return row._replace(start_ps=row.start_ps if row.start_ps < time_ps else before_ps, end_ps=time_ps)


class _Walk:
    """Goes back in time from rank to rank."""

    def __init__(
        self,
        member_of: Callable[[int], Member],
        spec: StepSpec,
        communication: Communication,
        *,
        are_together: bool,
    ) -> None:
        self._member_of = member_of
        self._mesh = spec.mesh
        self._communication = communication
        self._are_together = are_together
        self._diaries: dict[int, _Diary] = {}
        self._launched: dict[int, dict[tuple[str, int], Row]] = {}
        self._joined: dict[int, dict[int, list[str]]] = {}
        self._firsts: dict[Group, tuple[int, ...]] = {}

    def before(self, rank: int, time_ps: int) -> Iterator[Leg]:
        """Yield what was on the path until a rank went on at a time: one leg, or collectives that follow each other."""
        diary = self._diary(rank)
        row = next(diary.ended_at(time_ps)) if self._are_together else diary.at(time_ps)
        operation, name = row.operation, row.operation.name
        if isinstance(operation, Activity):
            yield self._activity(rank, operation, row)
        elif name in _SENT:
            yield self._received(rank, operation, row)
        elif name in _STEPS:
            yield self._sent(rank, operation, row)
        elif self._are_together:
            yield from self._collectives(rank, self._calls(rank)[name, time_ps])
        else:
            yield self._left_alone(rank, row)

    def _activity(self, rank: int, activity: Activity, row: Row) -> Leg:
        """Return a pass as the last of the tensor group came to it."""
        if not self._are_together:
            return Leg(rank, activity, Group(rank, 1, 1), None, row.start_ps, row.end_ps)
        group = self._mesh.group("tp", rank)
        if row.ready_ps > row.start_ps + activity.head_ps:
            for mate in self._unlike(group):
                for other in self._diary(mate).ended_at(row.end_ps):
                    theirs = other.operation
                    if isinstance(theirs, Activity) and other.start_ps + theirs.head_ps == row.ready_ps:
                        return Leg(mate, theirs, group, None, other.start_ps, row.end_ps)
        return Leg(rank, activity, group, None, row.start_ps, row.end_ps)

    def _received(self, rank: int, wait: Wait, row: Row) -> Leg:
        """Return a message as its sender sent it."""
        sent, step = _SENT[wait.name]
        sender = self._neighbour(rank, step)
        return self._message(sender, rank, sent, self._begun_ps(sender, sent, row.end_ps), row.end_ps)

    def _sent(self, rank: int, wait: Wait, row: Row) -> Leg:
        """Return a message that its sender waited for."""
        receiver = self._neighbour(rank, _STEPS[wait.name])
        return self._message(rank, receiver, wait, self._begun_ps(rank, wait, row.end_ps), row.end_ps)

    def _neighbour(self, rank: int, step: int) -> int:
        """Return the rank so many stages further; the first stage is after the last."""
        group = self._mesh.group("pp", rank)
        stage = (rank - group.first) // group.stride
        return group.first + (stage + step) % group.size * group.stride

    def _begun_ps(self, sender: int, wait: Wait, end_ps: int) -> int:
        """Return when a message was sent that came at a time: posted, or waited for at once."""
        posted = self._calls(sender).get((wait.name, end_ps))
        if posted is not None:
            return posted.ready_ps
        return next(row.start_ps for row in self._diary(sender).ended_at(end_ps) if row.operation is wait)

    def _message(self, sender: int, receiver: int, wait: Wait, start_ps: int, end_ps: int) -> Leg:
        plan = self._diary(sender).plan
        transfer = plan.send_activation if wait is SEND_ACTIVATION else plan.send_gradient
        return Leg(sender, wait, (sender, receiver), transfer, start_ps, end_ps)

    def _collectives(self, rank: int, call: Row | None) -> Iterator[Leg]:
        """Yield a collective as the last of its group joined it, and those before it that it had to wait for."""
        while call is not None:
            name, transfer = call.operation.name, self._transfer(rank, call.operation.name)
            group = self._group(rank, name)
            joined = ((each, self._calls(each)[name, call.end_ps].start_ps) for each in self._unlike(group))
            last = next((each for each, joined_ps in joined if joined_ps == call.ready_ps), None)
            came = rank if last is None else last
            yield Leg(came, call.operation, group, transfer, call.ready_ps, call.end_ps)
            call = self._call_before(came, call, is_joined=last is not None)
            rank = came

    def _left_alone(self, rank: int, row: Row) -> Leg:
        """Return a collective that members leave one by one, from when the last had joined it."""
        name, is_launched = row.operation.name, (row.operation.name, row.end_ps) in self._calls(rank)
        group = self._group(rank, name) if is_launched else self._mesh.group("tp", rank)
        transfer = self._transfer(rank, name) if is_launched else None
        if row.ready_ps > row.start_ps:
            for mate in group.members():
                if mate != rank and name in self._begun(mate).get(row.ready_ps, ()):
                    return Leg(mate, row.operation, group, transfer, row.ready_ps, row.end_ps)
        return Leg(rank, row.operation, group, transfer, row.start_ps, row.end_ps)

    def _begun(self, rank: int) -> dict[int, list[str]]:
        """Return what a rank joined, by when."""
        if rank not in self._joined:
            found: defaultdict[int, list[str]] = defaultdict(list)
            rows = chain(self._diary(rank).rows(), self._calls(rank).values())
            for row in rows:
                found[row.start_ps].append(row.operation.name)
            self._joined[rank] = found
        return self._joined[rank]

    def _call_before(self, rank: int, call: Row, *, is_joined: bool) -> Row | None:
        """Return the collective whose end a call waited for: one of its group, or the sum that is to be merged."""
        kind, _, number = call.operation.name.rpartition(" ")
        if is_joined:
            return self._calls(rank).get((f"{GRADIENTS} {number}", call.ready_ps)) if kind == COPIES else None
        of_group = (
            row
            for (name, _), row in self._calls(rank).items()
            if (name.rpartition(" ")[0] == COPIES) == (kind == COPIES)
        )
        return next((row for row in of_group if row.ready_ps < row.end_ps == call.ready_ps), None)

    def _group(self, rank: int, name: str) -> Group:
        found = self._mesh.coordinates(rank)
        place = Coordinates(found["tp"], found["pp"], found["dp"])
        if name == TIED_EMBEDDING.name:
            return self._communication.tied_group(place)
        sharing, copies = self._communication.data_groups(place)
        return copies if name.startswith(COPIES) else sharing

    def _transfer(self, rank: int, name: str) -> Transfer | None:
        plan = self._member_of(rank).plan
        exchanges = plan.exchanges
        launches = (*exchanges.reduce, *exchanges.merge, *exchanges.gather)
        return next((each.transfer for each in launches if each.wait.name == name), plan.tied)

    def _unlike(self, group: Group) -> tuple[int, ...]:
        """Return the first of the members that one member of the run stands for, for each of those."""
        if group not in self._firsts:
            firsts: dict[int, int] = {}
            for rank in group.members():
                firsts.setdefault(id(self._member_of(rank)), rank)
            self._firsts[group] = tuple(firsts.values())
        return self._firsts[group]

    def _diary(self, rank: int) -> _Diary:
        member = self._member_of(rank)
        if id(member) not in self._diaries:
            self._diaries[id(member)] = _Diary(member)
        return self._diaries[id(member)]

    def _calls(self, rank: int) -> dict[tuple[str, int], Row]:
        """Return what a rank launched and posted, by its name and when it was over."""
        member = self._member_of(rank)
        if id(member) not in self._launched:
            rows = member.cohort.stream.rows()
            self._launched[id(member)] = {(row.operation.name, row.end_ps): row for row in rows}
        return self._launched[id(member)]
