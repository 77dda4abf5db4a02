"""Names, arrangements and tours."""

from __future__ import annotations

from collections import Counter

import pytest

from trnsim.collectives import Arrangement, algorithm_names, busbw_factor, disjoint_cycles, op_names, program


@pytest.mark.parametrize(
    "spelling", ["recursive-halving-doubling", "Recursive_Halving_Doubling", "RECURSIVEHALVINGDOUBLING"]
)
def test_names_are_read_without_regard_to_case_and_dashes(spelling: str) -> None:
    plan = program("All_Reduce", spelling, Arrangement(4))
    assert (plan.op, plan.algorithm) == ("all-reduce", "recursive-halving-doubling")


def test_an_unknown_name_gets_the_list() -> None:
    with pytest.raises(ValueError, match=r'unknown algorithm of all-reduce "rign"; did you mean ring\?') as refusal:
        program("all-reduce", "rign", Arrangement(4))
    assert all(name in str(refusal.value) for name in algorithm_names())
    with pytest.raises(ValueError, match=r'unknown collective "all-shuffle".*reduce-scatter'):
        program("all-shuffle", "ring", Arrangement(4))


def test_an_algorithm_that_does_not_know_the_operation_is_refused_with_those_that_do() -> None:
    with pytest.raises(ValueError, match=r'unknown algorithm of send-recv "ring"; known: direct'):
        program("send-recv", "ring", Arrangement(4))


def test_every_algorithm_is_listed_under_its_operations() -> None:
    for op in op_names():
        for algorithm in algorithm_names(op):
            assert program(op, algorithm, Arrangement(6)).op == op


@pytest.mark.parametrize(("ranks", "inner"), [(0, 1), (6, 4), (6, 0), (-3, 1)])
def test_an_arrangement_has_to_divide(ranks: int, inner: int) -> None:
    with pytest.raises(ValueError, match="cannot be arranged"):
        Arrangement(ranks, inner)


def test_a_tour_has_to_visit_everyone_once() -> None:
    with pytest.raises(ValueError, match="each of the 4 members"):
        Arrangement(8, 4, ((0, 1, 2, 2),))


@pytest.mark.parametrize("side", range(3, 9))
def test_two_cycles_use_every_cable_of_a_square_torus_once(side: int) -> None:
    # a k x k torus has 2 k^2 cables; two Hamiltonian cycles that share none use k^2 each
    cables: Counter[frozenset[int]] = Counter()
    for cycle in disjoint_cycles(side):
        assert sorted(cycle) == list(range(side**2))
        cables.update(frozenset(ends) for ends in zip(cycle, (*cycle[1:], cycle[0]), strict=True))
    neighbours = {
        frozenset((x + side * y, other))
        for x in range(side)
        for y in range(side)
        for other in ((x + 1) % side + side * y, x + side * ((y + 1) % side))
    }
    assert cables == Counter(neighbours)


def test_two_chips_on_an_axis_share_one_cable() -> None:
    with pytest.raises(ValueError, match="side 2"):
        disjoint_cycles(2)


def test_bus_bandwidth_follows_the_convention_of_nccl_tests() -> None:
    assert busbw_factor("all-reduce", 32) == 2 * 31 / 32
    assert {busbw_factor(op, 4) for op in ("all-gather", "reduce-scatter", "all-to-all")} == {0.75}
    assert {busbw_factor(op, 4) for op in ("broadcast", "send-recv")} == {1.0}
    with pytest.raises(ValueError, match="at least one member"):
        busbw_factor("all-reduce", 0)
