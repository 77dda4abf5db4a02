"""Late replicas go on from where they are when the first reduction that they may meet begins; all before is known.

What a replica does alone, it also does beside reductions until one of these begins. So what its teams did alone is kept up
to that time. What is on the links of a stage then goes on from an earlier time, at which nothing was on them: from when its
pass began, or a message that met this pass, or a pass that met this message. Each stage has its own such time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict, deque
from typing import TYPE_CHECKING

from trnsim.training.tracks import BACKWARD, FORWARD

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from trnsim.engine import Agenda
    from trnsim.training.bodies import Place
    from trnsim.training.players import Player
    from trnsim.training.replay import Replay
    from trnsim.training.times import Times
    from trnsim.training.tracks import Track
    from trnsim.training.ways import Way

    Spans = tuple[Sequence[int], Sequence[int]]

__all__ = ["idle_ps", "resume"]

_UNKNOWN_PS = -1
"""A time that is not looked for, as it is before the end of what comes again."""


class _Known:
    """What a team did alone after all that comes again, on the clock of the run.

    Attributes
    ----------
    track
        All that it did.
    first
        How many passes there were before.
    worked, left
        When each pass was over, and when what it made had come.
    before, messages
        By kind of message, how many there were before, and when each other was sent and when it had come.
    begun
        When the team came to each pass.
    since_ps, passes
        From when on it is played again, and how many passes are over then.
    """

    def __init__(self, track: Track, later_ps: int) -> None:
        self.track = track
        self.first, self.left = track.left_ps.after_cuts(later_ps)
        worked, known = track.worked_ps.after_cuts(later_ps)
        self.worked = [_UNKNOWN_PS] * (worked - self.first) + known
        works = track.plan.works
        forward = works[: self.first].count(FORWARD)
        self.before = forward, self.first - forward
        self.kinds = [min(work, BACKWARD) for work in works[self.first :]]
        self.messages = [
            (self._of_kind(kind, self.worked), self._of_kind(kind, self.left)) for kind in (FORWARD, BACKWARD)
        ]
        self.begun: list[int] = []
        self.play_from(_UNKNOWN_PS)

    def _of_kind(self, kind: int, times_ps: Sequence[int]) -> list[int]:
        return [time_ps for time_ps, made in zip(times_ps, self.kinds, strict=True) if made == kind]

    def come_to(self, senders: Sequence[_Known | None], zero_ps: int) -> None:
        """Find out when the team came to each pass, given who sends it messages of each kind."""
        free_ps = [_UNKNOWN_PS if self.first else zero_ps, *self.left[:-1]]
        numbers = list(self.before)
        for kind, since_ps in zip(self.kinds, free_ps, strict=True):
            sender = senders[kind]
            number = numbers[kind] - (0 if sender is None else sender.before[kind])
            come_ps = _UNKNOWN_PS if sender is None or number < 0 else sender.messages[kind][1][number]
            self.begun.append(since_ps if since_ps == _UNKNOWN_PS else max(since_ps, come_ps))
            numbers[kind] += 1

    def play_from(self, since_ps: int) -> None:
        """Let it be played again from a time on at which nothing is on the links of its stage."""
        self.since_ps, self.passes = since_ps, self.first + bisect_right(self.worked, since_ps)

    @property
    def is_over(self) -> bool:
        """Whether the last pass is."""
        return self.passes == len(self.track.plan.works)

    @property
    def arrived(self) -> int:
        """Of how many passes what was made has come."""
        return self.first + bisect_right(self.left, self.since_ps, hi=self.passes - self.first)

    def met_ps(self, later_ps: int) -> Times | None:
        """Return when all teams of its stage met, each time so much later than it is kept; None if it is alone."""
        met_ps = self.track.met_ps
        if met_ps is None:
            return None
        return met_ps.until(len(met_ps) if self.is_over else self.passes - 1, later_ps)

    def made(self, kind: int) -> int:
        """Return how many of the passes that are over are of a kind, but for those before."""
        return self.kinds[: self.passes - self.first].count(kind)


def resume(agenda: Agenda, players: Mapping[Place, Player], replay: Replay, zero_ps: int, until_ps: int) -> int:
    """Let teams go on from where they were when they were alone.

    Parameters
    ----------
    agenda
        Where time passes.
    players
        The teams, connected.
    replay, zero_ps
        What they did alone, and what the clock shows when theirs shows nothing.
    until_ps
        Until when they do the same.

    Returns
    -------
    int
        How long that takes which is left out of what is kept, as it repeats itself; all is noted so much later.
    """
    later_ps = zero_ps + replay.later_ps
    known = {place: _Known(track, later_ps) for place, track in replay.teams.items()}
    _find_out(players, known, zero_ps, until_ps)
    cut_ps = zero_ps + replay.cut_ps
    if any(each.since_ps < cut_ps or not each.passes for each in known.values()):  # too early: all is played again
        for player in players.values():
            agenda.add(zero_ps, player.begin)
        return 0
    for place, player in players.items():
        _go_on(agenda, player, known[place], zero_ps, later_ps)
    for way in dict.fromkeys(way for player in players.values() for way in player.sends if way is not None):
        _hand_over(agenda, way, known)
    return replay.later_ps


def _find_out(players: Mapping[Place, Player], known: Mapping[Place, _Known], zero_ps: int, until_ps: int) -> None:
    """Find out from when on teams are to be played again."""
    stages: defaultdict[int, list[Player]] = defaultdict(list)
    for place, player in players.items():
        stages[place[0]].append(player)
        senders = [None if way is None else known[way.senders[0].place] for way in player.receives]
        known[place].come_to(senders, zero_ps)
    for of in stages.values():
        since_ps = idle_ps(list(_on_links(of, known)), until_ps)
        for player in of:
            known[player.place].play_from(since_ps)


def _go_on(agenda: Agenda, player: Player, known: _Known, zero_ps: int, later_ps: int) -> None:
    """Let a team go on with its passes."""
    track = known.track
    worked_ps, left_ps = track.worked_ps.until(known.passes, later_ps), track.left_ps.until(known.arrived, later_ps)
    player.resume(known.passes, worked_ps, left_ps)
    if player is player.stage.players[0]:
        player.stage.resume(track.opened_ps + later_ps, known.met_ps(later_ps))
    if known.is_over:
        player.launch([time_ps + zero_ps for time_ps in track.launches_ps])
    if known.arrived == len(track.plan.works):
        player.turn, player.track.passed_ps = known.passes, known.left[-1]
    elif known.arrived == known.passes:
        agenda.add(known.since_ps, player.begin)


def _hand_over(agenda: Agenda, way: Way, known: Mapping[Place, _Known]) -> None:
    """Let messages go on that are under way, or that only one of the two teams knows already."""
    sender = known[way.senders[0].place]
    sent, come = sender.messages[way.kind]
    left, got = (bisect_right(come, known[each[0].place].since_ps) for each in (way.senders, way.receivers))
    made = sender.made(way.kind)
    for player in way.receivers:
        receiver = known[player.place]
        before = sender.before[way.kind] - receiver.before[way.kind]
        player.backlog[way.kind] = before + got - receiver.made(way.kind)
    for number in range(got, left):
        agenda.add(sent[number], way.bring)
    if made > left >= got:
        agenda.add(sent[left], way.carry)
    for player in way.senders:
        if got > left < made:
            agenda.add(come[left], player.go_on)
        if got > made:
            player.sends[way.kind] = _Foreseen(player, way, agenda, come[made:got])  # type: ignore[call-overload]
    if come and len(come) in (left, got):
        way.foresee(come[-1])


class _Foreseen:
    """Messages of a team that have been got before those who get them go on, so that it is known when the team does."""

    def __init__(self, sender: Player, way: Way, agenda: Agenda, come_ps: Sequence[int]) -> None:
        self._sender, self._way, self._agenda, self._come_ps = sender, way, agenda, deque(come_ps)

    def set_out(self) -> None:
        """Send a message."""
        self._agenda.add(self._come_ps.popleft(), self._sender.go_on)
        if not self._come_ps:
            self._sender.sends[self._way.kind] = self._way


def _on_links(players: Sequence[Player], known: Mapping[Place, _Known]) -> Iterator[Spans]:
    """Yield when passes of a stage were on its links, and each kind of messages that may meet them."""
    teams = [known[player.place] for player in players]
    passes = min(len(team.begun) for team in teams)  # of others, teams know less
    yield list(map(min, zip(*(team.begun[-passes:] for team in teams), strict=True))), teams[0].worked[-passes:]
    for player in players:
        for way in player.receives:
            if way is not None and way.is_shared:
                yield known[way.senders[0].place].messages[way.kind]


def idle_ps(spans: Sequence[Spans], until_ps: int) -> int:
    """Return the last time up to another at which nothing is going on.

    Parameters
    ----------
    spans
        When what goes on began, and when it ended: rows of things one after the other.
    until_ps
        The other time.

    Examples
    --------
    >>> idle_ps([([0, 5], [4, 9]), ([3], [6])], 8), idle_ps([([0, 5], [4, 9]), ([4], [6])], 8)
    (0, 4)
    """
    while True:
        begun = [
            starts[number]
            for starts, ends in spans
            if (number := bisect_right(ends, until_ps)) < len(ends) and starts[number] < until_ps
        ]
        if not begun:
            return until_ps
        until_ps = min(begun)
