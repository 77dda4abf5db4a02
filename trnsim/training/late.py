"""Late replicas: still at work when gradients of their stage are being reduced, on links that both use.

The last gradient that a stage sends back may still be on its way when the last replica of all has come to the reduction,
which then is slower on some tensor ranks than on others, and so is the message. Late replicas are therefore replayed
together, and with the reductions that they meet. Their tensor groups leave all passes together as ever, but where they
meet reductions each of their ranks has links of its own.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import partial
from typing import TYPE_CHECKING

from trnsim.engine import Link, Route
from trnsim.training.players import Player, Stage
from trnsim.training.replay import connect
from trnsim.training.resumption import resume
from trnsim.training.story import LAST
from trnsim.training.tracks import BACKWARD, Track
from trnsim.training.ways import Way

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence

    from trnsim.engine import Agenda, Course
    from trnsim.training.bodies import Entrant, Place, Strands
    from trnsim.training.sorts import Columns
    from trnsim.training.story import RankPlan
    from trnsim.training.views import Entry

__all__ = ["LateRank", "LateReplica", "LateTrack", "Reductions", "alike", "late_ranks"]


class LateRank:
    """A rank of a late replica in a stage that meets reductions, or gets the last gradient from such a stage.

    Parameters
    ----------
    column
        Its column: tensor ranks that are alike in all stages.
    plan
        Its own.
    lane
        The number of its tail in its stage.

    Attributes
    ----------
    reductions
        Those of its tail, if it meets them.
    head_ps, reduced_on
        How long it works in its last pass before the first collective; kinds of links on which its gradients are reduced.
    came_ps, sent_ps
        When the last gradient came to it, and when that which it sends had come; None where there is none.
    """

    def __init__(self, column: int, plan: RankPlan, lane: int) -> None:
        self.column, self.lane = column, lane
        self.reductions: Reductions | None = None
        self.came_ps: int | None = None
        self.sent_ps: int | None = None
        self.head_ps = plan.activities[LAST].head_ps
        self.reduced_on = {kind for launch in plan.exchanges.reduce for kind in launch.transfer.course.kinds}
        self._links: tuple[dict[str, Link], dict[str, Link]] = {}, {}

    def inward(self, kind: str) -> Link:
        """Return its link of a kind on which messages come."""
        return self._links[0].setdefault(kind, Link(kind))

    def outward(self, kind: str) -> Link:
        """Return its link of a kind on which messages leave."""
        return self._links[1].setdefault(kind, Link(kind))

    def both(self, kind: str) -> tuple[Link, Link]:
        """Return its links of a kind."""
        return self.inward(kind), self.outward(kind)

    def begins_ps(self, ready_ps: int) -> int:
        """Return when it begins its last pass, if it has been ready for it from a time on."""
        return ready_ps if self.came_ps is None else max(ready_ps, self.came_ps)


class LateTrack(Track):
    """What a team did whose ranks are told apart at the end.

    Attributes
    ----------
    ranks
        The ranks, in the order of columns.
    joined_ps
        When they had come to the last pass, on the clock of the run; None if all had at once. Of use for the only team of a stage.
    """

    __slots__ = ("joined_ps", "ranks")

    def __init__(self, plan: RankPlan, stage: Stage, ranks: Sequence[LateRank]) -> None:
        super().__init__(plan, stage.met_ps)
        self.ranks = ranks
        self.joined_ps: int | None = None

    @property
    def last_rows(self) -> int:
        """Rows of the log from the receipt of the last gradient on."""
        return 1 + len(self.plan.activities) - LAST + (self.previous is not None)

    def _ready(self, later_ps: int, begun: list[int], segments: list[int]) -> list[int]:
        found = super()._ready(later_ps, begun, segments)
        if self.joined_ps is not None and self.met_ps is None:
            found[len(self.plan.works) - 1] = self.joined_ps
        return found


class Reductions:
    """The reductions of a tail that late replicas meet, one after the other.

    Parameters
    ----------
    agenda
        Where time passes.
    courses
        What each is to the links.
    others_ps
        When the other replicas have come to each.
    ranks
        Those of late replicas.

    Attributes
    ----------
    durations_ps
        How long each took.
    """

    def __init__(
        self, agenda: Agenda, courses: Sequence[Course], others_ps: Sequence[int], ranks: Sequence[LateRank]
    ) -> None:
        self.durations_ps: list[int] = []
        self._agenda, self._courses = agenda, courses
        self._missing = [len(ranks) + 1] * len(courses)
        self._waiting: list[int] = []
        self._start_ps = 0
        self._route = Route(lambda kind: [link for rank in ranks for link in rank.both(kind)])
        for rank in ranks:
            rank.reductions = self
        for number, at_ps in enumerate(others_ps):
            agenda.add(max(at_ps, agenda.now), partial(self.join, number))

    def join(self, number: int) -> None:
        """Let a rank, or all that are not late, come to one of them; the last starts it."""
        self._missing[number] -= 1
        if not self._missing[number]:
            self._waiting.append(number)
            if len(self._waiting) == 1:
                self._start()

    def _start(self) -> None:
        self._start_ps = self._agenda.now
        self._agenda.carry(self._courses[self._waiting[0]], self._route, self._end)

    def _end(self) -> None:
        self.durations_ps.append(self._agenda.now - self._start_ps)
        del self._waiting[0]
        if self._waiting:
            self._start()


class _LatePlayer(Player):
    """A team whose ranks are told apart at the end.

    Parameters
    ----------
    place, entrant, stage, agenda
        As for a player.
    ranks
        The ranks, in the order of columns.
    """

    def __init__(self, place: Place, entrant: Entrant, stage: Stage, agenda: Agenda, ranks: Sequence[LateRank]) -> None:
        super().__init__(place, entrant, stage, agenda)
        self.ranks = ranks
        self.track: LateTrack = LateTrack(entrant.plan, stage, ranks)
        self.worked, self.left = self.track.worked_ps.kept, self.track.left_ps.kept

    def links(self, kind: str) -> tuple[Link, ...]:
        """Return the links of a kind on which messages come to its ranks."""
        return tuple([rank.inward(kind) for rank in self.ranks])

    def way(self, kind: int, senders: Sequence[Player], receivers: Sequence[Player], course: Course) -> Way:
        """Return a way for messages of teams of its stage to others."""
        if kind == BACKWARD and isinstance(receivers[0], _LatePlayer):
            return _LateWay(senders, receivers, course, self._agenda)
        return super().way(kind, senders, receivers, course)

    def take(self, kind: int) -> None:
        """Get a message; with the last gradient each rank goes on when it has it."""
        is_last = self.turn + 1 == len(self.entrant.plan.works) and self.ranks[0].came_ps is not None
        if self.awaits == kind and is_last:
            self.awaits = -1
            self.track.joined_ps = max(rank.begins_ps(self.since_ps) + rank.head_ps for rank in self.ranks)
            self.heads_ps[LAST] = self.track.joined_ps - self._agenda.now
            self.stage.meet(self)
        else:
            super().take(kind)

    def launch(self, launches_ps: list[int]) -> None:
        """Note when the gradients of each bucket were complete, as the last pass is over."""
        super().launch(launches_ps)
        for number, launched_ps in enumerate(launches_ps):
            for rank in self.ranks:
                if rank.reductions is not None:
                    self._agenda.add(launched_ps, partial(rank.reductions.join, number))

    def leave(self) -> None:
        """End a pass; at the end of a segment of the last, come to a reduction."""
        if self.work >= LAST:
            for rank in self.ranks:
                if rank.reductions is not None:
                    rank.reductions.join(self.work - LAST)
        super().leave()


class _LateWay(Way):
    """Gradients from late teams to others; the last goes rank by rank, as nothing follows it but reductions."""

    def __init__(self, senders: Sequence[Player], receivers: Sequence[Player], course: Course, agenda: Agenda) -> None:
        super().__init__(BACKWARD, senders, receivers, course, agenda)
        self._pairs = list(zip(_by_column(senders), _by_column(receivers), strict=True))
        self._under_way = len(self._pairs)

    def carry(self) -> None:
        """Send a message."""
        if self.senders[0].work < LAST:
            super().carry()
            return
        for rank, other in self._pairs:
            self._agenda.carry(self.course, _route(rank, other), partial(self._come_to, rank, other))

    def foresee(self, come_ps: int) -> None:
        """Note when the last message comes."""
        for rank, other in self._pairs:
            rank.sent_ps = other.came_ps = come_ps

    def _come_to(self, rank: LateRank, other: LateRank) -> None:
        rank.sent_ps = other.came_ps = self._agenda.now
        self._under_way -= 1
        if not self._under_way:
            self.come()


def _by_column(players: Iterable[Player]) -> list[LateRank]:
    """Return the ranks of late teams in the order of columns."""
    ranks = (rank for player in players if isinstance(player, _LatePlayer) for rank in player.ranks)
    return sorted(ranks, key=lambda rank: rank.column)


def _route(sender: LateRank, receiver: LateRank) -> Route:
    return Route(lambda kind: (sender.outward(kind), receiver.inward(kind)))


class LateReplica:
    """The passes of late replicas that are alike, beside those of others.

    Parameters
    ----------
    agenda
        Where time passes.
    entries
        The replicas.
    ranks
        The ranks of each in the stages in which they are told apart, by team.
    until_ps
        Until when they do what they did alone.
    """

    def __init__(
        self,
        agenda: Agenda,
        entries: Sequence[Entry],
        ranks: Mapping[Place, Sequence[LateRank]],
        until_ps: int,
    ) -> None:
        self._entries, entry = entries, entries[0]
        teams = Counter(stage for stage, _ in entry.cast)
        stages = {stage: Stage(agenda, is_alone=count == 1) for stage, count in teams.items()}
        players: dict[Place, Player] = {}
        for place, roster in entry.cast.items():
            who = place, roster.entrant(entry.starts_ps[place], 0), stages[place[0]], agenda
            players[place] = _LatePlayer(*who, ranks[place]) if place in ranks else Player(*who)
        connect(players, entry.strands, links_are_shared=True)
        self._players, self._actors = players, (*players.values(), *stages.values())
        for place, team in ranks.items():
            players[place].stage.kinds |= {kind for rank in team for kind in rank.reduced_on}
        for player in players.values():
            player.get_ready()
        self._later_ps = resume(agenda, players, entry.body, entry.zero_ps, until_ps)  # type: ignore[arg-type]

    def settle(self) -> None:
        """Note what was done; to be called when all is over."""
        tracks = {place: player.track for place, player in self._players.items()}
        for track in tracks.values():
            track.launches_ps = [time_ps + self._later_ps for time_ps in track.launches_ps]
            track.passed_ps += self._later_ps
        for entry in self._entries:
            entry.note(tracks, -self._later_ps)
        for actor in self._actors:
            actor.forget()


def alike(entries: Iterable[Entry], columns: Columns, stages: Collection[int]) -> list[list[Entry]]:
    """Sort late replicas: those are alike that did the same alone, as fast, and meet the same reductions.

    Those that were served by one body may have had other times to spare, which they may need beside reductions.

    Parameters
    ----------
    entries
        The replicas.
    columns
        Which tensor ranks are alike in all stages.
    stages
        Those in which their ranks are told apart.
    """
    found: defaultdict[Hashable, list[Entry]] = defaultdict(list)
    for entry in entries:
        teams = late_ranks(entry, columns, stages).items()
        ranks = tuple((place, rank.lane, rank.head_ps) for place, team in teams for rank in team)
        heads_ps = tuple(tuple(each.head_ps for each in roster.plan.activities) for roster in entry.cast.values())
        found[id(entry.body), entry.zero_ps, heads_ps, ranks].append(entry)
    return list(found.values())


def late_ranks(entry: Entry, columns: Columns, stages: Collection[int]) -> dict[Place, list[LateRank]]:
    """Return the ranks of a late replica that are told apart, by team."""
    return {
        place: [
            LateRank(column, own, kind.lane)
            for column, own, kind in zip(_columns(entry.strands, columns, place), roster.own, roster.kinds, strict=True)
        ]
        for place, roster in entry.cast.items()
        if place[0] in stages
    }


def _columns(strands: Strands, columns: Columns, place: Place) -> list[int]:
    """Return the columns of a team."""
    stage, team = place
    return sorted({column for column, strand in zip(columns, strands, strict=True) if strand[stage] == team})
