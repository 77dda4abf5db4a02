"""Cohorts, messages, collectives, stalls and the account of a run."""

from collections.abc import Iterator

import pytest
import simpy

from trnsim.engine import (
    Activity,
    Cohort,
    Collective,
    Engine,
    Part,
    Story,
    Transfer,
    Wait,
    account,
    fingerprint,
    last_step,
    stretches,
)
from trnsim.errors import SimulationStalledError

RECEIVE = Wait("receive activation", "bubble", "exposed_pp")
SEND = Wait("send activation", "exposed_pp", "exposed_pp")
REDUCE = Wait("grads 2", "straggler_wait", "exposed_dp")


def work(seconds: float, heading: str = "compute") -> Activity:
    return Activity("work", (Part("work", heading, seconds),))


def test_a_message_delays_the_receiver_and_occupies_the_sender() -> None:
    # Sender works 2 s, pushes for 1 s, works 4 s more: ends at 7 s. Receiver works 0.5 s, waits to 3 s.
    # Its wait is bubble until the message is sent (0.5 .. 2) and exposed while it travels (2 .. 3).
    engine = Engine()
    sender, receiver = (engine.cohort(name, ranks=1, first=name) for name in ("stage 0", "stage 1"))

    def send() -> Story:
        yield from sender.perform(work(2.0))
        yield from sender.send(receiver, SEND, "activation 0", Transfer(1.0))
        yield from sender.perform(work(4.0))
        sender.end_step()

    def receive() -> Story:
        yield from receiver.perform(work(0.5))
        yield from receiver.receive(sender, RECEIVE, "activation 0")
        receiver.end_step()

    engine.start(sender, send())
    engine.start(receiver, receive())
    engine.run()
    window = last_step(engine.cohorts)
    assert window.duration_s == 7.0
    assert account(sender, window).by_heading() == {"compute": 6.0, "exposed_pp": 1.0}
    assert account(receiver, window).by_heading() == {"compute": 0.5, "bubble": 1.5, "exposed_pp": 1.0}


def test_a_message_that_came_early_costs_nothing() -> None:
    # Sent at 0, arrived at 1 s; received at 5 s without a wait.
    engine = Engine()
    sender, receiver = (engine.cohort(name, ranks=1, first=name) for name in ("stage 0", "stage 1"))

    def receive() -> Story:
        yield from receiver.perform(work(5.0))
        yield from receiver.receive(sender, RECEIVE, "activation 0")
        receiver.end_step()

    def send() -> Story:
        yield from sender.send(receiver, SEND, "activation 0", Transfer(1.0))
        sender.end_step()

    engine.start(sender, send())
    engine.start(receiver, receive())
    engine.run()
    window = last_step(engine.cohorts)
    assert account(receiver, window).by_heading() == {"compute": 5.0}


def test_a_collective_starts_with_its_last_member_and_all_leave_together() -> None:
    # Members arrive at 1, 2 and 4 s; 3 s of transfer: all leave at 7 s. Waits: 3 + 3, 2 + 3, 0 + 3.
    engine = Engine()
    cohorts = [engine.cohort("stage 0", ranks=1, first=f"dp{index}") for index in range(3)]
    group = Collective("dp", dict.fromkeys(cohorts, 1))

    def member(cohort: Cohort, arrival_s: float) -> Story:
        yield from cohort.perform(work(arrival_s))
        yield from cohort.wait(cohort.launch(group, REDUCE, 0, Transfer(3.0)), REDUCE)
        cohort.end_step()

    for cohort, arrival_s in zip(cohorts, (1.0, 2.0, 4.0), strict=True):
        engine.start(cohort, member(cohort, arrival_s))
    engine.run()
    window = last_step(engine.cohorts)
    assert window.duration_s == 7.0
    assert account(cohorts[0], window).by_heading() == {"compute": 1.0, "straggler_wait": 3.0, "exposed_dp": 3.0}
    assert account(cohorts[2], window).by_heading() == {"compute": 4.0, "exposed_dp": 3.0}


