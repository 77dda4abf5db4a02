"""A step whose tensor groups are simulated as teams, and whose data-parallel groups as tails: who plays, and the play."""

from __future__ import annotations

from collections import defaultdict
from itertools import chain
from typing import TYPE_CHECKING

from trnsim.engine import Agenda, Cohort, Collective, seconds
from trnsim.training.folding import Node
from trnsim.training.late import LateReplica, Reductions, alike, late_ranks
from trnsim.training.replay import Replay
from trnsim.training.tails import Tail
from trnsim.training.views import Entry, Kind, Roster, View

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from trnsim.training.bodies import Bodies, Place, Strands
    from trnsim.training.cohorts import Member, Planner
    from trnsim.training.contraction import Contraction
    from trnsim.training.late import LateRank
    from trnsim.training.sorts import Rows, Sort

__all__ = ["Teams"]


class Teams:
    """The steps of a run, played by teams and tails.

    Parameters
    ----------
    contraction
        Their ranks, sorted.
    planner
        Makes their plans.
    bodies
        Plays the passes.

    Attributes
    ----------
    found
        The ranks, sorted.
    late
        Sorts of replicas that were still at work when reductions of their stage had begun on links that both use, and
        whose ranks were not told apart; what was played is of no use then.
    holds
        Whether in every step all replicas had ended their passes when the reductions of their stage ended.
    cohorts
        How many teams and tails were simulated for a step, at most.
    events
        What was needed beside the bodies.
    """

    def __init__(self, contraction: Contraction, planner: Planner, bodies: Bodies) -> None:
        self.found, self._planner, self._bodies = contraction, planner, bodies
        self._spec = contraction.spec
        self._tails = {key: self._tail(*key) for key in contraction.tails.slowest}
        self._tied = self._tied_groups()
        self._casts = [dict(self._rosters_of(sort)) for sort in contraction.sorts]
        self._strands = {like: _strands(rows) for like, rows in contraction.rows.items()}
        self.late: set[int] = set()
        self.holds = True
        self.cohorts = self.events = 0
        for step in range(self._spec.steps):
            if not self.late:
                self._play(step)

    @property
    def members(self) -> tuple[Member, ...]:
        """The ranks by kind, by ascending first rank."""
        views = [View(self.found, roster, n) for roster in self._rosters() for n in range(len(roster.kinds))]
        views.sort(key=lambda view: view.kind.first_rank)
        return tuple(views)  # type: ignore[arg-type]  # read like members

    @property
    def last_step_s(self) -> float:
        """How long the last step took."""
        ends_ps = [roster.ends_ps(number) for roster in self._rosters() for number in range(len(roster.kinds))]
        *_, before_ps, last_ps = 0, *map(max, zip(*ends_ps, strict=True))
        return seconds(last_ps - before_ps)

    def _rosters(self) -> Iterator[Roster]:
        return chain.from_iterable(cast.values() for cast in self._casts)

    def _play(self, step: int) -> None:
        """Let every replica go through its passes, and every data-parallel group reduce, update and gather."""
        entries = list(map(self._entry, self._casts, self.found.sorts))
        late = [entry for entry, sort in zip(entries, self.found.sorts, strict=True) if sort.is_late]
        others = [entry for entry, sort in zip(entries, self.found.sorts, strict=True) if not sort.is_late]
        for entry in others:
            entry.note(entry.body.teams, entry.zero_ps)
        met = self._play_late(alike(late, self.found.columns, self.found.by_column), others) if late else {}
        engine = self._bodies.new_engine(min(entry.zero_ps for entry in entries))
        launches, passed = self._arrivals(entries)
        for tail in self._tails.values():
            tail.enter(engine)
            story = tail.live(launches[tail], passed[tail], self._tied.get(tail), met.get(tail))
            engine.start(tail, story)
        engine.run()
        self.events += engine.events
        teams = {id(entry.body): len(entry.body.teams) for entry in entries}
        self.cohorts = max(self.cohorts, len(self._tails) + sum(teams.values()))
        self._look_back(step, entries)

    def _play_late(self, late: Sequence[Sequence[Entry]], others: Sequence[Entry]) -> dict[Tail, list[int]]:
        """Let late replicas go on together, and with the reductions that they meet; return how long these take."""
        entries = [*others, *chain.from_iterable(late)]
        agenda = Agenda(min(entry.zero_ps for entry in entries))
        ranks = [late_ranks(group[0], self.found.columns, self.found.by_column) for group in late]
        met = self._reductions(agenda, ranks, others)
        until_ps = self._first_reduction_ps(entries)
        replicas = [LateReplica(agenda, *each, until_ps) for each in zip(late, ranks, strict=True)]
        agenda.run()
        self.events += agenda.events
        for replica in replicas:
            replica.settle()
        return {tail: reductions.durations_ps for tail, reductions in met.items()}

    def _first_reduction_ps(self, entries: Sequence[Entry]) -> int:
        """Return when the first of the reductions begins that late replicas may meet."""
        last: defaultdict[Tail, int] = defaultdict(int)
        for entry in entries:
            for (stage, row), roster in entry.cast.items():
                if stage in self.found.apart:
                    launched_ps = entry.zero_ps + entry.body.teams[stage, row].launches_ps[0]
                    for tail in roster.tails:
                        last[tail] = max(last[tail], launched_ps)
        return min(last.values())

    def _reductions(
        self, agenda: Agenda, ranks: Sequence[Mapping[Place, Sequence[LateRank]]], others: Sequence[Entry]
    ) -> dict[Tail, Reductions]:
        """Return the reductions that late replicas meet."""
        launches, _ = self._arrivals(others)
        late: defaultdict[Tail, list[LateRank]] = defaultdict(list)
        for of in ranks:
            for (stage, _), team in of.items():
                for rank in team:
                    late[self._tails[stage, rank.lane]].append(rank)
        found = {}
        for (stage, _), tail in self._tails.items():
            if stage in self.found.apart:
                courses = [launch.transfer.course for launch in tail.plan.exchanges.reduce]
                others_ps = launches[tail] or [agenda.now] * len(courses)
                found[tail] = Reductions(agenda, courses, others_ps, late[tail])
        return found

    def _entry(self, cast: Mapping[Place, Roster], sort: Sort) -> Entry:
        """Find out what a replica does in the passes of the next step."""
        starts_ps = {place: roster.starts_ps() for place, roster in cast.items()}
        zero_ps = max(
            roster.entrant(starts_ps[place], 0).joined_ps(None) for place, roster in cast.items() if place[0] == 0
        )
        entrants = {place: roster.entrant(starts_ps[place], zero_ps) for place, roster in cast.items()}
        strands = self._strands[sort.like]
        return Entry(cast, strands, starts_ps, zero_ps, self._bodies.of(entrants, strands))

    def _arrivals(self, entries: Sequence[Entry]) -> tuple[Mapping[Tail, list[int]], Mapping[Tail, int]]:
        """Return for each tail when the last of some replicas has come to each reduction, and when it has ended its passes."""
        launches: defaultdict[Tail, list[list[int]]] = defaultdict(list)
        passed: defaultdict[Tail, int] = defaultdict(int)
        for entry in entries:
            for roster in entry.cast.values():
                played = roster.steps[-1]
                launched_ps = played.launches_ps
                for number, tail in enumerate(roster.tails):
                    launches[tail].append(launched_ps)
                    passed[tail] = max(passed[tail], played.passed_ps(number))
        last = {tail: list(map(max, zip(*found, strict=True))) for tail, found in launches.items()}
        return defaultdict(list, last), passed

    def _look_back(self, step: int, entries: Sequence[Entry]) -> None:
        """See whether replicas had ended their passes when the gradients of their stage were reduced, or this had begun.

        Nor may a stage have been sent anything on links on which its last update still was.
        """
        for number, (entry, sort) in enumerate(zip(entries, self.found.sorts, strict=True)):
            for (stage, _), roster in entry.cast.items():
                played = roster.steps[step]
                for kind, tail in enumerate(roster.tails):
                    passed_ps = played.passed_ps(kind)
                    self.holds &= passed_ps <= tail.reduced_ps(step)
                    is_early = step and played.sent_ps is not None and played.sent_ps < tail.step_ends[step - 1][2]
                    self.holds &= not (is_early and self.found.meets_next(sort, stage))
                    if passed_ps > tail.met_ps(step) and not sort.is_late and self.found.meets(sort, stage):
                        if isinstance(entry.body, Replay):
                            self.late.add(number)
                        else:  # late replicas are replayed
                            self.holds = False

    def _tied_groups(self) -> dict[Cohort, Collective]:
        """Return the groups that sum the gradients of a tied embedding, by tail."""
        last = len(self.found.stages) - 1
        found: dict[Cohort, Collective] = {}
        for first, other in self.found.tails.tied:
            ends = self._tails[0, first], self._tails[last, other]
            found.update(dict.fromkeys(ends, Collective("tied", {end: end.ranks for end in ends})))
        return found

    def _rosters_of(self, sort: Sort) -> Iterator[tuple[Place, Roster]]:
        """Yield the ranks of each team of a replica."""
        for stage, kinds in enumerate(self.found.kinds(sort)):
            pace = min(kind.speed for kind in kinds)
            for row in sorted({kind.row for kind in kinds}):
                yield (stage, row), self._roster(sort, stage, tuple(kind for kind in kinds if kind.row == row), pace)

    def _roster(self, sort: Sort, stage: int, kinds: tuple[Kind, ...], pace: float) -> Roster:
        own = tuple(self._planner.plan(self.found.node(sort, stage, kind, pace)) for kind in kinds)
        slowest = min(range(len(kinds)), key=lambda number: kinds[number].speed)
        tails = tuple([self._tails[stage, kind.lane] for kind in kinds])
        for tail, plan in zip(tails, own, strict=True):
            tail.update_ps = max(tail.update_ps, plan.update_ps)
        return Roster(sort, stage, kinds, own, own[slowest], pace, tails)

    def _tail(self, stage: int, lane: int) -> Tail:
        node, spec = self.found.tails.payers[stage, lane], self._spec
        speed = self.found.tails.slowest[stage, lane]
        ranks = spec.mesh.size("dp") * sum(
            found == lane for (at, _), found in self.found.tails.lanes.items() if at == stage
        )
        plan = self._planner.plan(Node(node.stage, node.first_rank, ranks, node.prices, speed, speed))
        return Tail(self._bodies.new_engine(0), f"stage {stage}", ranks, spec.mesh.label(node.first_rank), plan)


def _strands(rows: Rows) -> Strands:
    """Return the teams of each tensor rank of a replica."""
    found: defaultdict[int, list[int]] = defaultdict(list)
    for (_, tensor), row in sorted(rows.items()):
        found[tensor].append(row)
    return tuple(map(tuple, found.values()))
