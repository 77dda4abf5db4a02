"""Collectives that members call in their own order: one after the other, beside one another, or never."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from network_programs import ring, shifts

from trnsim.collectives import Program
from trnsim.errors import SimulationStalledError
from trnsim.fabric.network_fabric import Latencies, NetworkFabric
from trnsim.topology.machines import machine

GIB = 2**30
STAR = NetworkFabric(
    machine("star", endpoints=8, bandwidth_bytes_per_s=50e9, latency_s=1e-6), latencies=Latencies(5e-6, 1e-6)
)
ALL = np.arange(8)


def test_in_order_they_take_the_sum() -> None:
    # T(A then B) = T(A) + T(B)
    ends = STAR.in_turns_s(
        {"A": (ring(8), ALL, GIB), "B": (ring(8), ALL, 3e8)}, {rank: ["A", "B"] for rank in range(8)}
    )
    alone = STAR.time_s(ring(8), GIB), STAR.time_s(ring(8), 3e8)
    assert (ends["A"], ends["B"]) == pytest.approx((alone[0], sum(alone)), abs=1e-9)


def test_one_member_in_order_holds_back_all() -> None:
    # A collective needs all of its members: the order of rank 3 is the order of everyone.
    every = {"A": (ring(8), ALL, GIB), "B": (ring(8), ALL, 3e8)}
    assert STAR.in_turns_s(every, {3: ["A", "B"]}) == STAR.in_turns_s(every, {rank: ["A", "B"] for rank in range(8)})


def test_those_that_wait_leave_the_links_to_the_others() -> None:
    # C shares the links of 1, 2 and 3 with A, then with B: all have B / 2, and C takes as long as A and B together.
    near, far = np.arange(4), np.arange(1, 5)
    every = {"A": (ring(4), near, GIB), "B": (ring(4), near, GIB), "C": (ring(4), far, 2 * GIB)}
    ends = STAR.in_turns_s(every, {0: ["A", "B"]})
    transfer_s = 6 * GIB / 4 / 50e9
    assert ends["A"] == pytest.approx(2 * transfer_s, rel=2e-3)
    assert ends["B"] == pytest.approx(4 * transfer_s, rel=2e-3)
    assert ends["C"] == pytest.approx(4 * transfer_s, rel=2e-3)


def test_a_collective_that_takes_no_time_lets_the_next_begin() -> None:
    # Groups of one have no phases; their end is their beginning.
    nothing = (Program("all-reduce", "ring", 1, ()), np.array([0]), GIB)
    ends = STAR.in_turns_s({"A": nothing, "B": (ring(8), ALL, GIB)}, {0: ["A", "B"]})
    assert ends == {"A": 0, "B": pytest.approx(STAR.time_s(ring(8), GIB))}
    assert STAR.in_turns_s({"A": nothing}, {}) == {"A": 0}


def test_crossed_orders_stall_with_names() -> None:
    every = {"grads": (ring(8), ALL, GIB), "weights": (ring(8), ALL, GIB)}
    with pytest.raises(
        SimulationStalledError, match=r'"grads": 7 of 8 .* missing rank 5, which waits in "weights"'
    ) as stall:
        STAR.in_turns_s(every, {5: ["weights", "grads"], 2: ["grads", "weights"]})
    assert stall.value.exit_code == 4


def test_a_rank_that_never_joins_is_named_with_the_time() -> None:
    every = {"A": (ring(8), ALL, GIB), "B": (ring(8), ALL, GIB)}
    with pytest.raises(SimulationStalledError, match=r"at 0\.0376\d* s(.|\n)*missing rank 6, which calls nothing more"):
        STAR.in_turns_s(every, {6: ["A"]})


def test_strangers_are_refused() -> None:
    with pytest.raises(ValueError, match='calls "A" and is no member of it'):
        STAR.in_turns_s({"A": (ring(4), np.arange(4), GIB)}, {6: ["A"]})


@given(st.lists(st.tuples(st.integers(1, 7), st.integers(1, 6), st.integers(0, 10**8)), min_size=1, max_size=4))
def test_one_after_the_other_adds_up(calls: list[tuple[int, int, int]]) -> None:
    # Ends are the running sums of the times alone, whatever was skipped as repetition.
    every = {str(i): (shifts(8, shift, steps=steps), ALL, float(size)) for i, (shift, steps, size) in enumerate(calls)}
    alone = [STAR.time_s(program, size) for program, _, size in every.values()]
    ends = STAR.in_turns_s(every, {0: list(every)})
    assert list(ends.values()) == pytest.approx(np.cumsum(alone).tolist(), abs=1e-10)
