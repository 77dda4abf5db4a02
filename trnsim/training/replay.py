"""Replays: the passes of a replica without processes, as each of its teams knows beforehand all that it is to do.

What a team does next is written in its plan: it waits for a message, works, waits until what it made has come to its
neighbour. Messages of a kind come in the order in which they are looked at, so it is enough to count them. What is left
is a row of times at which something ends.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from trnsim.engine import Agenda
from trnsim.schedules import repeats
from trnsim.training.players import Player, Stage
from trnsim.training.times import Cut, pack
from trnsim.training.tracks import BACKWARD, FORWARD

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

    from trnsim.engine import Transfer
    from trnsim.training.bodies import Entrant, Place, Strands
    from trnsim.training.story import RankPlan

__all__ = ["Recurrence", "Replay", "can_be_replayed", "connect"]


class Replay:
    """One replica in the passes of one step.

    Parameters
    ----------
    entrants, strands
        As for `Body`; they can be replayed.
    links_are_shared
        Whether transfers that are on one link at the same time share it.

    Attributes
    ----------
    teams
        What they did.
    is_over
        Whether all have ended their passes; otherwise some wait for what never comes.
    events, repeated
        The events that this took, and the passes that were not simulated as they repeat earlier ones.
    later_ps, cut_ps
        How long these take, and when the last of them was over.
    """

    def __init__(self, entrants: Mapping[Place, Entrant], strands: Strands, *, links_are_shared: bool) -> None:
        agenda = Agenda()
        teams = Counter(stage for stage, _ in entrants)
        stages = {stage: Stage(agenda, is_alone=count == 1) for stage, count in teams.items()}
        players = {place: Player(place, entrant, stages[place[0]], agenda) for place, entrant in entrants.items()}
        connect(players, strands, links_are_shared=links_are_shared)
        recurrence = Recurrence(agenda, list(players.values()))
        for player in players.values():
            player.get_ready()
            agenda.add(0, player.begin)
        agenda.run()
        recurrence.settle()
        self.teams = {place: player.track for place, player in players.items()}
        self._appointments = [stage.appointments for stage in stages.values()]
        self.is_over = all(player.is_over for player in players.values())
        self.events, self.repeated = agenda.events, recurrence.turns
        self.later_ps, self.cut_ps = recurrence.later_ps, recurrence.cut_ps
        for actor in (*players.values(), *stages.values()):
            actor.forget()
        pack(recurrence.times)

    def fits(self, entrants: Mapping[Place, Entrant]) -> bool:
        """Say whether other teams of the same paces would do the same.

        They would if their groups were ready for each collective when those of the replay were: up to the first collective
        nothing differs, and each is followed by the same until the next.
        """
        return all(appointments.suit(self.teams, entrants) for appointments in self._appointments)


def can_be_replayed(entrants: Mapping[Place, Entrant], strands: Strands) -> bool:
    """Say whether plans are such that messages need only be counted, and passes need nobody else."""
    stages: dict[int, list[RankPlan]] = {}
    for (stage, _), entrant in entrants.items():
        stages.setdefault(stage, []).append(entrant.plan)
    if not all(map(_meet, stages.values())) or not all(_is_plain(entrant.plan) for entrant in entrants.values()):
        return False
    pairs = ((entrants[before].plan, entrants[after].plan) for before, after in _pairs(strands))
    return all(_goes_on(FORWARD, before, after) and _goes_on(BACKWARD, after, before) for before, after in pairs)


def _pairs(strands: Strands) -> Iterator[tuple[Place, Place]]:
    """Yield the teams that exchange messages."""
    for strand in set(strands):
        yield from pairwise(enumerate(strand))


def _meet(plans: Sequence[RankPlan]) -> bool:
    """Say whether teams of a stage meet in all passes, if there are several."""
    first = plans[0]
    return len(plans) == 1 or all(
        plan.turns == first.turns
        and plan.works == first.works
        and len(plan.activities) == len(first.activities)
        and all(activity.rendezvous is not None for activity in plan.activities)
        for plan in plans
    )


def _is_plain(plan: RankPlan) -> bool:
    """Say whether nothing goes on beside passes but reductions beside the last."""
    exchanges, (first, *_), last = plan.exchanges, plan.turns, plan.turns[-1]
    if not plan.blocking_sends or len(plan.passes) > 1 or first.kind != "F" or last.kind != "B":
        return False
    if plan.works[-1] >= len(plan.activities):
        return False
    return not (exchanges.sharding.zero > 1 or exchanges.sharding.gathers_in_passes or exchanges.interference_fraction)


def _goes_on(kind: int, sender: RankPlan, receiver: RankPlan) -> bool:
    """Say whether messages of a kind are looked at in the order in which they are sent."""
    return _sent(kind, sender) is not None and sender.microbatches[kind] == receiver.microbatches[kind]


def _sent(kind: int, plan: RankPlan) -> Transfer | None:
    return plan.send_gradient if kind == BACKWARD else plan.send_activation


def connect(players: Mapping[Place, Player], strands: Strands, *, links_are_shared: bool) -> None:
    """Let teams send to those before and after them."""
    for befores, afters in _bundles(_pairs(strands)):
        before, after = ([players[place] for place in places] for places in (befores, afters))
        for kind, senders, receivers in ((FORWARD, before, after), (BACKWARD, after, before)):
            if transfer := _sent(kind, senders[0].entrant.plan):
                way = senders[0].way(kind, senders, receivers, transfer.course)
                for sender in senders:
                    sender.sends[kind] = way
                for receiver in receivers:
                    receiver.receives[kind] = way
        for player in before:
            player.track.following = after[0].track
        for player in after:
            player.track.previous = before[0].track
    if links_are_shared:
        _share(players.values())


def _bundles(pairs: Iterable[tuple[Place, Place]]) -> list[tuple[list[Place], list[Place]]]:
    """Put the teams of two stages together that one message can stand for: each has a rank of one of the other stage.

    Ranks of a team send and get their messages at the same times; so do all of these.
    """
    found: list[tuple[set[Place], set[Place]]] = []
    for before, after in pairs:
        touched = [each for each in found if before in each[0] or after in each[1]]
        found = [each for each in found if each not in touched]
        found.append(({before}.union(*(each[0] for each in touched)), {after}.union(*(each[1] for each in touched))))
    return sorted((sorted(befores), sorted(afters)) for befores, afters in found)


def _share(players: Iterable[Player]) -> None:
    """Find out which transfers may meet others: passes, and messages that come meanwhile from one side or from both."""
    for player in players:
        ways = [way for way in player.receives if way is not None]
        passes = frozenset(kind for activity in player.activities for kind in activity.course().kinds)
        for way in ways:
            others = (each.course.kinds for each in ways if each is not way)
            way.is_shared |= not passes.union(*others).isdisjoint(way.course.kinds)
        player.stage.kinds = player.stage.kinds.union(*(way.course.kinds for way in ways))


class _Mark(NamedTuple):
    """When teams were where: the turn of each, and how many of all kinds of times had been noted."""

    now_ps: int
    turns: tuple[int, ...]
    noted: tuple[int, ...]


class Recurrence:
    """Looks for states of all teams that come again, as `Steady` does.

    Parameters
    ----------
    agenda
        What is to be done.
    players
        The teams.

    Attributes
    ----------
    turns
        Passes that were not simulated, of all teams.
    later_ps, cut_ps
        How long these take, and when the last of them was over.
    times
        All that is noted.
    """

    def __init__(self, agenda: Agenda, players: Sequence[Player]) -> None:
        self.turns = 0
        self._agenda, self._players = agenda, players
        self.later_ps = self.cut_ps = 0
        self._outlines: set[Hashable] = set()
        self._seen: dict[Hashable, _Mark] = {}
        met = {id(player.track.met_ps): player.track.met_ps for player in players}
        tracks = [player.track for player in players]
        self.times = [times for track in tracks for times in (track.worked_ps, track.left_ps)]
        self.times += [times for times in met.values() if times is not None]
        players[0].look = self._look

    def settle(self) -> None:
        """Put off what comes after what was not simulated; gradients leave in the last pass only."""
        for player in self._players:
            track = player.track
            track.launches_ps = [time_ps + self.later_ps for time_ps in track.launches_ps]
            track.passed_ps += self.later_ps

    def _look(self) -> None:
        """Compare the state of all teams with those before; leave out what repeats."""
        players, now_ps = self._players, self._agenda.now
        outline = tuple([now_ps - player.since_ps for player in players])
        if outline not in self._outlines:
            self._outlines.add(outline)
            return
        if any(player.is_over for player in players):
            return
        turn = players[0].turn
        state = tuple([player.situation(turn, now_ps) for player in players])
        mark = _Mark(now_ps, tuple(player.turn for player in players), tuple(len(times.kept) for times in self.times))
        first = self._seen.setdefault(state, mark)
        if first is not mark and (times := self._repeats(first, mark)):
            self._leave_out(first, mark, times)

    def _repeats(self, first: _Mark, second: _Mark) -> int:
        """Return how often all teams can do again what they did between two marks."""
        found = [
            repeats(player.entrant.plan.turns, before, now)
            for player, before, now in zip(self._players, first.turns, second.turns, strict=True)
        ]
        return min(times for times, _ in found) if len({later for _, later in found}) == 1 else 0

    def _leave_out(self, first: _Mark, second: _Mark, times: int) -> None:
        period_ps = second.now_ps - first.now_ps
        self.later_ps += times * period_ps
        self.cut_ps = second.now_ps + self.later_ps
        for player, before, now in zip(self._players, first.turns, second.turns, strict=True):
            player.turn += (now - before) * times
            self.turns += (now - before) * times
        for kept, start, end in zip(self.times, first.noted, second.noted, strict=True):
            kept.cuts += (Cut(start, end, times, period_ps),)
        self._seen.clear()
        self._outlines.clear()
