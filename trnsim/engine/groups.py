"""What cohorts wait for: messages that arrive, and the collectives of groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsim.engine.arrivals import Arrival, Route

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    import simpy

    from trnsim.engine.arrivals import Link
    from trnsim.engine.core import Cohort, Engine
    from trnsim.engine.courses import Course


class Message(Arrival):
    """What one cohort sends to another.

    Parameters
    ----------
    sender, content
        From whom it is and what; together they tell it from all others that its receiver waits for.
    environment
        Where it is on its way.
    """

    def __init__(self, sender: Cohort, content: Hashable, environment: simpy.Environment) -> None:
        self.env = environment
        self.callbacks = []
        self.sender = sender
        self.content = content

    def describe(self) -> str:
        """Say who is to send what."""
        gone = ", which has finished" if self.sender.finished else ""
        return f"receives {self.content} from {self.sender.name}{gone}"


class Call(Arrival):
    """One collective of one group, complete when the last member has joined."""

    start_ps = -1

    def __init__(self, group: Collective, name: str, environment: simpy.Environment) -> None:
        self.env = environment
        self.callbacks = []
        self.group = group
        self.name = name
        self.joined_ps: dict[Cohort, int] = {}

    def situation(self, cohort: Cohort, now_ps: int) -> tuple[Hashable, ...]:
        """Return when it was joined, ready, started and over, as far as it was; times counted from now."""
        times_ps = self.joined_ps.get(cohort, -1), self.ready_ps, self.start_ps, self.end_ps
        return tuple(time_ps - now_ps if time_ps >= 0 else None for time_ps in times_ps)

    def describe(self) -> str:
        """Say who has joined and who is missing."""
        missing = [cohort for cohort in self.group.members if cohort not in self.joined_ps]
        joined = self.group.size - sum(self.group.members[cohort] for cohort in missing)
        names = ", ".join(cohort.first for cohort in missing[:3]) + (", ..." if len(missing) > 3 else "")
        return f'"{self.name}" on {self.group.axis}: {joined} of {self.group.size} ranks joined, missing {names}'


class Collective:
    """A group of the machine; its collectives run one at a time, in the order in which all have joined.

    Parameters
    ----------
    axis
        The axis along which the members differ, for reports.
    members
        How many members of one group belong to each cohort.

    Attributes
    ----------
    is_one_cohort
        Whether they all belong to one, and so are always together.
    """

    def __init__(self, axis: str, members: Mapping[Cohort, int]) -> None:
        self.axis = axis
        self.members = dict(members)
        self.size = sum(members.values())
        self.is_one_cohort = len(self.members) == 1
        self.route = Route(self._links)
        self._open: dict[Hashable, Call] = {}
        self._waiting: list[Call] = []

    def _links(self, kind: str) -> list[Link]:
        return [link for cohort in self.members for link in cohort.links(kind)]

    def call(self, engine: Engine, name: str, key: Hashable) -> Call:
        """Return the open call of that key, a new one if nobody has joined it yet."""
        found = self._open.get(key)
        if found is None:
            found = self._open[key] = Call(self, name, engine.environment)
            found.callbacks.append(self._end_first)
        return found

    def join(self, cohort: Cohort, name: str, key: Hashable, course: Course, head_ps: int = 0) -> Call:
        """Let all members that belong to `cohort` join the call `key` after a while; the last of the group starts it.

        Raises
        ------
        ValueError
            If it is something else to the links than for those that have joined before.
        """
        engine = cohort.engine
        call = self._open.get(key) or self.call(engine, name, key)
        if not call.joined_ps:
            call.course = course
        elif call.course is not course and call.course.stints != course.stints:
            raise ValueError(f'{cohort} joins a "{name}" of another course than other members of its {self.axis} group')
        now_ps = engine.now_ps
        joined_ps = call.joined_ps[cohort] = now_ps + head_ps
        call.ready_ps = max(call.ready_ps, joined_ps)
        if len(call.joined_ps) == len(self.members):
            del self._open[key]
            if call.ready_ps > now_ps:
                complete = engine.environment.timeout(call.ready_ps - now_ps)
                complete.callbacks.append(lambda _: self._line_up(engine, call))
            else:
                self._line_up(engine, call)
        return call

    def _line_up(self, engine: Engine, call: Call) -> None:
        self._waiting.append(call)
        if len(self._waiting) == 1:
            self._start_first(engine)

    def _start_first(self, engine: Engine) -> None:
        call = self._waiting[0]
        call.start_ps = engine.now_ps
        engine.carry(call.course, self.route, call)

    def _end_first(self, _: simpy.Event) -> None:
        """Start the next collective, before anyone who waits for the one that is over goes on."""
        self._waiting.pop(0)
        if self._waiting:
            self._start_first(next(iter(self.members)).engine)
