"""Ranks that call collectives in their own order: who begins when, and what a stall says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.engine.turns import Turns
from trnsim.errors import SimulationStalledError

BOTH = {"A": [0, 1], "B": [0, 1]}


def played(turns: Turns) -> list[str]:
    """Let collectives end in the order in which they begin."""
    begun, flying = [], turns.begin()
    while flying:
        begun.append(name := flying.pop(0))
        flying += turns.after(name)
    return begun


def test_ranks_without_an_order_call_everything_at_once() -> None:
    turns = Turns({"A": range(8), "B": range(4)}, {})
    assert turns.begin() == ["A", "B"]
    assert turns.over


def test_a_collective_begins_with_its_last_member() -> None:
    # Rank 0 calls A, then C; rank 1 calls B, then C: C begins when both A and B have ended, and rank 2 waits in it.
    turns = Turns({"A": [0], "B": [1], "C": [0, 1, 2]}, {0: ["A", "C"], 1: ["B", "C"], 2: ["C"]})
    assert turns.begin() == ["A", "B"]
    assert turns.after("B") == []
    assert turns.after("A") == ["C"]
    assert turns.over


def test_two_ranks_that_call_in_opposite_order_stall() -> None:
    # 0 waits in A for 1, 1 waits in B for 0: nothing can begin.
    turns = Turns(BOTH, {0: ["A", "B"], 1: ["B", "A"]})
    assert turns.begin() == []
    error = turns.stalled(0.25)
    assert isinstance(error, SimulationStalledError)
    assert str(error) == (
        "SimulationStalledError at 0.25 s: 2 collectives wait and nothing is left to happen\n"
        '  "A": 1 of 2 ranks joined, missing rank 1, which waits in "B"\n'
        '  "B": 1 of 2 ranks joined, missing rank 0, which waits in "A"'
    )


def test_a_rank_that_never_joins_is_named_after_the_rest_is_done() -> None:
    # Rank 1 calls A only; everybody else goes on to B.
    turns = Turns({"A": range(8), "B": range(8)}, {1: ["A"]})
    assert played(turns) == ["A"]
    assert not turns.over
    assert '"B": 7 of 8 ranks joined, missing rank 1, which calls nothing more' in str(turns.stalled(1.0))


def test_a_stall_names_few_of_many() -> None:
    turns = Turns({"A": range(6)}, {rank: [] for rank in range(5)})
    assert turns.begin() == []
    assert "1 collective waits" in str(turns.stalled(0.0))
    assert "1 of 6 ranks joined, missing rank 0, which calls nothing more, rank 1" in str(turns.stalled(0.0))
    assert str(turns.stalled(0.0)).endswith("rank 2, which calls nothing more, ...")


@pytest.mark.parametrize(("order", "words"), [(["A", "A"], "twice"), (["C"], "no member"), (["D"], "no member")])
def test_orders_that_make_no_sense_are_refused(order: list[str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Turns({"A": [0, 1], "C": [1]}, {0: order})


@given(st.permutations("ABCDE"), st.data())
def test_one_common_order_never_stalls(common: list[str], data: st.DataObject) -> None:
    # Law: if every rank's order is a part of one common order, everything begins (the first that has not begun is
    # called by all of its members); each begins once.
    members = {name: data.draw(st.lists(st.integers(0, 4), min_size=1, unique=True), label=name) for name in common}
    orders = {rank: [name for name in common if rank in members[name]] for rank in range(5)}
    turns = Turns(members, orders)
    assert sorted(played(turns)) == sorted(common)
    assert turns.over
