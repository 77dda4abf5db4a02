"""What ranks did that were simulated as a team in their passes and as a tail after them."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct, field

from trnsim.engine import Cohort, Log, digest
from trnsim.training.bodies import Entrant, counterparts
from trnsim.training.late import LateTrack
from trnsim.training.story import TIED_EMBEDDING

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from trnsim.engine import Activity
    from trnsim.training.bodies import Body, Place, Strands, Team
    from trnsim.training.contraction import Contraction
    from trnsim.training.folding import Node
    from trnsim.training.replay import Replay
    from trnsim.training.sorts import Sort
    from trnsim.training.story import RankPlan
    from trnsim.training.tails import Tail
    from trnsim.training.tracks import Track

__all__ = ["Entry", "Kind", "Played", "Roster", "View"]


class Kind(NamedTuple):
    """Ranks that are alike: their team, tail and speed, how many they are, the first of them."""

    row: int
    lane: int
    speed: float
    ranks: int
    first_rank: int


class Played(NamedTuple):
    """The passes of one step.

    Attributes
    ----------
    team
        What was done in them.
    zero_ps
        What the clock showed when that of the team showed nothing.
    starts_ps
        When each kind of ranks began the step.
    """

    team: Team | Track
    zero_ps: int
    starts_ps: tuple[int, ...]

    @property
    def launches_ps(self) -> list[int]:
        """When the gradients of each bucket were complete."""
        return [time_ps + self.zero_ps for time_ps in self.team.launches_ps]

    @property
    def sent_ps(self) -> int | None:
        """When the message before the first pass was sent; None for the first stage."""
        return None if self.team.message_ps is None else self.team.message_ps[0] + self.zero_ps

    def passed_ps(self, number: int) -> int:
        """Return when the passes were over for a kind of ranks; those of a late team send their last gradients apart."""
        if isinstance(self.team, LateTrack) and (sent_ps := self.team.ranks[number].sent_ps) is not None:
            return sent_ps
        return self.team.passed_ps + self.zero_ps


class Roster(Struct):
    """The ranks that a team stands for, in all replicas of a sort.

    Parameters
    ----------
    sort, stage
        The sort, and the stage.
    kinds
        Their kinds.
    own
        The plan of each kind.
    plan
        That of the slowest.
    pace
        Share of the healthy speed at which the slowest of the tensor group works.
    tails
        The tail of each kind.
    steps
        What they did.
    """

    sort: Sort
    stage: int
    kinds: tuple[Kind, ...]
    own: tuple[RankPlan, ...]
    plan: RankPlan
    pace: float
    tails: tuple[Tail, ...]
    steps: list[Played] = field(default_factory=list)

    def starts_ps(self) -> tuple[int, ...]:
        """Return when each kind begins the next step."""
        return tuple(self.ends_ps(number)[-1] if self.steps else 0 for number in range(len(self.kinds)))

    def ends_ps(self, number: int) -> list[int]:
        """Return when ranks of a kind ended each step."""
        tail = self.tails[number]
        alone_ps = tail.alone_ps(self.own[number])
        return [end_ps + alone_ps for _, _, end_ps in tail.step_ends]

    def entrant(self, starts_ps: Sequence[int], zero_ps: int) -> Entrant:
        """Return the team that is to go through the passes of a step."""
        place = self.plan.turns[0].virtual_stage
        heads_ps = (own.passes[place].forward.head_ps for own in self.own)
        opening = {(start - zero_ps, head) for start, head in zip(starts_ps, heads_ps, strict=True)}
        return Entrant(self.plan, tuple(sorted(opening)))


class Entry(NamedTuple):
    """A replica that is to go through the passes of a step.

    Attributes
    ----------
    cast
        Its ranks, by team.
    strands
        Who exchanges messages with whom.
    starts_ps
        When each kind of them begins the step.
    zero_ps
        When they come to the first collective of the first stage.
    body
        What they do alone.
    """

    cast: Mapping[Place, Roster]
    strands: Strands
    starts_ps: Mapping[Place, tuple[int, ...]]
    zero_ps: int
    body: Body | Replay

    def note(self, teams: Mapping[Place, Team | Track], zero_ps: int) -> None:
        """Note what teams did, whose clock showed nothing at `zero_ps`."""
        for place, roster in self.cast.items():
            roster.steps.append(Played(teams[place], zero_ps, self.starts_ps[place]))


class View:
    """What ranks of one kind did: the passes of their team, then the update of their own.

    It is read like a cohort, and like the member that this is of; all is looked up when it is asked for.

    Parameters
    ----------
    found
        All ranks, sorted.
    roster, number
        Who they are, and which of the kinds.
    """

    __slots__ = ("_found", "_number", "_roster")

    def __init__(self, found: Contraction, roster: Roster, number: int) -> None:
        self._found, self._roster, self._number = found, roster, number

    __str__ = Cohort.__str__

    @property
    def cohort(self) -> View:
        """Itself."""
        return self

    @property
    def kind(self) -> Kind:
        """The kind of ranks."""
        return self._roster.kinds[self._number]

    @property
    def ranks(self) -> int:
        """How many they are."""
        return self.kind.ranks

    @property
    def name(self) -> str:
        """What they are."""
        return f"stage {self._roster.stage}"

    @property
    def first(self) -> str:
        """The name of the first of them."""
        return self._found.spec.mesh.label(self.kind.first_rank)

    @property
    def key(self) -> Hashable:
        """What tells them from all other kinds of ranks."""
        return self._found.key_of(self.kind.first_rank)

    @property
    def plan(self) -> RankPlan:
        """What each of them does."""
        return self._roster.own[self._number]

    @property
    def node(self) -> Node:
        """Where they sit and what they pay."""
        return self._found.node(self._roster.sort, self._roster.stage, self.kind, self._roster.pace)

    @property
    def step_ends(self) -> list[tuple[int, int, int]]:
        """For each step how many rows the logs have at its end, and when that is, in picoseconds."""
        rows = launched = 0
        found = []
        for played, calls, end_ps in zip(
            self._roster.steps, self._tail.calls, self._roster.ends_ps(self._number), strict=True
        ):
            launched += len(calls)
            rows += played.team.rows + len(calls) + 1
            found.append((rows, launched, end_ps))
        return found

    @property
    def _tail(self) -> Tail:
        return self._roster.tails[self._number]

    @property
    def log(self) -> Log:
        """What the ranks did."""
        log, own = self._read().log, self._roster.own[self._number]
        plans = [played.team.plan for played in self._roster.steps]
        swapped = {id(theirs): mine for plan in plans for theirs, mine in counterparts(plan, own)}
        log.operations = [swapped.get(id(each), each) for each in log.operations]
        return log

    @property
    def stream(self) -> Log:
        """The collectives that they launched beside their work."""
        stream = Log()
        for step, played in enumerate(self._roster.steps):
            self._finish(Log(), stream, step, played)
        return stream

    def trajectory_key(self) -> Hashable:
        """Return what is the same for others of the run only if their trajectories are."""
        number, steps = self._number, self._roster.steps
        passes = [(self._passes_key(played), played.zero_ps, played.starts_ps[number]) for played in steps]
        return id(self._roster.own[number]), self._tail, *passes

    def _passes_key(self, played: Played) -> Hashable:
        late = isinstance(played.team, LateTrack)
        return (played.team, self._number) if late else played.team.passes_key()

    def trajectory(self) -> bytes:
        """Return a hash of what the ranks did and when, which does not tell their activities from those of their team."""
        log, stream, names = self._read()
        return digest(log, names) + digest(stream, stream.names())

    def _read(self) -> _Logs:
        """Return what the ranks did, with the activities of their team."""
        log, stream, names = Log(), Log(), []
        for step, played in enumerate(self._roster.steps):
            first = len(log)
            passes, passes_names = _passes(played.team, played.zero_ps)
            log.extend(passes)
            self._open(log, first, played)
            if isinstance(played.team, LateTrack):
                self._part(log, played.team)
            passed = len(log)
            self._finish(log, stream, step, played)
            names += [passes_names, log.names(passed)]
        return _Logs(log, stream, "\n".join(names))

    def _open(self, log: Log, row: int, played: Played) -> None:
        """Correct how a step began, which ranks of one team may have done at different times."""
        begun_ps = played.starts_ps[self._number]
        if played.team.message_ps is not None:
            sent_ps, come_ps = (time_ps + played.zero_ps for time_ps in played.team.message_ps)
            begun_ps, received_ps = max(begun_ps, come_ps), begun_ps
            log.set_times(row, received_ps, max(received_ps, sent_ps), begun_ps)
            row += 1
        log.set_times(row, begun_ps, *log.times_ps[3 * row + 1 : 3 * row + 3])

    def _part(self, log: Log, team: LateTrack) -> None:
        """Correct how the passes of a late replica ended, which its ranks did at different times."""
        rank = team.ranks[self._number]
        if rank.came_ps is not None:
            row = len(log) - team.last_rows
            ready_ps, sent_ps, _ = log.times_ps[3 * row : 3 * row + 3]
            begun_ps = rank.begins_ps(ready_ps)
            log.set_times(row, ready_ps, sent_ps, begun_ps)
            log.set_times(row + 1, begun_ps, *log.times_ps[3 * row + 4 : 3 * row + 6])
        if rank.sent_ps is not None:
            begun_ps, ready_ps = log.times_ps[-3:-1]
            log.set_times(len(log) - 1, begun_ps, ready_ps, rank.sent_ps)

    def _finish(self, log: Log, stream: Log, step: int, played: Played) -> None:
        """Add what comes after the passes of a step."""
        own, gathers = self._roster.own[self._number], self._tail.plan.exchanges.gather
        launched_ps = played.launches_ps
        now_ps = played.passed_ps(self._number)
        first_gather = len(self._tail.calls[step]) - len(gathers)
        updated_ps = None
        for number, (wait, call) in enumerate(self._tail.calls[step]):
            if number == first_gather:
                now_ps = updated_ps = _update(log, own.optimizer, now_ps)
            joined_ps = launched_ps[number] if number < len(launched_ps) else updated_ps or now_ps
            end_ps = (
                call.end_ps
                if wait is not TIED_EMBEDDING or own.tied is None
                else call.end_ps + own.tied.course.duration_ps
            )
            log.add(wait, now_ps, max(now_ps, call.ready_ps), max(now_ps, end_ps))
            stream.add(wait, joined_ps, call.start_ps, end_ps)
            now_ps = max(now_ps, end_ps)
        if not gathers:
            _update(log, own.optimizer, now_ps)


def _update(log: Log, optimizer: Activity, now_ps: int) -> int:
    log.add(optimizer, now_ps, now_ps + optimizer.head_ps, now_ps + optimizer.duration_ps)
    return now_ps + optimizer.duration_ps


class _Logs(NamedTuple):
    """What ranks did and launched, and the names of what they did."""

    log: Log
    stream: Log
    names: str


@lru_cache(maxsize=16)
def _passes(team: Team | Track, later_ps: int) -> tuple[Log, str]:
    """Return what a team did; to be read only, as several kinds of its ranks read it one after the other."""
    return team.passes(later_ps)