def test_collectives_of_a_group_run_one_after_the_other() -> None:
    # Launched at 0 and at 1 s, 3 s each on one stream: they end at 3 and at 6 s.
    engine = Engine()
    cohort = engine.cohort("stage 0", ranks=4, first="dp0")
    group = Collective("dp", {cohort: 4})

    def member() -> Story:
        first = cohort.launch(group, REDUCE, 0, Transfer(3.0))
        yield from cohort.perform(work(1.0))
        second = cohort.launch(group, REDUCE, 1, Transfer(3.0))
        yield from cohort.wait(first, REDUCE)
        yield from cohort.wait(second, REDUCE)
        cohort.end_step()

    engine.start(cohort, member())
    engine.run()
    assert [row[1:] for row in cohort.stream.rows()] == [(0, 0, 3 * 10**12), (10**12, 3 * 10**12, 6 * 10**12)]
    assert account(cohort, last_step([cohort])).by_heading() == {"compute": 1.0, "exposed_dp": 5.0}


def test_an_activity_meets_its_group_at_the_first_collective() -> None:
    # Head 1 s and 2 s, then 3 s together: both end at max(1, 2) + 3 = 5 s; the early one waits 1 s.
    engine = Engine()
    cohorts = [engine.cohort("stage 0", ranks=1, first=f"tp{index}") for index in range(2)]
    group = Collective("tp", dict.fromkeys(cohorts, 1))

    def member(cohort: Cohort, head_s: float) -> Story:
        parts = (Part("a", "compute", head_s), Part("all-reduce", "exposed_tp", 1.0), Part("b", "compute", 2.0))
        yield from cohort.perform(Activity("forward", parts, rendezvous=1), group, 0)
        cohort.end_step()

    for cohort, head_s in zip(cohorts, (1.0, 2.0), strict=True):
        engine.start(cohort, member(cohort, head_s))
    engine.run()
    window = last_step(engine.cohorts)
    assert window.duration_s == 5.0
    assert account(cohorts[0], window).by_heading() == {"compute": 3.0, "straggler_wait": 1.0, "exposed_tp": 1.0}
    assert [s.name for s in stretches(cohorts[0].log)] == ["forward", "a", "wait for all-reduce", "all-reduce", "b"]


def folded(members: int) -> Iterator[Engine]:
    """Yield one machine twice: `members` alike ranks as one cohort, and as one cohort each."""
    for multiplicities in ([members], [1] * members):
        engine = Engine()
        cohorts = [engine.cohort("stage 0", ranks=count, first="dp0") for count in multiplicities]
        group = Collective("dp", dict(zip(cohorts, multiplicities, strict=True)))

        def member(cohort: Cohort, group: Collective = group) -> Story:
            yield from cohort.perform(work(1.0))
            yield from cohort.wait(cohort.launch(group, REDUCE, 0, Transfer(0.5)), REDUCE)
            cohort.end_step()

        for cohort in cohorts:
            engine.start(cohort, member(cohort))
        engine.run()
        yield engine


def test_folding_does_not_change_the_fingerprint() -> None:
    # One cohort of 8 == 8 cohorts of one; 7 ranks are another machine.
    one, eight = (fingerprint(engine.cohorts) for engine in folded(8))
    assert one == eight
    assert one != fingerprint(next(folded(7)).cohorts)


def test_events_are_those_that_simpy_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    # The engine's count equals a count made outside of it, in the step function of SimPy.
    seen = []
    original = simpy.Environment.step

    def counted(environment: simpy.Environment) -> None:
        original(environment)
        seen.append(1)

    monkeypatch.setattr(simpy.Environment, "step", counted)
    for engine in folded(3):
        assert engine.events == len(seen) > 0
        seen.clear()


def test_what_waits_until_a_time_is_settled_sees_all_that_happens_then() -> None:
    # Three ranks end an activity at the same time; whoever is first asks to look, and sees that all have gone on.
    engine = Engine()
    ranks = [engine.cohort(f"rank {number}", ranks=1, first=str(number)) for number in range(3)]
    seen = []

    def look() -> None:
        seen.append((engine.now_ps, [len(rank.log) for rank in ranks]))

    def live(rank: Cohort) -> Story:
        yield from rank.perform(Activity("first", (Part("work", "compute", 5e-12),)))
        if rank is ranks[0]:
            engine.call_when_settled(look)
        yield from rank.perform(Activity("nothing", ()))
        yield from rank.perform(Activity("second", (Part("work", "compute", 7e-12),)))

    for rank in ranks:
        engine.start(rank, live(rank))
    engine.run()
    assert seen == [(5, [2, 2, 2])]


