"""Messages on links, first come first served, against closed forms, recursions, and laws."""

from __future__ import annotations

import pytest
import simpy
from hypothesis import given
from hypothesis import strategies as st

from trnsim.engine.messages import Exchange, MessageLinks, Round, Send, exchange


def ring(busy: list[int], steps: int) -> Exchange:
    """Return an exchange in which member i sends to the next one over link i, which is busy for so long."""
    members = len(busy)
    return Exchange([[Send((i + 1) % members, ((i, busy[i]),))] for i in range(members)], steps)


def star(members: int, busy: int, steps: int) -> Exchange:
    """Return the same over a switch: up by link i, down by link members + i."""
    after = [(i + 1) % members for i in range(members)]
    return Exchange([[Send(after[i], ((i, busy), (members + after[i], busy)))] for i in range(members)], steps)


@pytest.mark.parametrize("cut_through", [True, False])
def test_ring_of_neighbours(cut_through: bool) -> None:
    # one link a path: T = steps (d + alpha), however a link passes messages on; one event for each member and step
    found = exchange([[ring([100] * 5, steps=8)]], [7] * 5, cut_through=cut_through)
    assert found.ends_ps == [[8 * 107] * 5]
    assert found.events == 8 * 5


def test_star_ring() -> None:
    # cut-through: steps (d + 2 alpha); store-and-forward: steps (2 d + 2 alpha)
    through, stored = (exchange([[star(6, 100, 10)]], [7] * 12, cut_through=way) for way in (True, False))
    assert set(through.ends_ps[0]) == {10 * (100 + 14)}
    assert set(stored.ends_ps[0]) == {10 * (200 + 14)}


def test_a_path_alone() -> None:
    # cut-through: sum alpha + max d, wherever the slowest link is; store-and-forward: sum (alpha + d)
    for durations in ([5, 30, 10], [30, 5, 10], [5, 10, 30]):
        path = tuple(enumerate(durations))
        through, stored = (
            exchange([[Exchange([[Send(1, path)], []])]], [1, 2, 3], cut_through=way).ends_ps[0][1]
            for way in (True, False)
        )
        assert (through, stored) == (6 + 30, 6 + 45)


def test_channels_do_not_wait_for_each_other() -> None:
    swap = [[Send(1, ((0, 0),)), Send(1, ((2, 0),))], [Send(0, ((1, 0),)), Send(0, ((3, 0),))]]
    one, two = ([[sends[channel]] for sends in swap] for channel in (0, 1))
    latencies = [
        100,
        1,
        1,
        100,
    ]  # each channel is slow one way: there and back takes 101, and in step every step takes 100
    apart = exchange([[Exchange(one, 2, 0), Exchange(two, 2, 1)]], latencies, cut_through=True)
    together = exchange([[Exchange(swap, 2)]], latencies, cut_through=True)
    assert (max(apart.ends_ps[0]), max(together.ends_ps[0])) == (101, 200)


def test_a_member_is_through_once_with_all_of_its_channels() -> None:
    # the second channel takes a step of 5 more than the first; nobody is told before
    environment = simpy.Environment()
    swap = [[Send(1, ((0, 5),))], [Send(0, ((1, 5),))]]
    found = Round(MessageLinks(environment, [0, 0]), [Exchange(swap, 1, 0), Exchange(swap, 1, 1)])
    ends_ps: list[int] = []
    found.begin(0, 0, ends_ps.append)
    found.begin(1, 0, lambda _: None)
    environment.run()
    assert ends_ps == [10]


def test_first_come_first_served() -> None:
    # four members send to a fifth over one link of 5 ps: they arrive at 5, 10, 15, 20 and a latency of 1 later;
    # each sender is through when its message has left, the receiver with the last one
    found = exchange([[Exchange([[Send(4, ((0, 5),))] for _ in range(4)] + [[]])]], [1], cut_through=True)
    assert found.ends_ps == [[5, 10, 15, 20, 21]]


def test_who_reaches_the_second_link_first_has_it_first() -> None:
    # 0 crosses link 0 (10 ps) and asks for link 2 at 10; 1 crosses link 1 (4 ps) and has it from 4 to 12
    sends = [[Send(2, ((0, 10), (2, 8)))], [Send(3, ((1, 4), (2, 8)))], [], []]
    assert exchange([[Exchange(sends)]], [0, 0, 0], cut_through=False).ends_ps == [[10, 4, 20, 12]]


def test_a_chain_is_a_pipeline() -> None:
    # pieces one after the other down a chain of n members: (pieces + n - 2) (d + alpha) if all go step by step. Here a
    # member sends its next piece as soon as the last has left: (pieces - 1) d + (n - 1) (d + alpha).
    members, pieces, d, alpha = 5, 6, 10, 3
    exchanges = []
    for step in range(pieces + members - 2):
        holders = [max(0, step - pieces + 1) <= i <= min(step, members - 2) for i in range(members)]
        exchanges.append(Exchange([[Send(i + 1, ((i, d),))] if holders[i] else [] for i in range(members)]))
    ends = exchange([exchanges], [alpha] * members, cut_through=True).ends_ps[0]
    assert ends[-1] == (pieces - 1) * d + (members - 1) * (d + alpha)


