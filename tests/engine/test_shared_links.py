"""Links shared by the transfers of simulated ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING
from unittest.mock import patch

import simpy
from hypothesis import given
from hypothesis import strategies as st

from trnsim.engine import Activity, Cohort, Collective, Engine, Part, Story, Transfer, Wait, account, last_step
from trnsim.engine.arrivals import Arrival, Link, Route
from trnsim.engine.courses import Course, Stint
from trnsim.engine.shared_links import SharedLinks
from trnsim.engine.sharing import Flow, finish_ps

if TYPE_CHECKING:
    from collections.abc import Generator

RECEIVE = Wait("receive", "bubble", "exposed_pp")
SEND = Wait("send", "exposed_pp", "exposed_pp")
REDUCE = Wait("gradients", "straggler_wait", "exposed_dp")
MS = 1e-3


def bytes_of(seconds: float, kind: str = "nic", own: float = 0.0) -> Transfer:
    return Transfer(own + seconds, {kind: seconds})


def on_links(*parts: tuple[float, float]) -> Activity:
    """Work and a collective by turns, each given as seconds of work and seconds on the NIC."""
    found = []
    for number, (work, busy) in enumerate(parts):
        found.append(Part(f"work {number}", "compute", work))
        found.append(Part(f"reduce {number}", "exposed_tp", busy, Transfer(busy, {"nic": busy})))
    return Activity("pass", tuple(found), rendezvous=1)


def ends_of(courses: list[tuple[int, Course, list[str]]]) -> list[int]:
    """Run transfers, each with its start and its links; return when they end."""
    return run_of(courses)[0]


def run_of(courses: list[tuple[int, Course, list[str]]]) -> tuple[list[int], int]:
    """Run transfers, each with its start and its links; return when they end, and the number of events."""
    environment = simpy.Environment()
    links = SharedLinks(environment)
    wires: dict[tuple[str, str], Link] = {}
    arrivals = [Arrival(environment) for _ in courses]

    def begin(number: int) -> None:
        _, course, taken = courses[number]
        route = Route(lambda kind: [wires.setdefault((kind, name), Link(kind)) for name in taken])
        links.carry(course, route, arrivals[number])

    def at(start: int, number: int) -> Generator[simpy.Event, None, None]:
        yield environment.timeout(start)
        begin(number)

    for number, (start, _, _) in enumerate(courses):
        environment.process(at(start, number))
    events = 0
    while environment.peek() != float("inf"):
        environment.step()
        events += 1
    return [arrival.end_ps for arrival in arrivals], events


def test_two_transfers_on_one_link_take_twice_as_long() -> None:
    # x1 + x2 = 1, x1 = x2: both end at 2 T
    course = Course([Stint("nic", 1000)])
    assert ends_of([(0, course, ["a"]), (0, course, ["a"])]) == [2000, 2000]
    assert ends_of([(0, course, ["a"]), (0, course, ["b"])]) == [1000, 1000]


def test_links_are_shared_only_while_both_are_on_them() -> None:
    # 100 of work, 100 on the link, 100 of work against 100 on the link from 150 on: from 150 to 250 each has half,
    # the first is done with its bytes at 250, the second has 50 left and ends at 300
    pulsed = Course([Stint("", 100), Stint("nic", 100), Stint("", 100)])
    steady = Course([Stint("nic", 100)])
    assert ends_of([(0, pulsed, ["a"]), (150, steady, ["a"])]) == [350, 300]


def test_a_stint_may_be_over_when_all_was_to_be() -> None:
    # 100 on the link and 100 of work would be over at 200; at half the rate the 100 on the link are, and the work at 300.
    # The other has done 100 of its 1000 by 200, and the rest alone.
    pulsed = Course([Stint("nic", 100), Stint("", 100)])
    assert ends_of([(0, pulsed, ["a"]), (0, Course([Stint("nic", 1000)]), ["a"])]) == [300, 1100]


def test_kinds_do_not_meet() -> None:
    first, second = Course([Stint("nic", 100)]), Course([Stint("core-link", 100)])
    assert ends_of([(0, first, ["a"]), (0, second, ["a"])]) == [100, 100]


def test_the_rest_goes_to_whom_it_helps() -> None:
    # x1 + x2 + x3 = 1 on a, x3 + x4 = 1 on b: 1/3 each on a, 2/3 for the fourth, which ends first
    course = Course([Stint("nic", 600)])
    ends = ends_of([(0, course, ["a"]), (0, course, ["a"]), (0, course, ["a", "b"]), (0, course, ["b"])])
    assert ends[3] == 900
    assert max(ends[:3]) - 1800 in range(3)


transfers = st.lists(
    st.tuples(
        st.integers(0, 3000),
        st.integers(1, 5000),
        st.lists(st.sampled_from("abcd"), min_size=1, max_size=3, unique=True),
    ),
    min_size=1,
    max_size=7,
)


@given(transfers)
def test_transfers_of_one_turn_end_when_fluid_flows_do(cases: list[tuple[int, int, list[str]]]) -> None:
    # the same maximum-minimum problem, solved by the fluid solver, which knows of no stints
    full = 10**9
    number = {name: index for index, name in enumerate("abcd")}
    flows = [Flow(start, work * full, {number[name]: 1 for name in taken}) for start, work, taken in cases]
    fluid = finish_ps([full] * 4, flows)
    found = ends_of([(start, Course([Stint("nic", work)]), taken) for start, work, taken in cases])
    assert all(abs(mine - other) <= len(cases) for mine, other in zip(found, fluid, strict=True))


@given(transfers, st.data())
def test_what_is_cut_in_turns_ends_at_the_same_time(
    cases: list[tuple[int, int, list[str]]], data: st.DataObject
) -> None:
    # a stint on a link may be cut in two without anything else; neighbours of one kind are one stint
    whole, cut = [], []
    for start, work, taken in cases:
        first = data.draw(st.integers(0, work))
        whole.append((start, Course([Stint("nic", work)]), taken))
        cut.append((start, Course([Stint("nic", first), Stint("nic", work - first)]), taken))
    assert ends_of(whole) == ends_of(cut)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 40),
            st.lists(st.builds(Stint, st.sampled_from(["", "", "nic", "core-link"]), st.integers(1, 20)), min_size=1),
            st.lists(st.sampled_from("abcd"), min_size=1, max_size=3, unique=True),
        ),
        min_size=2,
        max_size=7,
    )
)
def test_whom_nobody_needs_to_look_at_again_does_the_same(cases: list[tuple[int, list[Stint], list[str]]]) -> None:
    courses = [(start, Course(stints), taken) for start, stints, taken in cases]
    with patch("trnsim.engine.shared_links._will_be_clear", lambda _: False):
        looked_at = run_of(courses)
    assert run_of(courses) == looked_at


@given(transfers)
def test_nobody_is_faster_in_company(cases: list[tuple[int, int, list[str]]]) -> None:
    courses = [(start, Course([Stint("", work // 2), Stint("nic", work)]), taken) for start, work, taken in cases]
    for (start, course, _), end in zip(courses, ends_of(courses), strict=True):
        assert end >= start + course.duration_ps


def test_a_message_slows_the_collectives_of_who_gets_it() -> None:
    # The receiver works 1 ms and reduces 1 ms, twice. A message of 2 ms arrives meanwhile, from 0 on: alone until 1 ms,
    # then both have half, until each has had its 1 ms at 3 ms; the pass goes on alone and ends at 5 ms instead of 4 ms.
    engine = Engine(links_are_shared=True)
    sender = engine.cohort("sender", ranks=1, first="pp0")
    receiver = engine.cohort("receiver", ranks=2, first="pp1")
    group = Collective("tp", {receiver: 2})

    def send() -> Story:
        yield from sender.send(receiver, SEND, "activation 0", bytes_of(2 * MS))
        sender.end_step()

    def work() -> Story:
        yield from receiver.perform(on_links((MS, MS), (MS, MS)), group, 0)
        yield from receiver.receive(sender, RECEIVE, "activation 0")
        receiver.end_step()

    engine.start(sender, send())
    engine.start(receiver, work())
    engine.run()
    window = last_step(engine.cohorts)
    assert window.duration_s == 5 * MS
    assert sender.step_ends[0][2] == 3 * 10**9
    # what sharing costs is booked where the collectives are; every instant once
    assert account(receiver, window).by_heading() == {"compute": 2 * MS, "exposed_tp": 3 * MS}


def test_without_sharing_nobody_is_in_the_way() -> None:
    engine = Engine()
    one, other = (engine.cohort(name, ranks=2, first=name) for name in ("a", "b"))
    group = Collective("dp", {one: 2, other: 2})

    def story(cohort: Cohort) -> Story:
        calls = [cohort.launch(group, REDUCE, key, bytes_of(MS)) for key in range(2)]
        for call in calls:
            yield from cohort.wait(call, REDUCE)

    for cohort in (one, other):
        engine.start(cohort, story(cohort))
    engine.run()
    assert engine.now_s == 2 * MS  # a group's collectives run one at a time


def test_collectives_of_two_groups_share_the_links_of_their_members() -> None:
    # one group of 1 ms, one of 3 ms, from 0 on, over the same NICs: half each until 2 ms, then alone: 4 ms
    engine = Engine(links_are_shared=True)
    cohort = engine.cohort("a", ranks=4, first="dp0")
    groups = [Collective(axis, {cohort: 4}) for axis in ("dp", "tied")]
    ends = []

    def story() -> Story:
        calls = [cohort.launch(group, REDUCE, 0, bytes_of(t * MS)) for group, t in zip(groups, (1, 3), strict=True)]
        for call in calls:
            yield from cohort.wait(call, REDUCE)
            ends.append(engine.now_s)

    engine.start(cohort, story())
    engine.run()
    assert ends == [2 * MS, 4 * MS]


def test_a_situation_tells_how_far_transfers_are() -> None:
    # Two transfers began 4 ps ago and go at half their rate; one of them had the link to itself for 2 ps before, or not.
    course, kept = Course([Stint("nic", 100)]), Link("nic")
    route = Route(lambda _: [kept])

    def situation(first_ps: int, second_ps: int) -> object:
        environment = simpy.Environment()
        links = SharedLinks(environment)
        kept.users = ()

        def begin() -> Generator[simpy.Event, None, None]:
            yield environment.timeout(first_ps)
            links.carry(course, route, Arrival(environment))
            yield environment.timeout(second_ps - first_ps)
            links.carry(course, route, Arrival(environment))

        environment.process(begin())
        environment.run(until=second_ps + 4)
        return tuple(found[2] for found in kept.situation(second_ps + 4))  # type: ignore[attr-defined]

    assert situation(3, 3) == situation(10, 10) == (2 * 10**9, 2 * 10**9)
    assert situation(3, 5) == situation(10, 12) == (4 * 10**9, 2 * 10**9)
