"""Memory over time: what each rank holds, read off the log of a finished run."""

from __future__ import annotations

from collections import defaultdict, deque
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from trnsim.workload import WEIGHT_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from trnsim.engine.log import Row
    from trnsim.schedules import Pass
    from trnsim.training import Member
    from trnsim.workload import MemoryTerms, Moment, PassMemory, RankMemory

__all__ = ["Held", "held_over_time"]


class Held(NamedTuple):
    """What a rank holds from a time on, and what it does then.

    Attributes
    ----------
    time_ps
        Since the start of the run.
    terms
        What it holds.
    during
        The pass, or what is between two.
    """

    time_ps: int
    terms: MemoryTerms
    during: str


class _Change(NamedTuple):
    """Bytes that come or go."""

    time_ps: int
    communication: int


class _Level(NamedTuple):
    """Activations and buffers from a time on."""

    time_ps: int
    activations: int
    buffers: int
    during: str


class _Place(NamedTuple):
    """What an activity is: a pass of a virtual stage, or that of its buckets which has that position in the pass."""

    kind: str
    virtual_stage: int
    position: int | None


def held_over_time(member: Member, memory: RankMemory) -> list[Held]:
    """Follow a rank through its last step.

    Parameters
    ----------
    member
        The rank, after the run.
    memory
        What its passes need.
    """
    reader = _Reader(member, memory)
    reader.read()
    rest = replace(memory.at_rest, communication=0)
    return list(_merged(rest, reader.levels, reader.changes))


class _Reader(Struct):
    """Walks the log of a rank, pass by pass."""

    member: Member
    memory: RankMemory
    levels: list[_Level] = field(default_factory=list)
    changes: list[_Change] = field(default_factory=list)
    held: int = 0

    def read(self) -> None:
        """Read the last step."""
        cohort, plan = self.member.cohort, self.member.plan
        first_row, first_call, start = cohort.step_ends[-2] if len(cohort.step_ends) > 1 else (0, 0, 0)
        places = dict(_places(self.member))
        calls = _calls(cohort.stream.rows(first_call))
        arrived: dict[int, int] = {}
        gathers = {id(launch.wait): number for number, launch in enumerate(plan.exchanges.gather)}
        turns = iter(plan.turns)
        turn = next(turns)
        self.levels.append(_Level(start, 0, 0, "start of the step"))
        for row in cohort.log.rows(first_row):
            key = id(row.operation)
            if key in gathers:
                arrived[gathers[key]] = calls[key].popleft().start_ps
            elif key in places:
                ends = self._pass(turn, places[key], row)
                self._travels(places[key], row, arrived, calls)
                turn = next(turns, turn) if ends else turn
            elif row.operation is plan.optimizer:
                self._update(row)

    def _pass(self, turn: Pass, place: _Place, row: Row) -> bool:
        """Note what a pass, or a part of it, holds; return whether the pass is over."""
        buckets = _buckets(self.memory.passes[place.virtual_stage], place)
        position = place.position
        parts = buckets if position is None else buckets[position : position + 1]
        highest = max((moment for bucket in parts for moment in bucket), key=_kept_and_buffers)
        words = f"{_WORDS[turn.kind]} pass of microbatch {turn.microbatch}"
        if len(self.memory.passes) > 1:
            words += f", virtual stage {turn.virtual_stage}"
        self.levels.append(_Level(row.start_ps, self.held + highest.activations, highest.buffers, words))
        ends = position is None or position == len(buckets) - 1
        after = self.held
        if ends:
            saved = self.memory.passes[place.virtual_stage].saved
            self.held = after = self.held + (saved if place.kind == "F" else -saved)
        elif position is not None:
            after += buckets[position][-1].activations if place.kind == "F" else buckets[position + 1][0].activations
        self.levels.append(_Level(row.end_ps, after, 0, f"after the {words}"))
        return ends

    def _travels(self, place: _Place, row: Row, arrived: dict[int, int], calls: Mapping[int, deque[Row]]) -> None:
        """Note gathered weights, and gradients that are whole until they are reduced, of a part of a pass."""
        if place.position is None:
            return
        sharding, plan = self.memory.sharding, self.member.plan
        numbers = plan.passes[place.virtual_stage].buckets
        number = (numbers[::-1] if place.kind == "F" else numbers)[place.position]
        parameters = self.member.node.stage.buckets[number].parameters
        if number in arrived:
            joined = arrived.pop(number)
            if sharding.weight_shards > 1:
                until = row.end_ps if sharding.reshard_after_forward else self.member.cohort.step_ends[-1][2]
                self._lives(joined, until, WEIGHT_BYTES * parameters)
        if sharding.gradient_shards > 1 and place.kind == "B" and plan.exchanges.reduce:
            reduced = calls[id(plan.exchanges.reduce[number].wait)].popleft()
            self._lives(row.start_ps, reduced.end_ps, sharding.reduce_bytes * parameters)

    def _lives(self, start_ps: int, end_ps: int, size_bytes: int) -> None:
        self.changes += [_Change(start_ps, size_bytes), _Change(end_ps, -size_bytes)]

    def _update(self, row: Row) -> None:
        self.levels.append(_Level(row.start_ps, self.held, self.memory.update_bytes, "update"))
        self.levels.append(_Level(row.end_ps, self.held, 0, "after the update"))


_WORDS = {"F": "forward", "B": "backward"}


def _places(member: Member) -> Iterator[tuple[int, _Place]]:
    """Yield the identity of every activity of a pass, and what it is."""
    for place, work in member.plan.passes.items():
        yield id(work.forward), _Place("F", place, None)
        yield id(work.backward), _Place("B", place, None)
        yield from ((id(part), _Place("F", place, at)) for at, part in enumerate(work.forward_segments))
        yield from ((id(part), _Place("B", place, at)) for at, part in enumerate(work.segments))


def _calls(rows: Iterator[Row]) -> Mapping[int, deque[Row]]:
    """Sort the collectives of a stream by what was waited for, in the order in which that was."""
    found: defaultdict[int, deque[Row]] = defaultdict(deque)
    for row in rows:
        found[id(row.operation)].append(row)
    return found


def _buckets(memory: PassMemory, place: _Place) -> tuple[tuple[Moment, ...], ...]:
    return memory.forward if place.kind == "F" else memory.backward


def _kept_and_buffers(moment: Moment) -> int:
    return moment.activations + moment.buffers


def _merged(rest: MemoryTerms, levels: list[_Level], changes: list[_Change]) -> Iterator[Held]:
    """Yield what is held at every time at which anything changes; at one time, what goes goes first."""
    events: list[_Level | _Change] = [*levels, *changes]
    events.sort(key=_when)
    level, communication = levels[0], 0
    for time_ps, together in groupby(events, key=lambda event: event.time_ps):
        for event in together:
            if isinstance(event, _Level):
                level = event
            else:
                communication += event.communication
        terms = replace(rest, activations=level.activations, communication=communication, buffers=level.buffers)
        yield Held(time_ps, terms, level.during)


def _when(event: _Level | _Change) -> tuple[int, int]:
    """Order events; a stable sort keeps levels of one time in their order."""
    return (event.time_ps, event.communication if isinstance(event, _Change) else 0)
