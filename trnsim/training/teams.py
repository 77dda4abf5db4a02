"""Teams, which stand for whole tensor groups in the passes of a step, and tails, which stand for data-parallel groups after them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from trnsim.engine import Activity, Cohort, Collective, Log, Route
from trnsim.training.cohorts import Member
from trnsim.training.communication import Coordinates
from trnsim.training.data_parallel import Launched
from trnsim.training.folding import Node
from trnsim.training.story import Neighbourhood, RankPlan, Step

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping, Sequence

    from trnsim.engine import Call, Engine, Operation, Story, Transfer, Wait
    from trnsim.training.cohorts import Planner
    from trnsim.training.contraction import Contraction
    from trnsim.training.spec import StepSpec

__all__ = ["Kind", "Populated", "Sort", "View"]


class Kind(NamedTuple):
    """Ranks that are alike: their team, tail and speed, how many they are, the first of them."""

    row: int
    lane: int
    speed: float
    ranks: int
    first_rank: int


class Sort(NamedTuple):
    """Replicas whose teams are alike: the first, how many, one that pays the same, the kinds of their ranks by stage."""

    first: int
    replicas: int
    like: int
    kinds: tuple[tuple[Kind, ...], ...]


class _Opening(NamedTuple):
    """How a step began for a team.

    Attributes
    ----------
    row
        Its first row of the team's log.
    starts_ps
        When each kind of its ranks began.
    message_ps
        When the first message was sent and came; None for the first stage.
    """

    row: int
    starts_ps: tuple[int, ...]
    message_ps: tuple[int, int] | None


class Team(Cohort):
    """Ranks of a tensor group whose messages cost the same, in the passes of their steps."""

    def __init__(self, engine: Engine, name: str, ranks: int, first: str) -> None:
        super().__init__(engine, name, ranks, first)
        engine.cohorts.append(self)
        self.tails: tuple[Tail, ...] = ()
        self.kinds: tuple[Kind, ...] = ()
        self.own: tuple[RankPlan, ...] = ()
        self.openings: list[_Opening] = []
        self.pace = 1.0
        self.replicas = self.size = 1
        self.plan: RankPlan

    def live(self, plan: RankPlan, near: Neighbourhood, steps: int) -> Story:
        """Go through the passes of all steps; each begins when the tails have ended the one before."""
        starts_ps = tuple(0 for _ in self.kinds)
        for step in range(steps):
            self.openings.append(_Opening(len(self.log), starts_ps, None))
            yield from Step.of(self, plan, near, step).passes()
            self.end_step()
            calls = [tail.over.join(self, "step", step, _NOTHING.course()) for tail in self.tails]
            for tail in self.tails:
                if not plan.exchanges.reduces(is_last=True):
                    tail.begins.join(self, "passes", step, _NOTHING.course())
            yield from calls
            starts_ps = tuple(
                self.tails[kind.lane].step_ends[step][2] + self.tails[kind.lane].optimizer_ps(own)
                for kind, own in zip(self.kinds, self.own, strict=True)
            )

    def receive(self, sender: Cohort, wait: Wait, content: Hashable) -> Story:
        """Block until a message has arrived, and remember when the first of a step did."""
        message = self._message((sender, content))
        yield from super().receive(sender, wait, content)
        if self.openings[-1].row == len(self.log) - 1:
            self.openings[-1] = self.openings[-1]._replace(message_ps=(message.ready_ps, message.end_ps))

    def perform(self, activity: Activity, group: Collective | None = None, key: Hashable = None) -> Story:
        """Spend the time of an activity; in the first of a step, ranks may join that began at different times."""
        opening = self.openings[-1]
        is_first = len(self.log) == opening.row + (opening.message_ps is not None)
        if not is_first or group is None:
            yield from super().perform(activity, group, key)
            return
        start = self.engine.now_ps
        come_ps = 0 if opening.message_ps is None else opening.message_ps[1]
        joined = (max(begun, come_ps) + head for begun, head in zip(opening.starts_ps, self._heads_ps(), strict=True))
        ready = max(joined)
        if ready > start:
            yield self.engine.environment.timeout(ready - start)
        call = group.join(self, activity.name, (activity.name, key), activity.course(activity.rendezvous or 0))
        yield call
        self.log.add(activity, start, call.ready_ps, self.engine.now_ps)

    def launch(  # every tail has its own transfer
        self,
        group: Collective,  # noqa: ARG002
        wait: Wait,  # noqa: ARG002
        key: Hashable,
        transfer: Transfer,  # noqa: ARG002
        after: Call | None = None,  # noqa: ARG002
    ) -> Call:
        """Join a reduction in all data-parallel groups to which its ranks belong."""
        parts: tuple[Any, ...] = key  # type: ignore[assignment]  # that of a reduction, see `DataParallel`: step, ..., number
        calls = [tail.join(parts[0], parts[-1], self) for tail in self.tails]
        return calls[0].call

    def _heads_ps(self) -> Iterator[int]:
        for own in self.own:
            turn = own.turns[0]
            yield own.passes[turn.virtual_stage].forward.head_ps


class Tail(Cohort):
    """Data-parallel groups that are alike, from their reductions to the end of the step."""

    def __init__(self, engine: Engine, name: str, ranks: int, first: str, plan: RankPlan) -> None:
        super().__init__(engine, name, ranks, first)
        engine.cohorts.append(self)
        self.plan = plan
        self.calls: list[list[tuple[Wait, Call]]] = []
        self.reduced_ps: list[int] = []

    def meet(self, teams: Sequence[Team]) -> None:
        """Make the groups in which it meets the teams of its stage."""
        together: dict[Cohort, int] = {team: team.replicas for team in teams} | {self: 0}
        self.reductions = Collective("dp", together)
        self.reductions.route = Route(self.links)
        self.begins, self.over = Collective("dp", together), Collective("dp", together)
        self.alone = Collective("dp", {self: self.ranks})

    def join(self, step: int, number: int, cohort: Cohort) -> Launched:
        """Let a team, or the tail itself, join the reduction of a bucket."""
        launch = self.plan.exchanges.reduce[number]
        call = self.reductions.join(cohort, launch.wait.name, (step, number), launch.transfer.course)
        return Launched(call, launch.wait)

    def optimizer_ps(self, own: RankPlan) -> int:
        """Return what an update takes after the end of the tail: nothing if a gather follows it."""
        return 0 if self.plan.exchanges.gather else own.optimizer.duration_ps

    def live(self, tied: Collective | None, steps: int) -> Story:
        """Wait for the reductions of each step, update, gather."""
        near = Neighbourhood(None, None, None, self.alone, None, tied)
        plan = self.plan if self.plan.exchanges.gather else self.plan.without_optimizer()
        buckets = range(len(plan.exchanges.reduce))
        for step in range(steps):
            self.calls.append([])
            trainer = Step.of(self, plan, near, step)
            if plan.exchanges.reduces(is_last=True):
                trainer.data.pending.extend(self.join(step, number, self) for number in buckets)
            else:
                yield self.begins.join(self, "passes", step, _NOTHING.course())
            yield from trainer.update()
            self.reduced_ps.append(self.calls[step][len(buckets) - 1][1].end_ps)
            self.end_step()
            self.over.join(self, "step", step, _NOTHING.course())

    def wait(self, call: Call, wait: Wait) -> Story:
        """Block until a collective is over, and remember it."""
        self.calls[-1].append((wait, call))
        yield from super().wait(call, wait)


_NOTHING = Activity("nothing", ())


class View:
    """What ranks of one kind did: the passes of their team, then the update of their own.

    Parameters
    ----------
    team, number
        The team, and which of its kinds.
    name, first
        As of a cohort.
    """

    def __init__(self, team: Team, number: int, name: str, first: str) -> None:
        self._team, self._number = team, number
        self._kind = team.kinds[number]
        self._tail = team.tails[self._kind.lane]
        self.ranks = self._kind.ranks
        self.name, self.first = name, first
        self.step_ends = [(0, 0, self._end_ps(step)) for step in range(len(team.openings))]

    __str__ = Cohort.__str__

    @property
    def log(self) -> Log:
        """What the ranks did."""
        return self._logs()[0]

    @property
    def stream(self) -> Log:
        """The collectives that they launched beside their work."""
        return self._logs()[1]

    def _end_ps(self, step: int) -> int:
        own = self._team.own[self._number]
        return self._tail.step_ends[step][2] + self._tail.optimizer_ps(own)

    def _logs(self) -> tuple[Log, Log]:
        log, stream = Log(), Log()
        team, own = self._team, self._team.own[self._number]
        swapped = _swapped(team.plan, own)
        rows = list(team.log.rows())
        ends = [opening.row for opening in team.openings[1:]] + [len(rows)]
        for step, (opening, end) in enumerate(zip(team.openings, ends, strict=True)):
            now_ps = opening.starts_ps[self._number]
            for number, row in enumerate(rows[opening.row : end]):
                operation, start, ready, over = row
                if number == 0 and opening.message_ps is not None:
                    sent_ps, come_ps = opening.message_ps
                    start, ready, over = now_ps, max(now_ps, sent_ps), max(now_ps, come_ps)
                elif number == (opening.message_ps is not None):
                    start = now_ps
                log.add(swapped.get(id(operation), operation), start, ready, over)
                now_ps = over
            self._update(log, stream, step, now_ps)
        return log, stream

    def _update(self, log: Log, stream: Log, step: int, now_ps: int) -> None:
        own = self._team.own[self._number].optimizer
        gathers = {launch.wait for launch in self._tail.plan.exchanges.gather}
        updated_ps = -1
        for wait, call in self._tail.calls[step]:
            if wait in gathers and updated_ps < 0:
                log.add(own, now_ps, now_ps + own.head_ps, now_ps + own.duration_ps)
                updated_ps = now_ps = now_ps + own.duration_ps
            joined_ps = call.joined_ps.get(self._team, now_ps if updated_ps < 0 else updated_ps)
            end_ps = max(now_ps, call.end_ps)
            log.add(wait, now_ps, max(now_ps, call.ready_ps), end_ps)
            stream.add(wait, joined_ps, call.start_ps, call.end_ps)
            now_ps = end_ps
        if not self._tail.plan.exchanges.gather:
            log.add(own, now_ps, now_ps + own.head_ps, now_ps + own.duration_ps)


def _swapped(plan: RankPlan, own: RankPlan) -> Mapping[int, Operation]:
    """Return the activities of a rank by the identity of those of its team."""
    found: dict[int, Operation] = {}
    for place, passes in plan.passes.items():
        mine = own.passes[place]
        found[id(passes.forward)] = mine.forward
        found[id(passes.backward)] = mine.backward
        found.update((id(theirs), each) for theirs, each in zip(passes.segments, mine.segments, strict=True))
    return found


class Populated:
    """Teams and tails at work.

    Parameters
    ----------
    engine
        A new engine.
    spec
        The step.
    contraction
        Its ranks, sorted.
    planner
        Makes their plans.

    Attributes
    ----------
    members
        The ranks by kind, by ascending first rank; to be read after the run.
    """

    def __init__(self, engine: Engine, spec: StepSpec, contraction: Contraction, planner: Planner) -> None:
        self._engine, self._spec, self._found, self._planner = engine, spec, contraction, planner
        last = len(contraction.stages) - 1
        self._tails = {key: self._tail(*key) for key in contraction.slowest}
        self._teams = [self._teams_of(sort) for sort in contraction.sorts]
        tied: dict[Cohort, Collective] = {}
        for ends in ((self._tails[0, first], self._tails[last, other]) for first, other in contraction.tied):
            tied.update(dict.fromkeys(ends, Collective("tied", {end: end.ranks for end in ends})))
        for (stage, _), tail in self._tails.items():
            tail.meet([team for teams in self._teams for (at, _), team in teams.items() if at == stage])
            engine.start(tail, tail.live(tied.get(tail), spec.steps))
        for teams in self._teams:
            self._start(teams)

    def _start(self, teams: Mapping[tuple[int, int], Team]) -> None:
        """Let the teams of a replica begin."""
        spec, rows = self._spec, self._found.rows
        groups = {
            stage: Collective("tp", {team: team.size for (at, _), team in teams.items() if at == stage})
            for stage, _ in teams
        }
        for (stage, row), team in teams.items():
            tensor = next(tensor for (at, tensor), found in rows.items() if (at, found) == (stage, row))
            before, after = (
                teams[place, rows[place, tensor]] if (place, tensor) in rows else None
                for place in (stage - 1, stage + 1)
            )
            near = Neighbourhood(before, after, groups[stage], team.tails[0].reductions, None, None)
            self._engine.start(team, team.live(team.plan, near, spec.steps))

    @property
    def holds(self) -> bool:
        """Whether in every step all replicas had ended their passes when the reductions of their stage ended."""
        return all(
            passes_ps <= tail.reduced_ps[step]
            for teams in self._teams
            for team in teams.values()
            for tail in team.tails
            for step, (_, _, passes_ps) in enumerate(team.step_ends)
        )

    @property
    def members(self) -> tuple[Member, ...]:
        """The ranks by kind, by ascending first rank."""
        found = []
        for teams, sort in zip(self._teams, self._found.sorts, strict=True):
            for (stage, _), team in teams.items():
                for number, kind in enumerate(team.kinds):
                    view = View(team, number, team.name, self._spec.mesh.label(kind.first_rank))
                    node = self._node(sort, stage, kind, team.pace)
                    found.append(Member(view, node, team.own[number]))  # type: ignore[arg-type]  # read like a cohort
        return tuple(sorted(found, key=lambda member: member.node.first_rank))

    def _teams_of(self, sort: Sort) -> dict[tuple[int, int], Team]:
        """Return the teams of a replica, by stage and row."""
        found = {}
        for stage, kinds in enumerate(sort.kinds):
            pace = min(kind.speed for kind in kinds)
            for row in sorted({kind.row for kind in kinds}):
                of_row = tuple(kind for kind in kinds if kind.row == row)
                found[stage, row] = self._team(sort, stage, of_row, pace)
        return found

    def _team(self, sort: Sort, stage: int, kinds: tuple[Kind, ...], pace: float) -> Team:
        first = min(kinds, key=lambda kind: kind.first_rank)
        slowest = min(kinds, key=lambda kind: kind.speed)
        ranks = sum(kind.ranks for kind in kinds)
        team = Team(self._engine, f"stage {stage}", ranks, self._spec.mesh.label(first.first_rank))
        team.kinds, team.pace, team.replicas, team.size = kinds, pace, sort.replicas, ranks // sort.replicas
        team.plan = self._planner.plan(self._node(sort, stage, slowest, pace))
        team.own = tuple(self._planner.plan(self._node(sort, stage, kind, pace)) for kind in kinds)
        team.tails = tuple(tail for (at, _), tail in self._tails.items() if at == stage)
        return team

    def _node(self, sort: Sort, stage: int, kind: Kind, pace: float) -> Node:
        tensor = self._spec.mesh.coordinates(kind.first_rank)["tp"]
        payer = self._found.places[Coordinates(tensor, stage, sort.like)]
        return Node(payer.stage, kind.first_rank, kind.ranks, payer.prices, kind.speed, pace)

    def _tail(self, stage: int, lane: int) -> Tail:
        node, spec = self._found.payers[stage, lane], self._spec
        speed = self._found.slowest[stage, lane]
        ranks = spec.mesh.size("dp") * sum(found == lane for (at, _), found in self._found.lanes.items() if at == stage)
        plan = self._planner.plan(Node(node.stage, node.first_rank, ranks, node.prices, speed, speed))
        return Tail(self._engine, f"stage {stage}", ranks, spec.mesh.label(node.first_rank), plan)
