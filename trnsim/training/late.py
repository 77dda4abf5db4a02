"""Late replicas: still at work when gradients of their stage are being reduced, on links that both use.

The last gradient that a stage sends back may still be on its way when the last replica of all has come to the reduction,
which then is slower on some tensor ranks than on others, and so is the message. A late replica is therefore simulated
together with the tails: its tensor groups leave all passes together as ever, but each of their ranks has links of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsim.engine import Arrival, Cohort, Collective, Route
from trnsim.training.bodies import Team
from trnsim.training.steady import Steady
from trnsim.training.story import Neighbourhood

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from trnsim.engine import Activity, Call, Engine, Story, Transfer, Wait
    from trnsim.engine.shared_links import Link
    from trnsim.training.bodies import Entrant
    from trnsim.training.story import RankPlan
    from trnsim.training.tails import Tail
    from trnsim.training.views import Entry, Roster

__all__ = ["LateRank", "LateReplica", "LateTeam"]


class LateRank(Cohort):
    """The links of one rank of a late replica, and what it does by itself at the end of its passes.

    Attributes
    ----------
    plan
        Its own.
    tail
        Its tail.
    came
        The last gradient that it receives; None in the last stage.
    sent
        The last gradient that it sends; None in the first stage.
    """

    def __init__(self, engine: Engine, plan: RankPlan, tail: Tail) -> None:
        super().__init__(engine, tail.name, 1, f"of {tail.name}")
        self.plan, self.tail = plan, tail
        self.came: Arrival | None = None
        self.sent: Arrival | None = None

    def begun_ps(self, ready_ps: int) -> int:
        """Return when it begins its last pass, if it has been ready for it from a time on."""
        return ready_ps if self.came is None else max(ready_ps, self.came.end_ps)

    def joined_ps(self, ready_ps: int) -> int:
        """Return when it is through with what it does in its last pass before the first collective."""
        place = self.plan.turns[-1].virtual_stage
        return self.begun_ps(ready_ps) + self.plan.passes[place].segments[0].head_ps


class LateTeam(Team):
    """The ranks of a tensor group in a late replica.

    Parameters
    ----------
    each
        Its ranks, in the order of tensor ranks.

    Attributes
    ----------
    last_rows
        Rows of the log from the receipt of the last gradient on; 0 in the last stage.
    """

    def __init__(self, engine: Engine, stage: int, entrant: Entrant, each: tuple[LateRank, ...]) -> None:
        super().__init__(engine, stage, entrant)
        self.each = each
        self.last_rows = 0
        self._last: Arrival | None = None
        self._last_row: int | None = None

    def live(self, near: Neighbourhood, steady: Steady) -> Story:
        """Go through the passes."""
        yield from super().live(near, steady)
        self.last_rows = 0 if self._last_row is None else len(self.log) - self._last_row

    def links(self, kind: str) -> tuple[Link, ...]:
        """Return the links of a kind of all its ranks."""
        return tuple(link for rank in self.each for link in rank.links(kind))

    def receive(self, sender: Cohort, wait: Wait, content: Hashable) -> Story:
        """Block until a message has arrived, and remember the last."""
        message = self._message((sender, content))
        row = len(self.log)
        yield from super().receive(sender, wait, content)
        if message is self._last:
            self._last_row = row

    def perform(self, activity: Activity, group: Collective | None = None, key: Hashable = None) -> Story:
        """Spend the time of an activity; to the first after the last gradient each rank comes when it has that."""
        row = self._last_row
        if row is None or row != len(self.log) - 1 or group is None or activity.rendezvous is None:
            return super().perform(activity, group, key)
        return self._open(max(rank.joined_ps(self.log.times_ps[3 * row]) for rank in self.each), activity, group, key)

    def launch(
        self, group: Collective, wait: Wait, key: Hashable, transfer: Transfer, after: Call | None = None
    ) -> Call:
        """Let its ranks join the reductions of their tails."""
        number = len(self.launches_ps)
        for rank in self.each:
            rank.tail.join(rank, number)
        return super().launch(group, wait, key, transfer, after)

    def _carry(self, receiver: Cohort, content: Hashable, transfer: Transfer) -> Arrival:
        """Send a message; the last one, after which nothing is left but to wait for reductions, rank by rank."""
        if len(self.launches_ps) < len(self.plan.exchanges.reduce) or not isinstance(receiver, LateTeam):
            return super()._carry(receiver, content, transfer)
        message = receiver._last = receiver._message((self, content))  # noqa: SLF001  # of its own class
        message.ready_ps = self.engine.now_ps
        under_way = set(self.each)
        for rank, other in zip(self.each, receiver.each, strict=True):
            rank.sent = other.came = Arrival(self.engine.environment)
            rank.sent.callbacks.append(_when_all(under_way, rank, message.happen))
        for rank, other in zip(self.each, receiver.each, strict=True):
            self.engine.carry(transfer.course, _route(rank, other), rank.sent)  # type: ignore[arg-type]  # set above
        return message

    def _route_to(self, receiver: Cohort) -> Route:
        route = self._routes.get(receiver)
        if route is None:
            route = self._routes[receiver] = Route(lambda kind: (*self.links(kind)[::2], *receiver.links(kind)[1::2]))
        return route


def _when_all(under_way: set[LateRank], rank: LateRank, over: Callable[[], None]) -> Callable[[object], None]:
    def arrived(_: object) -> None:
        under_way.remove(rank)
        if not under_way:
            over()

    return arrived


def _route(sender: Cohort, receiver: Cohort) -> Route:
    return Route(lambda kind: (sender.links(kind)[0], receiver.links(kind)[1]))


class LateReplica:
    """The passes of a late replica in the engine of the tails.

    Parameters
    ----------
    engine
        The engine.
    entry
        The replica.

    Attributes
    ----------
    teams
        Its teams. Their logs are late by the time of what is not simulated as it repeats itself.
    """

    def __init__(self, engine: Engine, entry: Entry) -> None:
        self._entry = entry
        teams = self.teams = {
            place: LateTeam(
                engine, place[0], roster.entrant(entry.starts_ps[place], -entry.body.later_ps), _ranks(engine, roster)
            )
            for place, roster in entry.cast.items()
        }
        self._steady = Steady(engine, list(teams.values()))
        groups = {
            stage: Collective("tp", {team: team.ranks for (at, _), team in teams.items() if at == stage})
            for stage in {stage for stage, _ in teams}
        }
        gradients = Collective("dp", {})
        start_ps = entry.zero_ps + entry.body.later_ps  # so that they come to the reductions in time
        for place, team in teams.items():
            before, after = (None if other is None else teams[other] for other in entry.neighbours[place])
            near = Neighbourhood(before, after, groups[place[0]], gradients, None, None)
            engine.start(team, _from(engine, start_ps, team.live(near, self._steady)))

    @property
    def ranks(self) -> Iterator[LateRank]:
        """Its ranks."""
        return (rank for team in self.teams.values() for rank in team.each)

    def settle(self) -> None:
        """Write into the logs what was not simulated, and note what was done; to be called when the run is over.

        Raises
        ------
        RuntimeError
            If that is not what the replica did not simulate alone.
        """
        later_ps = self._entry.body.later_ps
        if self._steady.later_ps != later_ps:
            raise RuntimeError(f"{self._steady.later_ps} ps repeat themselves, and {later_ps} ps when alone")
        self._steady.settle()
        for team in self.teams.values():
            team.shift(later_ps)
        self._entry.note(self.teams, -later_ps)

    @property
    def repeated(self) -> int:
        """Passes that were not simulated."""
        return self._steady.turns


def _ranks(engine: Engine, roster: Roster) -> tuple[LateRank, ...]:
    return tuple(
        LateRank(engine, plan, roster.tails[kind.lane]) for kind, plan in zip(roster.kinds, roster.own, strict=True)
    )


def _from(engine: Engine, start_ps: int, story: Story) -> Story:
    if start_ps > engine.now_ps:
        yield engine.environment.timeout(start_ps - engine.now_ps)
    yield from story
