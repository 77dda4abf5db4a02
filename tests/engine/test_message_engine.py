"""Ranks whose messages are followed one by one: against closed forms, recursions, and the same messages without ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.engine import Activity, Collective, Part, Transfer, Wait, account, last_step
from trnsim.engine.message_engine import MessageEngine
from trnsim.engine.messages import Exchange, Send, exchange
from trnsim.errors import SimulationStalledError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnsim.engine import Cohort, Story

PS = 1e-12
REDUCE = Wait("reduce", "straggler_wait", "exposed_dp")
SEND = Wait("send activation", "exposed_pp", "exposed_pp")
RECEIVE = Wait("receive activation", "bubble", "exposed_pp")


def ring(busy: Sequence[int], steps: int, first_link: int = 0) -> Exchange:
    """Return an exchange in which member i sends to the next one over a link of its own, which is busy for so long."""
    members = len(busy)
    return Exchange([[Send((i + 1) % members, ((first_link + i, busy[i]),))] for i in range(members)], steps)


def ranks_of(engine: MessageEngine, count: int) -> list[Cohort]:
    return [engine.cohort("chip", ranks=1, first=f"dp{number}") for number in range(count)]


def joined(ranks: Sequence[Cohort], axis: str = "dp") -> Collective:
    return Collective(axis, dict.fromkeys(ranks, 1))


@given(st.lists(st.integers(0, 60), min_size=2, max_size=6), st.lists(st.integers(1, 50), min_size=6, max_size=6))
def test_a_ring_of_latecomers(late: list[int], busy: list[int]) -> None:
    # Law of a ring without rendezvous (max-plus): with t_i when member i begins a step, its arrival in the first,
    #   t_i' = max(t_i + d_i, t_(i-1) + d_(i-1) + alpha).
    # Each rank books straggler_wait until the last has come, and nothing of it if it was the last.
    members, steps, alpha = len(late), 2 * (len(late) - 1), 7
    busy = busy[:members]
    rounds = ring(busy, steps)
    engine = MessageEngine([alpha] * members, lambda *_: [rounds])
    ranks = ranks_of(engine, members)
    group = joined(ranks)

    def story(rank: Cohort, late_ps: int) -> Story:
        yield engine.environment.timeout(late_ps)
        yield from rank.wait(rank.launch(group, REDUCE, 0, Transfer(PS)), REDUCE)

    for rank, late_ps in zip(ranks, late, strict=True):
        engine.start(rank, story(rank, late_ps))
    engine.run()
    times = list(late)
    for _ in range(steps):
        times = [max(times[i] + busy[i], times[i - 1] + busy[i - 1] + alpha) for i in range(members)]
    found = [next(rank.log.rows())[1:] for rank in ranks]
    assert found == [(start, max(late), end) for start, end in zip(late, times, strict=True)]


@given(st.lists(st.lists(st.integers(1, 9), max_size=20), min_size=3, max_size=3), st.integers(1, 6))
def test_what_ranks_do_beside_them_does_not_change_messages(others: list[list[int]], steps: int) -> None:
    # The agenda of messages works ahead of the clock where nothing else happens: with any other events about, every
    # message has the times that it has alone.
    rounds = Exchange(
        [[Send((i + 1) % 3, ((i, 5 + i), (3 + (i + 1) % 3, 4)))] for i in range(3)], steps
    )  # a star: up and down
    alone = exchange([[rounds]], [2] * 6, cut_through=True).ends_ps[0]
    engine = MessageEngine([2] * 6, lambda *_: [rounds])
    ranks = ranks_of(engine, 3)
    group = joined(ranks)

    def story(rank: Cohort, naps: list[int]) -> Story:
        call = rank.launch(group, REDUCE, 0, Transfer(PS))
        for nap in naps:
            yield engine.environment.timeout(nap)
        yield from rank.wait(call, REDUCE)

    for rank, naps in zip(ranks, others, strict=True):
        engine.start(rank, story(rank, naps))
    engine.run()
    assert [next(rank.stream.rows()).end_ps for rank in ranks] == alone


def test_two_groups_on_one_link_take_twice_as_long() -> None:
    # A tensor and a data group of the same two ranks use the same link each way: 2 d and latency for both, in the order
    # in which they were asked.
    swap = ring([100, 100], steps=1)
    engine = MessageEngine([3, 3], lambda *_: [swap])
    ranks = ranks_of(engine, 2)
    tensor, data = joined(ranks, "tp"), joined(ranks)
    ends = {}

    def story(rank: Cohort) -> Story:
        calls = [rank.launch(group, REDUCE, 0, Transfer(PS)) for group in (tensor, data)]
        for call in calls:
            yield from rank.wait(call, REDUCE)
        ends[rank] = [call.end_ps for call in calls]

    for rank in ranks:
        engine.start(rank, story(rank))
    engine.run()
    assert list(ends.values()) == [[103, 203]] * 2


def test_collectives_of_a_group_follow_one_another_at_each_member() -> None:
    # Rank 0 calls A and B at 0, rank 1 calls A at 10 and B at 500. B begins at rank 0 when it is through with A, at
    # 10 + 100 + 3, and its message waits for nobody; rank 1 has it when it comes. Skew passes before the first message.
    swap = ring([100, 100], steps=1)
    engine = MessageEngine([3, 3], lambda *_: [swap])
    ranks = ranks_of(engine, 2)
    group = joined(ranks)
    skewed = Transfer(PS, delay_s=20 * PS)
    times = {}

    def story(rank: Cohort, first_ps: int, second_ps: int) -> Story:
        yield engine.environment.timeout(first_ps)
        one = rank.launch(group, REDUCE, "A", Transfer(PS))
        yield engine.environment.timeout(second_ps - first_ps)
        other = rank.launch(group, REDUCE, "B", skewed)
        yield from rank.wait(one, REDUCE)
        yield from rank.wait(other, REDUCE)
        times[rank] = [(call.start_ps, call.end_ps) for call in (one, other)]

    engine.start(ranks[0], story(ranks[0], 0, 0))
    engine.start(ranks[1], story(ranks[1], 10, 500))
    engine.run()
    assert times[ranks[0]] == [(0, 113), (113, 500 + 20 + 103)]
    assert times[ranks[1]] == [(10, 110), (500, 500 + 20 + 100)]


def test_an_activity_is_cut_at_its_collectives_and_parts_sum() -> None:
    # 30 of work, a swap of 103, 40 of work; rank 1 takes 50 longer for its first part. Rank 0 waits 50 for it, and both
    # book the rest as exposed, each instant once; rank 1 has what rank 0 sent before its own has left.
    swap = ring([100, 100], steps=1)
    engine = MessageEngine([3, 3], lambda *_: [swap])
    ranks = ranks_of(engine, 2)
    group = joined(ranks, "tp")

    def story(rank: Cohort, head_ps: int) -> Story:
        parts = (
            Part("a", "compute", head_ps * PS),
            Part("all-reduce", "exposed_tp", 103 * PS, Transfer(103 * PS)),
            Part("b", "compute", 40 * PS),
        )
        yield from rank.perform(Activity("forward", parts, rendezvous=1), group, 0)
        rank.end_step()

    for rank, head_ps in zip(ranks, (30, 80), strict=True):
        engine.start(rank, story(rank, head_ps))
    engine.run()
    window = last_step(ranks)
    assert account(ranks[0], window).booked_ps == {
        ("a", "compute"): 30,
        ("all-reduce", "straggler_wait"): 50,
        ("all-reduce", "exposed_tp"): 103,
        ("b", "compute"): 40,
    }
    assert account(ranks[1], window).booked_ps == {
        ("a", "compute"): 80,
        ("all-reduce", "exposed_tp"): 100,
        ("b", "compute"): 40,
    }


@pytest.mark.parametrize("late_ps", [0, 50, 500])
def test_a_message_arrives_whether_or_not_the_receiver_looks(late_ps: int) -> None:
    # two links with cut-through: alpha + alpha + max d; the sender is blocked until then
    engine = MessageEngine([3, 4], lambda *_: [Exchange([[Send(1, ((0, 100), (1, 60)))], []])])
    sender, receiver = ranks_of(engine, 2)

    def receives() -> Story:
        yield engine.environment.timeout(late_ps)
        yield from receiver.receive(sender, RECEIVE, "activation")

    engine.start(sender, sender.send(receiver, SEND, "activation", Transfer(PS)))
    engine.start(receiver, receives())
    engine.run()
    assert next(sender.log.rows())[1:] == (0, 0, 107)
    assert next(receiver.log.rows())[1:] == (late_ps, late_ps, max(late_ps, 107))


def test_a_rank_that_never_joins_is_named() -> None:
    # two of three call a ring that needs all
    engine = MessageEngine([1] * 3, lambda *_: [ring([5] * 3, steps=4)])
    ranks = ranks_of(engine, 3)
    group = joined(ranks)

    def story(rank: Cohort) -> Story:
        yield from rank.wait(rank.launch(group, REDUCE, 0, Transfer(PS)), REDUCE)

    for rank in ranks[:2]:
        engine.start(rank, story(rank))
    engine.start(ranks[2], ranks[2].settle(REDUCE))  # nothing to do
    with pytest.raises(SimulationStalledError, match=r'"reduce" on dp: 2 of 3 ranks joined, missing dp2'):
        engine.run()


def test_cohorts_of_several_ranks_are_refused() -> None:
    # messages go from one rank to another
    with pytest.raises(ValueError, match="not between cohorts of 4"):
        MessageEngine([], lambda *_: []).cohort("stage 0", ranks=4, first="dp0")


def run_two_groups(second_ps: int, *, is_one_group: bool) -> list[list[tuple[int, int]]]:
    """Let two ranks call a ring of three steps at 0 and a swap later; return when each call began and ended."""
    engine = MessageEngine([3, 3], lambda _, steps: [ring([100, 100], steps)])
    ranks = ranks_of(engine, 2)
    first = joined(ranks)
    second = first if is_one_group else joined(ranks, "tp")
    times = []

    def story(rank: Cohort) -> Story:
        one = rank.launch(first, REDUCE, "A", Transfer(PS, task=3))
        yield engine.environment.timeout(second_ps)
        other = rank.launch(second, REDUCE, "B", Transfer(PS, task=1))
        for call in (one, other):
            yield from rank.wait(call, REDUCE)
        times.append([(call.start_ps, call.end_ps) for call in (one, other)])

    for rank in ranks:
        engine.start(rank, story(rank))
    engine.run()
    return times


def test_messages_do_not_run_ahead_of_ranks() -> None:
    # Steps of the ring begin at 0, 103, 206. The swap of another group asks at 150 for a link that is taken until 203,
    # has it until 303, and the third step has to wait for it.
    assert run_two_groups(150, is_one_group=False) == [[(0, 406), (150, 306)]] * 2


def test_a_collective_waits_for_the_end_that_is_known_already() -> None:
    # The ring of the same group ends at 309. At 250, when it is known, the swap is called: it begins at 309.
    assert run_two_groups(250, is_one_group=True) == [[(0, 309), (309, 412)]] * 2
