"""Names, arrangements and tours."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from trnsim.collectives import (
    Arrangement,
    algorithm,
    algorithm_names,
    busbw_factor,
    disjoint_cycles,
    op_names,
    program,
)

FITS_ALL = Arrangement(ranks=32, inner=32, per_chip=2, shape=(4, 4), reducing_switch=True)
"""A group that lacks nothing."""


@pytest.mark.parametrize(
    "spelling", ["recursive-halving-doubling", "Recursive_Halving_Doubling", "RECURSIVEHALVINGDOUBLING", "RHD", "r-d-h"]
)
def test_names_are_read_without_regard_to_case_and_dashes(spelling: str) -> None:
    plan = program("All_Reduce", spelling, Arrangement(4))
    assert (plan.op, plan.algorithm) == ("all-reduce", "recursive-halving-doubling")


def test_an_unknown_name_gets_the_list() -> None:
    with pytest.raises(ValueError, match=r'unknown algorithm of all-reduce "rign"; did you mean ring\?') as refusal:
        program("all-reduce", "rign", Arrangement(4))
    assert all(name in str(refusal.value) for name in algorithm_names("all-reduce"))
    with pytest.raises(ValueError, match=r'unknown collective "all-shuffle".*reduce-scatter'):
        program("all-shuffle", "ring", Arrangement(4))


def test_an_algorithm_that_does_not_know_the_operation_is_refused_with_those_that_do() -> None:
    with pytest.raises(ValueError, match=r'unknown algorithm of send-recv "ring"; known: direct'):
        program("send-recv", "ring", Arrangement(4))


def test_every_algorithm_is_listed_under_its_operations() -> None:
    assert set(algorithm_names()) == {name for op in op_names() for name in algorithm_names(op)}
    for op in op_names():
        assert algorithm_names(op) == algorithm_names(op, FITS_ALL)
        for name in algorithm_names(op):
            assert program(op, name, FITS_ALL).op == op


@pytest.mark.parametrize(
    ("op", "name", "lacking"),
    [
        ("all-reduce", "torus", "the shape of a torus that holds the group and nothing else"),
        ("all-gather", "kangaring", "an even number of members on each chip"),
        ("barrier", "in-network", "a switch that joins all members and reduces"),
        ("all-reduce", "hierarchical:torus/ring", "the shape of a torus .* (for torus)"),
    ],
)
def test_what_a_group_lacks_is_said(op: str, name: str, lacking: str) -> None:
    with pytest.raises(ValueError, match=rf"{name} needs {lacking}".replace("(", r"\(").replace(")", r"\)")):
        program(op, name, Arrangement(12, inner=3, per_chip=3))
    assert name not in algorithm_names(op, Arrangement(12, inner=3, per_chip=3))
    assert program(op, name, Arrangement(1)).phases == ()


@pytest.mark.parametrize(("op", "name"), [("all-to-all", "pairwise"), ("broadcast", "chain")])
def test_programs_of_a_phase_per_member_are_for_small_groups(op: str, name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} needs a group of at most 16,384 members"):
        program(op, name, Arrangement(16_385))


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("Hierarchical:RING/rhd", "hierarchical:ring/recursive-halving-doubling"),
        ("hierarchical:server=mesh/fabric=ring", "hierarchical:direct/ring"),
        ("hierarchical:direct/ring/rhd/ring", "hierarchical:direct/ring/recursive-halving-doubling/ring"),
        ("hierarchical:Chip=direct/fabric=ring", "hierarchical:chip=direct/fabric=ring"),
    ],
)
def test_the_algorithms_of_levels_are_named_after_a_colon(written: str, read: str) -> None:
    assert algorithm("all-reduce", written).name == read
    assert algorithm("all-reduce", read).name == read


def test_the_hierarchical_algorithm_is_by_default_rings_and_halving() -> None:
    known = Arrangement(24, inner=4)
    for op in ("all-reduce", "all-gather", "reduce-scatter"):
        assert program(op, "hierarchical", known).phases == program(op, "hierarchical:ring/rhd", known).phases
    plain, named = (program("all-to-all", name, known) for name in ("hierarchical", "hierarchical:direct/direct"))
    assert plain.phases == named.phases


@pytest.mark.parametrize(
    ("op", "name", "problem"),
    [
        ("all-reduce", "hierarchical:ring", "does not name the levels"),
        ("all-reduce", "hierarchical:ring/ring/ring", "does not name the levels"),
        ("all-reduce", "hierarchical:fabric=ring/server=ring", "does not name the levels"),
        ("all-reduce", "hierarchical:chip=ring/server=ring", "does not name the levels"),
        ("all-reduce", "hierarchical:sever=ring/fabric=ring", 'unknown level .* "sever"; did you mean server'),
        ("all-reduce", "hierarchical:ring/rign", 'unknown algorithm "rign"; did you mean ring'),
        ("all-reduce", "hierarchical:ring/hierarchical", "cannot be a level of another"),
        ("all-reduce", "hierarchical:ring/pairwise", "have no operation in common"),
        ("all-to-all", "hierarchical:ring/ring", "knows all-gather, all-reduce, reduce-scatter, not all-to-all"),
        ("all-reduce", "ring:direct", 'ring is not made of other algorithms, so ":direct" cannot follow it'),
    ],
)
def test_levels_that_make_no_sense_are_refused(op: str, name: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        algorithm(op, name)


@pytest.mark.parametrize(
    ("known", "problem"),
    [
        ({"per_chip": 5}, "cannot be arranged 5 to a chip"),
        ({"inner": 6, "per_chip": 4}, "6 to a server, cannot be arranged 4 to a chip"),
        ({"inner": 6, "rack": 8}, "cannot be arranged 8 to a rack"),
        ({"rack": 5}, "cannot be arranged 5 to a rack"),
        ({"inner": 12, "shape": (4, 4)}, "a 4x4 torus of chips with 1 members each has not 12 members"),
        ({"pieces": 0}, "cannot be cut in 0 pieces"),
        ({"sizes": ((1,), (1,))}, "24 rows of 24 numbers"),
        ({"sizes": ((-1,) * 24,) * 24}, "at least 0"),
        ({"sizes": ((0,) * 24,) * 24}, "not all of them 0"),
    ],
)
def test_what_is_known_of_a_group_has_to_fit(known: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Arrangement(24, **known)


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
