"""Bodies: the passes of one replica in one step, simulated alone, by teams that stand for whole tensor groups.

Until gradients are being summed nothing from outside reaches a replica (who is late for that: `trnsim.training.late`). What
it does in its passes depends on the paces of its stages and on when its ranks begin, and not on what the clock shows then:
one body serves all replicas, in all steps, whose ranks would have come to each of its collectives when those of the body did.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from trnsim.engine import Activity, Cohort, Collective
from trnsim.training.replay import Replay, can_be_replayed
from trnsim.training.steady import Steady
from trnsim.training.story import Neighbourhood, RankPlan, Step

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping

    from trnsim.engine import Arrival, Call, Engine, Log, Story, Transfer, Wait
    from trnsim.training.passes import StagePasses

__all__ = ["Bodies", "Body", "Entrant", "Place", "Strands", "Team", "counterparts"]

Place = tuple[int, int]
"""Stage, and number of the team in it."""

Strands = tuple[tuple[int, ...], ...]
"""For each tensor rank, by stage, the number of the team that it is in: ranks exchange messages along their strand."""


class Entrant(NamedTuple):
    """Who is to go through the passes of a step as a team.

    Attributes
    ----------
    plan
        Of its slowest ranks.
    opening_ps
        For each kind of them, when it begins the step, and how long it works then before its first collective. Times
        count from the first collective of the first stage.
    """

    plan: RankPlan
    opening_ps: tuple[tuple[int, int], ...]

    def joined_ps(self, come_ps: int | None) -> int:
        """Return when all have come to their first collective, if their first message has come at a time."""
        return max((begun if come_ps is None else max(begun, come_ps)) + head for begun, head in self.opening_ps)


class Team(Cohort):
    """Ranks of a tensor group whose messages come and leave at the same times, in the passes of a step.

    Attributes
    ----------
    message_ps
        When the message before the first pass was sent and came; None for the first stage.
    launches_ps
        When the gradients of each bucket were complete.
    passed_ps
        When the passes were over.
    """

    def __init__(self, engine: Engine, stage: int, ranks: int, entrant: Entrant) -> None:
        super().__init__(engine, f"stage {stage}", ranks, f"of stage {stage}")
        engine.cohorts.append(self)
        self.plan = entrant.plan
        self.message_ps: tuple[int, int] | None = None
        self.launches_ps: list[int] = []
        self.passed_ps = 0
        self._entrant: Entrant | None = entrant

    def live(self, near: Neighbourhood, steady: Steady) -> Story:
        """Go through the passes."""
        yield from Step.of(self, self.plan, near, 0, steady).passes()
        self.passed_ps = self.engine.now_ps

    @property
    def rows(self) -> int:
        """How many rows its log has."""
        return len(self.log)

    def passes_key(self) -> Hashable:
        """Return what is the same for others only if their passes are."""
        return self

    def passes(self, later_ps: int) -> tuple[Log, str]:
        """Return what the team did, so much later, and the names of that."""
        return self.log.later(later_ps), self.log.names()

    def shift(self, later_ps: int) -> None:
        """Put off what comes after a steady state that was not simulated: gradients leave with the last microbatch only."""
        self.launches_ps = [time_ps + later_ps for time_ps in self.launches_ps]
        self.passed_ps += later_ps

    def receive(self, sender: Cohort, wait: Wait, content: Hashable) -> Story:
        """Block until a message has arrived, and remember when one did before the first pass."""
        received = super().receive(sender, wait, content)
        return received if self._entrant is None else self._noted(received, self._message((sender, content)))

    def perform(self, activity: Activity, group: Collective | None = None, key: Hashable = None) -> Story:
        """Spend the time of an activity; in the first, ranks may join that began at different times."""
        entrant, self._entrant = self._entrant, None
        if entrant is None or group is None:
            return super().perform(activity, group, key)
        return self._open(entrant.joined_ps(self.message_ps and self.message_ps[1]), activity, group, key)

    def _noted(self, received: Story, message: Arrival) -> Story:
        yield from received
        self.message_ps = message.ready_ps, message.end_ps

    def _open(self, joined_ps: int, activity: Activity, group: Collective, key: Hashable) -> Story:
        """Spend the time of an activity whose first collective all ranks have come to at some time."""
        start = self.engine.now_ps
        head_ps = max(0, joined_ps - start)
        course = activity.course(activity.rendezvous or 0)
        call = group.join(self, activity.name, (activity.name, key), course, head_ps)
        yield call
        self.journal.add(activity, start, call.ready_ps, self.engine.now_ps)

    def launch(
        self,
        group: Collective,
        wait: Wait,
        key: Hashable,
        transfer: Transfer,  # noqa: ARG002  # what it takes is up to the data-parallel groups of its ranks
        after: Call | None = None,  # noqa: ARG002
    ) -> Call:
        """Note that the gradients of a bucket are complete."""
        self.launches_ps.append(self.engine.now_ps)
        return group.call(self.engine, wait.name, key)


class Body:
    """One replica in the passes of one step, by events.

    Parameters
    ----------
    engine
        A new engine; it is run.
    entrants
        The teams. Ranks of one team that exchange messages with different teams are simulated apart, as processes exchange
        theirs in pairs.
    strands
        Who exchanges messages with whom.

    Attributes
    ----------
    teams
        What they did.
    events, repeated
        The events that this took, and the passes that were not simulated as they repeat earlier ones.
    later_ps
        How long these take.
    """

    def __init__(
        self,
        engine: Engine,
        entrants: Mapping[Place, Entrant],
        strands: Strands,
    ) -> None:
        pipelines = {
            strand: [Team(engine, stage, ranks, entrants[stage, team]) for stage, team in enumerate(strand)]
            for strand, ranks in sorted(Counter(strands).items())
        }
        groups = [
            Collective("tp", {team: team.ranks for team in teams}) for teams in zip(*pipelines.values(), strict=True)
        ]
        gradients, steady = Collective("dp", {}), Steady(engine)
        self._entrants = entrants
        for teams in pipelines.values():
            for before, team, after, group in zip([None, *teams], teams, [*teams[1:], None], groups, strict=False):
                engine.start(team, team.live(Neighbourhood(before, after, group, gradients, None, None), steady))
        engine.run()
        steady.settle()
        for team in chain.from_iterable(pipelines.values()):
            team.shift(steady.later_ps)
        self.teams = {
            (stage, strand[stage]): team for strand, teams in pipelines.items() for stage, team in enumerate(teams)
        }
        self.events, self.repeated, self.later_ps = engine.events, steady.turns, steady.later_ps

    def fits(self, entrants: Mapping[Place, Entrant]) -> bool:
        """Say whether other teams would do the same: here, whether they are the same."""
        return entrants == self._entrants


class Bodies:
    """All bodies that have been simulated.

    Parameters
    ----------
    new_engine
        Makes an engine whose clock begins at a time.
    links_are_shared
        Whether transfers that are on one link at the same time share it.
    replays
        Whether those are replayed that can be.

    Attributes
    ----------
    count, events, repeated
        How many there are, and the sums of the others over all of them.
    replays
        As given.
    """

    def __init__(self, new_engine: Callable[[int], Engine], *, links_are_shared: bool, replays: bool) -> None:
        self.count = self.events = self.repeated = 0
        self.new_engine = new_engine
        self.replays, self._links_are_shared = replays, links_are_shared
        self._found: defaultdict[Hashable, list[Body | Replay]] = defaultdict(list)
        self._plans: dict[int, tuple[RankPlan, int]] = {}
        self._numbers: dict[Hashable, int] = {}

    def of(
        self,
        entrants: Mapping[Place, Entrant],
        strands: Strands,
    ) -> Body | Replay:
        """Return what teams do, simulated unless a body is known that does the same."""
        key = strands, *((*place, self._number(entrant.plan)) for place, entrant in entrants.items())
        for body in self._found[key]:
            if body.fits(entrants):
                return body
        body = self._simulated(entrants, strands)
        self.count += 1
        self.events += body.events
        self.repeated += body.repeated
        self._found[key].append(body)
        return body

    def _simulated(
        self,
        entrants: Mapping[Place, Entrant],
        strands: Strands,
    ) -> Body | Replay:
        if self.replays and can_be_replayed(entrants, strands):
            replay = Replay(entrants, strands, links_are_shared=self._links_are_shared)
            if replay.is_over:
                return replay  # if it stalls, its events tell who waits for what
        return Body(self.new_engine(0), entrants, strands)

    def _number(self, plan: RankPlan) -> int:
        """Return a number that is the same for plans whose ranks do the same in passes, but for what they compute before they meet."""
        if id(plan) not in self._plans:
            sent = (plan.send_activation, plan.send_gradient)
            key = (
                (plan.turns, plan.end, plan.exchanges.reduces(is_last=True)),
                tuple(each and tuple(each.course.stints) for each in sent),
                tuple((place, _courses(passes)) for place, passes in plan.passes.items()),
            )
            self._plans[id(plan)] = plan, self._numbers.setdefault(key, len(self._numbers))
        return self._plans[id(plan)][1]


def _activities(passes: StagePasses) -> tuple[Activity, ...]:
    return passes.forward, passes.backward, *passes.segments


def _courses(passes: StagePasses) -> Hashable:
    """Return what passes are to the links from their first collective on."""
    found = (tuple(each.course(each.rendezvous or 0).stints) for each in _activities(passes))
    return passes.buckets, tuple(found)


def _all_activities(plan: RankPlan) -> Iterator[Activity]:
    for passes in plan.passes.values():
        yield from (*_activities(passes), *passes.forward_segments)
    yield plan.optimizer


def counterparts(plan: RankPlan, other: RankPlan) -> Iterator[tuple[Activity, Activity]]:
    """Yield the activities of a plan, each with that of another at the same place."""
    return zip(_all_activities(plan), _all_activities(other), strict=True)
