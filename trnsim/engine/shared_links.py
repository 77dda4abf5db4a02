"""Transfers of simulated ranks that share links: each takes stints of time of its own and time on one kind of link.

A transfer is one event, its end, however many stints it has, as long as it meets nobody: when it will, if nothing
changes, is looked up in its stints. While transfers are on a link at the same time they share it max-min fairly, and
they and all that they may meet are followed from stint to stint.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simpy.events import NORMAL

from trnsim.engine.arrivals import FULL, Alarm, Arrival
from trnsim.engine.sharing import fair_rates

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import simpy

    from trnsim.engine.agenda import Agenda
    from trnsim.engine.arrivals import Route
    from trnsim.engine.courses import Course

_NEVER_PS = 2**63


class SharedLinks:
    """Transfers on the links of all ranks.

    Parameters
    ----------
    environment
        Where time passes, in integer picoseconds.

    Examples
    --------
    Two transfers of 6 ps share a link from 2 ps on: each is half as fast until the first ends.

    >>> import simpy
    >>> from trnsim.engine.arrivals import Link, Route
    >>> from trnsim.engine.courses import Course, stints_of
    >>> environment, link = simpy.Environment(), Link("efa")
    >>> links, route = SharedLinks(environment), Route(lambda kind: [link])
    >>> transfers = [Arrival(environment), Arrival(environment)]
    >>> for own_ps, transfer in zip((0, 2), transfers):
    ...     links.carry(Course(stints_of(own_ps + 6, {"efa": 6})), route, transfer)
    >>> environment.run()
    >>> [transfer.end_ps for transfer in transfers]
    [10, 12]
    """

    def __init__(self, environment: simpy.Environment | Agenda) -> None:
        self._environment = environment
        self._end_alone = self._at_own_end

    def carry(self, course: Course, route: Route, arrival: Arrival) -> None:
        """Begin a transfer now.

        Parameters
        ----------
        course
            At least one stint.
        route
            The links that the transfer takes at once.
        arrival
            Happens when the transfer ends.
        """
        if not course.kinds:
            arrival.happen_in(course.duration_ps)
            return
        arrival.course = course
        arrival.since_ps = self._environment.now  # type: ignore[assignment]  # an int, since every delay is one
        links = arrival.links = route.links if route.kinds is course.kinds else route.of_kinds(course.kinds)
        alone, is_alone = (arrival,), True
        for link in links:
            if link.users:
                link.users += alone
                is_alone = False
            else:
                link.users = alone
        if is_alone:
            arrival.callbacks.insert(0, self._end_alone)
            self._environment.schedule(arrival, NORMAL, course.duration_ps)
            return
        arrival.has_met = True
        if _will_be_clear(arrival):
            self._ring(arrival, arrival.since_ps, course.duration_ps)
        else:
            self._look_at([arrival])

    def _look_at(self, arrivals: Iterable[Arrival]) -> None:
        """Settle anew what comes next for these transfers and all that they meet."""
        seen: dict[Arrival, None] = {}
        for arrival in arrivals:
            if arrival not in seen:
                company = _company(arrival)
                seen |= company
                self._share(list(company))

    def _share(self, arrivals: list[Arrival]) -> None:
        """Give transfers that may meet their rates, and settle when to look again."""
        now_ps: int = self._environment.now  # type: ignore[assignment]
        for arrival in arrivals:
            if not arrival.has_met:
                arrival.meet()
            if arrival.since_ps < now_ps:
                arrival.advance(now_ps)
            arrival.rate = FULL
            arrival.is_clear = len(arrivals) == 1
        if len(arrivals) > 1 and _meet_now(arrivals):
            for arrival in arrivals:
                arrival.whole = False
                self._ring(arrival, now_ps, max(0, -(-arrival.left // arrival.rate)))
            return
        for arrival in arrivals:
            if arrival.at_ps < 0 or not arrival.whole:  # else its alarm is set for its end
                arrival.whole = True
                self._ring(arrival, now_ps, arrival.remaining_ps())
        if len(arrivals) > 1 and (meeting_ps := _next_meeting_ps(arrivals)) is not None:
            self._watch(arrivals[0], now_ps, meeting_ps)

    def _ring(self, arrival: Arrival, now_ps: int, delay_ps: int) -> None:
        """Set the alarm of a transfer; what was set before is void, unless it is for the same moment."""
        at_ps = now_ps + delay_ps
        if arrival.at_ps != at_ps:
            arrival.at_ps = at_ps
            arrival.alarm = Alarm(at_ps, arrival, self._at_alarm)
            self._environment.schedule(arrival.alarm, NORMAL, delay_ps)

    def _watch(self, arrival: Arrival, now_ps: int, delay_ps: int) -> None:
        at_ps = now_ps + delay_ps
        if arrival.watch is None or arrival.watch.at_ps != at_ps:
            arrival.watch = Alarm(at_ps, arrival, self._at_meeting)
            self._environment.schedule(arrival.watch, NORMAL, delay_ps)

    def _at_meeting(self, alarm: Alarm) -> None:
        if alarm.arrival.watch is alarm:
            self._look_at([alarm.arrival])

    def _at_own_end(self, event: simpy.Event) -> None:
        """End a transfer at the moment that was foreseen when it began, unless it has met others that put it off."""
        arrival: Arrival = event  # type: ignore[assignment]
        if not arrival.has_met:
            for link in arrival.links:
                link.users = ()
        elif arrival.alarm is None and self._is_over(arrival):
            self._leave(arrival)
        else:
            arrival.go_on()
            if arrival.alarm is None:
                self._look_at([arrival])
            return
        arrival.end_ps = self._environment.now  # type: ignore[assignment]

    def _at_alarm(self, alarm: Alarm) -> None:
        """End a transfer, or look at it again if only a stint is over."""
        arrival = alarm.arrival
        if arrival.alarm is not alarm:
            return
        if self._is_over(arrival):
            self._leave(arrival)
            arrival.happen()
        else:
            self._look_at([arrival])

    def _is_over(self, arrival: Arrival) -> bool:
        """Say whether a transfer that is to be looked at ends now, or only a stint of it."""
        if arrival.whole:
            return True
        arrival.advance(self._environment.now)  # type: ignore[arg-type]
        return arrival.is_through

    def _leave(self, arrival: Arrival) -> None:
        """Take a transfer that is over from its links; where all are clear, the others stay so."""
        arrival.alarm = arrival.watch = None
        for link in arrival.links:
            link.users = tuple([other for other in link.users if other is not arrival])
        if not arrival.is_clear:
            met = dict.fromkeys([other for link in arrival.links for other in link.users])
            if met and not _have_been_alone(met):
                self._look_at(met)


def _will_be_clear(arrival: Arrival) -> bool:
    """Say whether a transfer that begins finds all others clear and will be on no link together with one of them.

    Those that it may meet are clear or not together with all that these may meet.
    """
    others = dict.fromkeys(
        [(link.kind, other) for link in arrival.links for other in link.users if other is not arrival]
    )
    for kind, other in others:
        if not other.is_clear:
            return False
        if not other.has_met:
            other.meet()
        other.advance(arrival.since_ps)
        horizon_ps = min(arrival.course.duration_ps, other.remaining_ps())
        if not horizon_ps:
            return False  # it is still to be taken from its links
        both = arrival.busy_on(kind, horizon_ps), other.busy_on(kind, horizon_ps)
        if _first_overlap_ps(*both) < _NEVER_PS:
            return False
    return True


def _have_been_alone(arrivals: Iterable[Arrival]) -> bool:
    """Say whether nothing changes for these transfers when another is over: none shares a link, nor will."""
    return all(arrival.whole and all(len(link.users) == 1 for link in arrival.links) for arrival in arrivals)


def _company(arrival: Arrival) -> dict[Arrival, None]:
    """Return a transfer with all that it may meet, and all that these may meet."""
    found, new = {arrival: None}, [arrival]
    while new:
        for link in new.pop().links:
            for other in link.users:
                if other not in found:
                    found[other] = None
                    new.append(other)
    return found


def _meet_now(arrivals: Sequence[Arrival]) -> bool:
    """Share the links on which transfers are now; say whether there is one with several."""
    active = [(arrival, here) for arrival in arrivals if (here := arrival.here)]
    used = [link for _, here in active for link in here]
    number = {link: index for index, link in enumerate(dict.fromkeys(used))}
    if len(number) == len(used):
        return False
    rates = fair_rates([FULL] * len(number), [{number[link]: 1 for link in here} for _, here in active])
    for (arrival, _), rate in zip(active, rates, strict=True):
        arrival.rate = rate
    return True


def _next_meeting_ps(arrivals: Sequence[Arrival]) -> int | None:
    """Return how long it takes until two are on one link, if that is before one of them ends."""
    horizon_ps = first_ps = min([arrival.remaining_ps() for arrival in arrivals])
    looked: set[Arrival] = set()
    for one in arrivals:
        looked.add(one)
        crowded = [link for link in one.links if len(link.users) > 1]
        others = dict.fromkeys([(link.kind, other) for link in crowded for other in link.users if other not in looked])
        for kind, other in others:
            overlap_ps = _first_overlap_ps(one.busy_on(kind, first_ps), other.busy_on(kind, first_ps))
            first_ps = min(first_ps, overlap_ps)
    return first_ps if first_ps < horizon_ps else None


def _first_overlap_ps(one: Iterator[tuple[int, int]], other: Iterator[tuple[int, int]]) -> int:
    """Return when two rows of intervals first overlap; a very late time if they do not.

    Examples
    --------
    >>> _first_overlap_ps(iter([(0, 2), (5, 9)]), iter([(2, 5), (8, 12)]))
    8
    """
    mine, theirs = next(one, None), next(other, None)
    while mine and theirs:
        start_ps = max(mine[0], theirs[0])
        if start_ps < min(mine[1], theirs[1]):
            return start_ps
        if mine[1] <= theirs[1]:
            mine = next(one, None)
        else:
            theirs = next(other, None)
    return _NEVER_PS
