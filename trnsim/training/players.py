"""Who acts in a replay: teams that pass on messages, and stages in whose passes teams meet; plain data, no processes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from trnsim.engine import Link, Route
from trnsim.training.story import LAST
from trnsim.training.times import Times
from trnsim.training.tracks import Track
from trnsim.training.ways import Way

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from trnsim.engine import Agenda, Course
    from trnsim.training.bodies import Entrant, Place

__all__ = ["Appointments", "Player", "Stage"]


class Appointments(NamedTuple):
    """The passes of a tensor group.

    Attributes
    ----------
    places
        Its teams.
    opened_ps
        When all had come to the first.
    later
        Of each other, the number of the activity, and what each team had until all had come.
    """

    places: tuple[Place, ...]
    opened_ps: int
    later: frozenset[tuple[int, ...]]

    def suit(self, tracks: Mapping[Place, Track], entrants: Mapping[Place, Entrant]) -> bool:
        """Say whether the last of other teams, who get the same messages, would come to each just when it began."""
        if max(_joined_ps(entrants[place], tracks[place]) for place in self.places) != self.opened_ps:
            return False
        heads_ps = [[each.head_ps for each in entrants[place].plan.activities] for place in self.places]
        return all(
            max(heads[work] - spare_ps for heads, spare_ps in zip(heads_ps, spares_ps, strict=True)) == 0
            for work, *spares_ps in self.later
        )


def _joined_ps(entrant: Entrant, track: Track) -> int:
    """Return when all ranks of a team come to their first pass, who get the messages of another."""
    message_ps = track.message_ps
    return entrant.joined_ps(message_ps and message_ps[1])


class _Actor:
    """One of those that know each other, and so are not freed when nobody else knows them."""

    def forget(self) -> None:
        """Forget everything; to be called at the end, as commands collect no garbage."""
        vars(self).clear()


class Player(_Actor):
    """A team in its passes.

    Parameters
    ----------
    place, entrant
        Who it is.
    stage
        Its stage.
    agenda
        Where time passes.

    Attributes
    ----------
    track
        What it did.
    turn, work
        Number of the pass that is going on, and of the activity in it.
    since_ps
        When it began what it does.
    heads_ps, met
        By number of an activity, how long it works before it needs the others of its stage; what follows then, as
        `Stage.known` says it.
    receives, sends
        By kind of message, how they come and go; None where they do not.
    backlog, awaits
        By kind of message, how many have come before they were waited for; the kind that is waited for, or -1.
    """

    def __init__(self, place: Place, entrant: Entrant, stage: Stage, agenda: Agenda) -> None:
        self.place, self.entrant, self.stage, self._agenda = place, entrant, stage, agenda
        self.track = Track(entrant.plan, stage.met_ps)
        self.activities = entrant.plan.activities
        self.heads_ps = [activity.head_ps for activity in self.activities]
        self.met: list[tuple[int, Course | None]] = []
        self.worked, self.left = self.track.worked_ps.kept, self.track.left_ps.kept
        self.turn, self.work, self.since_ps = -1, 0, 0
        self.receives: list[Way | None] = [None, None]
        self.sends: list[Way | None] = [None, None]
        self.look: Callable[[], None] | None = None
        self._links: dict[str, Link] = {}
        self._works = entrant.plan.works
        self._end = len(self._works)
        self.backlog = [0, 0]
        self.awaits = -1
        stage.players.append(self)

    @property
    def is_over(self) -> bool:
        """Whether there is no pass left."""
        return self.turn == self._end

    def links(self, kind: str) -> tuple[Link, ...]:
        """Return its links of a kind."""
        if kind not in self._links:
            self._links[kind] = Link(kind)
        return (self._links[kind],)

    def get_ready(self) -> None:
        """Look up once what it needs in every pass."""
        self.met = [self.stage.known(each.course(each.rendezvous or 0)) for each in self.activities]

    def resume(self, passes: int, worked_ps: Times, left_ps: Times) -> None:
        """Go on after some passes, given the times that were kept of them."""
        self.track.worked_ps, self.track.left_ps = worked_ps, left_ps
        self.worked, self.left = worked_ps.kept, left_ps.kept
        self.turn = passes - 1
        self.work = self._works[self.turn]

    def launch(self, launches_ps: list[int]) -> None:
        """Note when the gradients of each bucket were complete, as the last pass is over."""
        self.track.launches_ps = launches_ps

    def go_on(self) -> None:
        """Begin the next pass, as what was made in this one has come."""
        self.left.append(self._agenda.now)
        self.begin()

    def begin(self) -> None:
        """Begin the next pass, if there is one, or wait for what it needs."""
        self.turn += 1
        if self.turn == self._end:
            self.track.passed_ps = self._agenda.now
            return
        if self.look is not None:
            self._agenda.call_when_settled(self.look)
        self.work = self._works[self.turn]
        kind = self.work and 1
        if self.receives[kind] is not None:
            if not self.backlog[kind]:
                self.awaits = kind
                self.since_ps = self._agenda.now
                return
            self.backlog[kind] -= 1
        self.stage.join(self)

    def way(self, kind: int, senders: Sequence[Player], receivers: Sequence[Player], course: Course) -> Way:
        """Return a way for messages of teams of its stage, itself among them, to others."""
        return Way(kind, senders, receivers, course, self._agenda)

    def take(self, kind: int) -> None:
        """Get a message: go on with it, or keep it for later."""
        if self.awaits == kind:
            self.awaits = -1
            self.stage.join(self)
        else:
            self.backlog[kind] += 1

    def leave(self) -> None:
        """End a pass, or a segment of the last, and send on what was made in it."""
        now_ps = self.since_ps = self._agenda.now
        if self.work >= LAST:
            self.track.launches_ps.append(now_ps)
            self.work += 1
            if self.work < len(self.activities):
                self.stage.join(self)
                return
        self.worked.append(now_ps)
        way = self.sends[self.work and 1]
        if way is not None:
            way.set_out()
        else:
            self.go_on()

    def situation(self, turn: int, now_ps: int) -> Hashable:
        """Return how far it is in the passes, in turns after another one, since when, and what waits for it."""
        is_sending = len(self.worked) - len(self.left)
        streams = tuple([link.situation(now_ps) for link in self._links.values()])
        return self.turn - turn, self.awaits, is_sending, now_ps - self.since_ps, *self.backlog, *streams


class Stage(_Actor):
    """The teams of a stage, who meet in its passes.

    Parameters
    ----------
    agenda
        Where time passes.
    is_alone
        Whether there is one team only.

    Attributes
    ----------
    players
        The teams.
    join
        Lets a team begin a pass.
    opened_ps
        When all had come to their first pass.
    met_ps
        When they had come to each other pass; None for one team.
    meetings
        Of each other pass, the number of the activity, and what each team had until all had come.
    kinds
        Kinds of links on which passes may meet messages.
    """

    def __init__(self, agenda: Agenda, *, is_alone: bool) -> None:
        self.players: list[Player] = []
        self.opened_ps = -1
        self._met = Times()
        self.met_ps = None if is_alone else self._met
        self.meetings: set[tuple[int, ...]] = set()
        self.kinds: frozenset[str] = frozenset()
        self.join = self._open
        self._agenda = agenda
        self._joined = self._ready_ps = 0
        self._whole: list[tuple[int, Course | None]] = []
        self._route = Route(lambda kind: [link for player in self.players for link in player.links(kind)])
        self._end: Callable[[], None] = self._leave

    def _open(self, player: Player) -> None:
        """Let a team begin its first pass, in which ranks may join that began the step at different times."""
        player.since_ps = now_ps = self._agenda.now
        self._ready_ps = max(self._ready_ps, now_ps, _joined_ps(player.entrant, player.track))
        self._joined += 1
        if self._joined < len(self.players):
            return
        self.resume(self._ready_ps, self.met_ps)
        self._start(player, now_ps)

    def resume(self, opened_ps: int, met_ps: Times | None) -> None:
        """Go on to the passes after the first, given when all had come to it, and to those of the others that are over."""
        self.opened_ps, self.met_ps = opened_ps, met_ps
        for each in self.players:
            each.track.opened_ps, each.track.met_ps = opened_ps, met_ps
        self.join = self.meet
        if met_ps is not None:
            self._met = met_ps
        else:
            (player,) = self.players
            self.join, self._end = self._work, player.leave
            self._whole = [self.known(activity.course()) for activity in player.activities]
            self.meetings = set(enumerate(player.heads_ps))

    def _work(self, player: Player) -> None:
        """Let the only team begin a pass."""
        player.since_ps = now_ps = self._agenda.now
        duration_ps, course = self._whole[player.work]
        if course is None:
            self._agenda.add(now_ps + duration_ps, self._end)
        else:
            self._agenda.carry(course, self._route, self._end)

    def meet(self, player: Player) -> None:
        """Let a team begin a pass; the last of the stage starts it."""
        player.since_ps = now_ps = self._agenda.now
        ready_ps = now_ps + player.heads_ps[player.work]
        self._ready_ps = max(self._ready_ps, ready_ps)
        self._joined += 1
        if self._joined == len(self.players):
            ready_ps = self._ready_ps
            self._met.kept.append(ready_ps)
            self.meetings.add((player.work, *[ready_ps - each.since_ps for each in self.players]))
            self._start(player, now_ps)

    def _start(self, player: Player, now_ps: int) -> None:
        """Start the pass to which all have come, when their last rank has come to its first collective."""
        ready_ps, self._ready_ps, self._joined = self._ready_ps, 0, 0
        duration_ps, course = player.met[player.work]
        if course is None:
            self._agenda.add(ready_ps + duration_ps, self._end)
        elif ready_ps > now_ps:
            self._agenda.add(ready_ps, partial(self._agenda.carry, course, self._route, self._end))
        else:
            self._agenda.carry(course, self._route, self._end)

    @property
    def appointments(self) -> Appointments:
        """When all came to its passes."""
        return Appointments(tuple(player.place for player in self.players), self.opened_ps, frozenset(self.meetings))

    def known(self, course: Course) -> tuple[int, Course | None]:
        """Return how long a course takes alone; and the course itself, if it may meet others."""
        return course.duration_ps, None if self.kinds.isdisjoint(course.kinds) else course

    def _leave(self) -> None:
        for player in self.players:
            player.leave()