def test_a_missing_message_ends_in_a_report() -> None:
    # Nothing ends in silence: who waits, for what, from whom.
    engine = Engine()
    sender, receiver = (engine.cohort(f"stage {number}", ranks=128, first=f"dp0.pp{number}") for number in range(2))

    def receive() -> Story:
        yield from receiver.receive(sender, RECEIVE, "activation of microbatch 7")

    engine.start(sender, sender.perform(work(1.204)))
    engine.start(receiver, receive())
    with pytest.raises(SimulationStalledError) as stall:
        engine.run()
    text = str(stall.value)
    assert "at 1.204 s: 1 cohort waits and nothing is left to happen" in text
    assert "stage 1 (128 ranks, first dp0.pp1)" in text
    assert "receives activation of microbatch 7 from stage 0, which has finished" in text


def test_a_rank_that_never_joins_is_named() -> None:
    engine = Engine()
    many, one = (
        engine.cohort("stage 3", ranks=127, first="dp0.pp3"),
        engine.cohort("stage 3", ranks=1, first="dp44.pp3"),
    )
    group = Collective("dp", {many: 127, one: 1})

    def join() -> Story:
        yield from many.wait(many.launch(group, REDUCE, 0, Transfer(1.0)), REDUCE)

    engine.start(many, join())
    engine.start(one, one.perform(work(1.0)))
    with pytest.raises(SimulationStalledError, match=r'"grads 2" on dp: 127 of 128 ranks joined, missing dp44\.pp3'):
        engine.run()


def test_two_ranks_that_call_in_different_orders_stall() -> None:
    # A,B against B,A: both wait for the other for ever, and both are named.
    engine = Engine()
    cohorts = [engine.cohort("stage 0", ranks=1, first=f"dp{index}") for index in range(2)]
    group = Collective("dp", dict.fromkeys(cohorts, 1))

    def member(cohort: Cohort, keys: tuple[str, str]) -> Story:
        for key in keys:
            yield from cohort.wait(cohort.launch(group, REDUCE, key, Transfer(1.0)), REDUCE)

    for cohort, keys in zip(cohorts, (("A", "B"), ("B", "A")), strict=True):
        engine.start(cohort, member(cohort, keys))
    with pytest.raises(SimulationStalledError, match="2 cohorts wait"):
        engine.run()


def test_a_run_without_steps_has_no_window() -> None:
    engine = Engine()
    engine.cohort("stage 0", ranks=1, first="dp0")
    with pytest.raises(ValueError, match="at least one"):
        last_step(engine.cohorts)


def test_members_of_a_group_must_agree_on_what_a_collective_is() -> None:
    # It is on the links once: a step in which each member has it there for another time is wrong, and says so.
    engine = Engine()
    cohorts = [engine.cohort(f"rank {rank}", ranks=1, first=f"rank {rank}") for rank in range(2)]
    group = Collective("tp", dict.fromkeys(cohorts, 1))
    for cohort, seconds in zip(cohorts, (1.0, 2.0), strict=True):
        reduce = Activity("pass", (Part("reduce", "exposed_tp", seconds, Transfer(seconds)),), rendezvous=0)
        engine.start(cohort, cohort.perform(reduce, group, 0))
    with pytest.raises(ValueError, match=r'rank 1 .* joins a "pass" of another course .* its tp group'):
        engine.run()


def test_a_collective_can_follow_another_one() -> None:
    # The first takes 2 s from the last arrival at 1 s; the second, on another group, 3 s from its end on, though it was
    # launched at once, and also if the first is long over.
    engine = Engine()
    early, late = (engine.cohort(name, ranks=1, first=name) for name in ("early", "late"))
    first, second = (Collective(axis, {early: 1, late: 1}) for axis in ("dp", "dp copies"))

    def story(rank: Cohort, seconds: float) -> Story:
        yield from rank.perform(work(seconds))
        one = rank.launch(first, REDUCE, "one", Transfer(2.0))
        two = rank.launch(second, REDUCE, "two", Transfer(3.0), after=one)
        yield from rank.wait(one, REDUCE)
        yield from rank.wait(two, REDUCE)
        again = rank.launch(second, REDUCE, "again", Transfer(0.5), after=one)
        yield from rank.wait(again, REDUCE)
        rank.end_step()

    engine.start(early, story(early, 0.25))
    engine.start(late, story(late, 1.0))
    engine.run()
    assert last_step(engine.cohorts).duration_s == 1 + 2 + 3 + 0.5
    assert account(early, last_step(engine.cohorts)).by_heading()["straggler_wait"] == 0.75