def test_a_reducing_switch_is_one_more_member() -> None:
    # up to the switch, and down when all have come: 2 (d + alpha)
    members = 4
    up = Exchange([*([Send(members, ((i, 50),))] for i in range(members)), []])
    down = Exchange([*([] for _ in range(members)), [Send(i, ((members + i, 50),)) for i in range(members)]])
    ends = exchange([[up, down]], [2] * 2 * members, cut_through=True).ends_ps[0]
    assert set(ends[:members]) == {2 * 52}


def test_two_groups_on_the_same_links_take_twice_as_long() -> None:
    # each link serves a message of one and a message of the other: 2 d a step
    alone = max(exchange([[ring([100] * 4, 6)]], [0] * 4, cut_through=True).ends_ps[0])
    both = exchange([[ring([100] * 4, 6)]] * 2, [0] * 4, cut_through=True).ends_ps
    assert alone == 600
    assert [max(ends) for ends in both] == [1100, 1200]


def test_a_message_for_a_later_step_is_awaited_in_that_step() -> None:
    # 0 has nothing to do in the first step and sends to 1 at once, for 150 ps; 1 sends for 100 ps first, and then waits.
    first, second = Exchange([[], [Send(2, ((0, 100),))], []]), Exchange([[Send(1, ((1, 150),))], [], []])
    assert exchange([[first, second]], [5, 5], cut_through=True).ends_ps == [[150, 155, 105]]


def test_a_pause_comes_before_every_step_with_work() -> None:
    # every step takes pause + d + alpha
    assert exchange([[ring([100] * 3, 4)]], [7] * 3, cut_through=True, pause_ps=20).ends_ps == [[4 * 127] * 3]


def test_nobody_waits_for_nothing() -> None:
    # no exchanges, a member without work, and a message that crosses no link take no time
    assert exchange([[], [Exchange([[Send(1, ())], [], []])]], [], cut_through=True).ends_ps == [[], [0, 0, 0]]


@given(st.lists(st.integers(1, 50), min_size=2, max_size=7), st.integers(1, 9), st.integers(0, 20), st.booleans())
def test_ring_of_unequal_links(busy: list[int], steps: int, alpha: int, cut_through: bool) -> None:
    # Law of a ring without rendezvous (max-plus): with t_i when member i begins a step,
    #   t_i' = max(t_i + d_i, t_(i-1) + d_(i-1) + alpha)
    members = len(busy)
    times = [0] * members
    for _ in range(steps):
        times = [max(times[i] + busy[i], times[i - 1] + busy[i - 1] + alpha) for i in range(members)]
    assert exchange([[ring(busy, steps)]], [alpha] * members, cut_through=cut_through).ends_ps == [times]


@st.composite
def meshes(draw: st.DrawFn) -> list[Exchange]:
    """Return messages at random between four members over four links, so that they queue."""
    hop = st.tuples(st.integers(0, 3), st.integers(1, 20))
    path = st.lists(hop, max_size=3, unique_by=lambda each: each[0]).map(tuple)
    sends = st.lists(st.builds(Send, st.integers(0, 3), path), max_size=3)
    step = st.builds(Exchange, st.lists(sends, min_size=4, max_size=4), st.integers(1, 2))
    return draw(st.lists(step, min_size=1, max_size=3))


@given(meshes(), st.booleans())
def test_no_link_does_two_things_at_once(exchanges: list[Exchange], cut_through: bool) -> None:
    # Lower bounds: the sum of what a link carries, and each message alone, step after step of its sender.
    end = max(exchange([exchanges], [2] * 4, cut_through=cut_through).ends_ps[0])
    for link in range(4):
        carried = [
            busy * each.steps
            for each in exchanges
            for sends in each.sends
            for send in sends
            for on, busy in send.path
            if on == link
        ]
        assert end >= sum(carried)
    for member in range(4):
        longest = [
            max((max((d for _, d in s.path), default=0) for s in each.sends[member]), default=0) for each in exchanges
        ]
        first_link = [max((s.path[0][1] if s.path else 0 for s in each.sends[member]), default=0) for each in exchanges]
        assert end >= max(longest)
        assert end >= sum(d * each.steps for d, each in zip(first_link, exchanges, strict=True))


@given(meshes(), st.booleans())
def test_repeating_is_listing(exchanges: list[Exchange], cut_through: bool) -> None:
    # steps = k is the same exchange listed k times
    listed = [Exchange(each.sends) for each in exchanges for _ in range(each.steps)]
    assert exchange([exchanges], [2] * 4, cut_through=cut_through) == exchange(
        [listed], [2] * 4, cut_through=cut_through
    )
