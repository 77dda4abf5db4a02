"""What symmetry saves changes nothing: every price equals the one that adds up every transfer alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from fabrics import OPERATIONS, Definition, make_fabric, possible
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from machines import (
    catalog_server,
    fabric_spec,
    fabric_specs,
    servers,
    single_chip_server,
    switched_server,
    torus_server,
)

from trnsim.collectives import algorithm_names
from trnsim.parallel import Group

if TYPE_CHECKING:
    from trnsim.fabric import ClosedFormFabric

SIZE = 1e9

SMALL = [torus_server((2, 2)), torus_server((3,)), torus_server((3, 2)), switched_server(2, 2, 2), single_chip_server()]
"""Servers of which many fit below small switches."""

machines = st.one_of(
    st.tuples(st.sampled_from(SMALL), st.sampled_from([16, 12, 9, 8, 5, 2])),
    st.tuples(st.sampled_from([catalog_server("trn1.32xlarge"), torus_server((4, 2, 2))]), st.sampled_from([1, 4])),
    st.tuples(servers, st.just(1)),
)


@st.composite
def groups(draw: st.DrawFn, per_server: int, servers: int) -> Group:
    """Draw an arithmetic progression: servers filled alike, or the first filled late, or one member in each, or any."""
    first_server = draw(st.sampled_from(range(servers)))
    left = servers - first_server
    start = first_server * per_server
    kind = draw(st.sampled_from(["filled", "late", "single", "any"]))
    if kind == "single":
        apart = draw(st.sampled_from([1, 2, 3]))
        return Group(start + draw(st.integers(0, per_server - 1)), apart * per_server, -(-left // apart))
    if kind in {"filled", "late"}:
        stride = draw(st.sampled_from([stride for stride in range(1, per_server + 1) if per_server % stride == 0]))
        members = per_server // stride
        late = draw(st.integers(0, members - 1)) if kind == "late" and left > 1 else 0
        first = start + draw(st.integers(0, stride - 1)) + late * stride
        return Group(first, stride, members * (left - (1 if late else 0)))
    stride = draw(st.integers(1, 2 * per_server))
    longest = (per_server * left - 1) // stride + 1
    return Group(start, stride, draw(st.integers(1, longest)))


@st.composite
def placed_groups(draw: st.DrawFn) -> tuple[ClosedFormFabric, Group]:
    """Draw a machine of one or several servers, and a group on it."""
    server, count = draw(machines)
    fabric = make_fabric(server, count, draw(st.integers(1, 4)), draw(fabric_specs))
    group = draw(groups(fabric.placement.ranks_per_server, count))
    assume(1 < group.size <= 64)
    return fabric, group


def check(fabric: ClosedFormFabric, group: Group, op: str, algorithm: str) -> None:
    # time = sum over steps of (longest latency + most loaded link), latencies along a ring where rings are channels; a byte
    # counts on each link it crosses
    definition = Definition(fabric, group)
    expected = definition.time_s(op, algorithm, SIZE)
    price = fabric.price(op, algorithm, group, SIZE)
    assert price.time_s == pytest.approx(expected, rel=1e-12)
    assert price.bytes_by_kind == pytest.approx(dict(definition.bytes_by_kind), rel=1e-12)


@settings(deadline=None, max_examples=120)
@given(placed_groups(), st.sampled_from(OPERATIONS))
def test_prices_equal_the_definition(placed: tuple[ClosedFormFabric, Group], operation: tuple[str, str]) -> None:
    op, algorithm = operation
    assume(algorithm in possible(*placed, op))
    check(*placed, *operation)


@pytest.mark.parametrize("algorithm", algorithm_names("all-reduce"))
@pytest.mark.parametrize(
    ("server", "servers", "ranks_per_chip", "group"),
    [
        pytest.param("trn1.32xlarge", 1, 1, Group(0, 1, 16), id="square torus, two cycles"),
        pytest.param("trn1.32xlarge", 1, 2, Group(0, 1, 32), id="square torus, two cycles, both cores of a chip"),
        pytest.param("trn1.32xlarge", 1, 2, Group(1, 2, 16), id="square torus, two cycles, one core of a chip"),
        pytest.param("trn1.32xlarge", 3, 1, Group(0, 1, 48), id="square torus in each server"),
        pytest.param("trn2-ultraserver", 1, 1, Group(32, 1, 16), id="a plane of a 3-D torus"),
        pytest.param("trn2-ultraserver", 1, 1, Group(8, 1, 16), id="two halves of planes"),
        pytest.param("trn1.32xlarge", 4, 2, Group(0, 3, 42), id="all strides out of step"),
        pytest.param("trn1.32xlarge", 9, 1, Group(0, 24, 6), id="longer than a server, in step after three"),
        pytest.param("trn1.32xlarge", 18, 1, Group(5, 18, 16), id="longer than a server, in step after nine"),
        pytest.param("trn1.32xlarge", 18, 1, Group(7, 18, 13), id="longer than a server, never in step"),
        pytest.param("trn1.32xlarge", 12, 1, Group(2, 12, 16), id="shorter than a server, in step after three"),
        pytest.param("trn1.32xlarge", 4, 1, Group(12, 2, 24), id="as many members as fill three servers, begun late"),
    ],
)
def test_chosen_groups_equal_the_definition(
    algorithm: str, server: str, servers: int, ranks_per_chip: int, group: Group
) -> None:
    fabric = make_fabric(catalog_server(server), servers, ranks_per_chip, fabric_spec([20, 20], [3, 1]))
    if algorithm in possible(fabric, group, "all-reduce"):
        check(fabric, group, "all-reduce", algorithm)
    else:
        with pytest.raises(ValueError, match=f"{algorithm} needs"):
            fabric.price("all-reduce", algorithm, group, SIZE)


@pytest.mark.parametrize("group", [Group(0, 1, 96), Group(0, 2, 48), Group(12, 1, 72), Group(2, 3, 32)], ids=str)
def test_halving_across_servers_of_six_repeats_by_windows(group: Group) -> None:
    # circles of 2, 4, 8, ... members and servers of 6 end together only after 6, 12, 24, ... members
    fabric = make_fabric(torus_server((3, 2)), 16, 1, fabric_spec([6, 8, 8, 8], [2, 1, 1, 1]))
    check(fabric, group, "all-reduce", "recursive-halving-doubling")
