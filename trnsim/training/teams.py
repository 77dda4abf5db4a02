"""A step whose tensor groups are simulated as teams, and whose data-parallel groups as tails: who plays, and the play."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from trnsim.engine import Cohort, Collective
from trnsim.training.cohorts import Member
from trnsim.training.folding import Node
from trnsim.training.tails import Tail
from trnsim.training.views import Kind, Played, Roster, View

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnsim.engine import Engine
    from trnsim.training.bodies import Bodies, Body, Place
    from trnsim.training.cohorts import Planner
    from trnsim.training.contraction import Contraction
    from trnsim.training.replay import Replay
    from trnsim.training.sorts import Sort
    from trnsim.training.spec import StepSpec

__all__ = ["Teams"]


class Teams:
    """The steps of a run, played by teams and tails.

    Parameters
    ----------
    engine
        A new engine, for the tails.
    spec
        The steps.
    contraction
        Their ranks, sorted.
    planner
        Makes their plans.
    bodies
        Plays the passes.

    Attributes
    ----------
    members
        The ranks by kind, by ascending first rank.
    holds
        Whether in every step all replicas had ended their passes when the reductions of their stage ended.
    cohorts
        How many teams and tails were simulated for a step, at most.
    """

    def __init__(
        self, engine: Engine, spec: StepSpec, contraction: Contraction, planner: Planner, bodies: Bodies
    ) -> None:
        self._engine, self._spec, self._found = engine, spec, contraction
        self._planner, self._bodies = planner, bodies
        self._tails = {key: self._tail(*key) for key in contraction.slowest}
        self._tied = self._tied_groups()
        self._casts = [dict(self._rosters_of(sort)) for sort in contraction.sorts]
        self._neighbours = {place: self._neighbours_of(place) for place in self._casts[0]}
        self.holds = True
        self.cohorts = 0
        for step in range(spec.steps):
            self._play_passes()
            self._play_updates(step)
        self.members = tuple(sorted(self._members(), key=lambda member: member.node.first_rank))

    def _play_passes(self) -> None:
        """Let every replica go through its passes."""
        played: dict[int, Body | Replay] = {}
        for cast in self._casts:
            starts_ps = {place: roster.starts_ps() for place, roster in cast.items()}
            zero_ps = max(
                roster.entrant(starts_ps[place], 0).joined_ps(None) for place, roster in cast.items() if place[0] == 0
            )
            entrants = {place: roster.entrant(starts_ps[place], zero_ps) for place, roster in cast.items()}
            body = self._bodies.of(entrants, self._neighbours)
            played[id(body)] = body
            for place, roster in cast.items():
                roster.steps.append(Played(body.teams[place], zero_ps, starts_ps[place]))
        self.cohorts = max(self.cohorts, len(self._tails) + sum(len(body.teams) for body in played.values()))

    def _play_updates(self, step: int) -> None:
        """Let every data-parallel group reduce, update and gather, when all its replicas have come to it."""
        launches: defaultdict[Tail, list[list[int]]] = defaultdict(list)
        passed: defaultdict[Tail, int] = defaultdict(int)
        for roster in (roster for cast in self._casts for roster in cast.values()):
            team, zero_ps, _ = roster.steps[step]
            for tail in roster.tails.values():
                launches[tail].append([time_ps + zero_ps for time_ps in team.launches_ps])
                passed[tail] = max(passed[tail], team.passed_ps + zero_ps)
        for tail in self._tails.values():
            last_ps = list(map(max, zip(*launches[tail], strict=True)))
            self._engine.start(tail, tail.live(last_ps, passed[tail], self._tied.get(tail)))
        self._engine.run()
        self.holds &= all(passed[tail] <= tail.reduced_ps(step) for tail in self._tails.values())

    def _neighbours_of(self, place: Place) -> tuple[Place | None, Place | None]:
        """Return the teams that a team exchanges messages with."""
        rows, stage = self._found.rows, place[0]
        tensor = next(tensor for (at, tensor), row in rows.items() if (at, row) == place)
        before, after = (
            (near, rows[near, tensor]) if (near, tensor) in rows else None for near in (stage - 1, stage + 1)
        )
        return before, after

    def _tied_groups(self) -> dict[Cohort, Collective]:
        """Return the groups that sum the gradients of a tied embedding, by tail."""
        last = len(self._found.stages) - 1
        found: dict[Cohort, Collective] = {}
        for first, other in self._found.tied:
            ends = self._tails[0, first], self._tails[last, other]
            found.update(dict.fromkeys(ends, Collective("tied", {end: end.ranks for end in ends})))
        return found

    def _members(self) -> Iterator[Member]:
        for cast, sort in zip(self._casts, self._found.sorts, strict=True):
            for (stage, _), roster in cast.items():
                for number, kind in enumerate(roster.kinds):
                    key = self._found.key_of(kind.first_rank)
                    view = View(roster, number, key, f"stage {stage}", self._spec.mesh.label(kind.first_rank))
                    node = self._found.node(sort, stage, kind, roster.pace)
                    yield Member(view, node, roster.own[number])  # type: ignore[arg-type]  # read like a cohort

    def _rosters_of(self, sort: Sort) -> Iterator[tuple[Place, Roster]]:
        """Yield the ranks of each team of a replica."""
        for stage, kinds in enumerate(sort.kinds):
            pace = min(kind.speed for kind in kinds)
            for row in sorted({kind.row for kind in kinds}):
                yield (stage, row), self._roster(sort, stage, tuple(kind for kind in kinds if kind.row == row), pace)

    def _roster(self, sort: Sort, stage: int, kinds: tuple[Kind, ...], pace: float) -> Roster:
        own = tuple(self._planner.plan(self._found.node(sort, stage, kind, pace)) for kind in kinds)
        slowest = min(range(len(kinds)), key=lambda number: kinds[number].speed)
        tails = {kind.lane: self._tails[stage, kind.lane] for kind in kinds}
        return Roster(kinds, own, own[slowest], pace, sort.replicas, tails)

    def _tail(self, stage: int, lane: int) -> Tail:
        node, spec = self._found.payers[stage, lane], self._spec
        speed = self._found.slowest[stage, lane]
        ranks = spec.mesh.size("dp") * sum(found == lane for (at, _), found in self._found.lanes.items() if at == stage)
        plan = self._planner.plan(Node(node.stage, node.first_rank, ranks, node.prices, speed, speed))
        return Tail(self._engine, f"stage {stage}", ranks, spec.mesh.label(node.first_rank), plan)
