"""Chips on a torus: who is beside whom, and the way from one to another."""

from __future__ import annotations

from collections import Counter

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from machines import laws, torus_server

from trnsim.hardware import load_server
from trnsim.topology import server_topology

AWS_NEIGHBOURS = {  # AWS Neuron SDK, neuron-runtime/explore/runtime-performance-tips.rst: trn1.32xlarge, trn2.48xlarge
    0: {12, 3, 4, 1},
    1: {13, 0, 5, 2},
    2: {14, 1, 6, 3},
    3: {15, 2, 7, 0},
    4: {0, 7, 8, 5},
    5: {1, 4, 9, 6},
    6: {2, 5, 10, 7},
    7: {3, 6, 11, 4},
    8: {4, 11, 12, 9},
    9: {5, 8, 13, 10},
    10: {6, 9, 14, 11},
    11: {7, 10, 15, 8},
    12: {8, 15, 0, 13},
    13: {9, 12, 1, 14},
    14: {10, 13, 2, 15},
    15: {11, 14, 3, 12},
}

torus_dims = st.lists(st.integers(1, 4), min_size=1, max_size=3)


@pytest.mark.parametrize("name", ["trn1.32xlarge", "trn1n.32xlarge", "trn2.48xlarge"])
def test_an_instance_has_the_neighbours_that_aws_prints(name: str) -> None:
    graph = server_topology(load_server(name)).graph
    found = {chip: {int(node.split()[1]) for node in graph[f"chip {chip}"]} for chip in range(16)}
    assert found == AWS_NEIGHBOURS


def test_a_4_x_4_torus_is_the_hypercube_of_the_older_pages() -> None:
    # a ring of four is the square Q2, and the product of two squares is the hypercube Q4
    graph = server_topology(load_server("trn1.32xlarge")).graph
    assert nx.is_isomorphic(graph.to_undirected(), nx.hypercube_graph(4))


def test_an_ultraserver_of_trn2_has_64_chips_and_192_cables() -> None:
    # 64 chips x 6 neighbours / 2 ends = 192 cables = 384 links; 2/3 of them on the axes x and y
    topology = server_topology(load_server("trn2-ultraserver"))
    assert topology.chips == topology.graph.number_of_nodes() == 64
    assert topology.link_counts() == {"neuronlink-xy": 256, "neuronlink-z": 128}
    assert set(dict(topology.graph.out_degree()).values()) == {6}
    assert topology.diameter == 2 + 2 + 2


def test_the_third_axis_joins_the_same_place_of_the_four_instances() -> None:
    graph = server_topology(load_server("trn2-ultraserver")).graph
    z = {(source, target) for source, target, edge in graph.edges(data=True) if edge["kind"] == "neuronlink-z"}
    assert z == {(f"chip {c}", f"chip {(c + step) % 64}") for c in range(64) for step in (16, -16)}


def test_links_carry_the_datasheet_times_the_achieved_share() -> None:
    # SemiAnalysis 2024-12-03: 128 GB/s on x and y, 64 GB/s on z, per direction; 0.68 of it is achieved
    topology = server_topology(load_server("trn2-ultraserver"))
    assert [link.bandwidth_bytes_per_s / 1e9 for link in topology.route(0, 17)] == pytest.approx(
        [128 * 0.68, 64 * 0.68]
    )
    assert [link.latency_s for link in topology.route(0, 17)] == [1.5e-6, 1.5e-6]


def test_a_tie_goes_the_positive_way_and_the_first_axis_first() -> None:
    topology = server_topology(load_server("trn2.48xlarge"))
    # from (0, 0) to (2, 3): x is a tie of two steps either way, y is one step back
    assert [link.target for link in topology.route(0, 14)] == ["chip 1", "chip 2", "chip 14"]
    assert [link.target for link in topology.route(14, 0)] == ["chip 15", "chip 12", "chip 0"]


@laws
@given(torus_dims)
def test_cables_of_any_torus(dims: list[int]) -> None:
    # an axis of n > 2 chips is made of rings of n cables, one of 2 chips of single cables, one of 1 chip of none
    topology = server_topology(torus_server(dims))
    per_ring = {1: 0, 2: 1}
    expected = {
        f"axis-{axis}": 2 * topology.chips // size * per_ring.get(size, size)
        for axis, size in enumerate(dims)
        if size > 1
    }
    assert topology.link_counts() == expected
    assert topology.diameter == sum(size // 2 for size in dims)


@laws
@given(torus_dims, st.data())
def test_a_route_is_a_shortest_one(dims: list[int], data: st.DataObject) -> None:
    topology = server_topology(torus_server(dims))
    a, b = (data.draw(st.integers(0, topology.chips - 1)) for _ in "ab")
    route = topology.route(a, b)
    nodes = [f"chip {a}", *(link.target for link in route)]
    assert nodes[-1] == f"chip {b}"
    assert [link.source for link in route] == nodes[:-1]
    assert len(route) == nx.shortest_path_length(topology.graph, f"chip {a}", f"chip {b}")
    kinds = [link.kind for link in route]
    assert kinds == sorted(kinds)  # axis after axis


@laws
@given(torus_dims, st.data())
def test_moving_both_ends_of_a_route_moves_the_route(dims: list[int], data: st.DataObject) -> None:
    # a torus looks the same from every chip: kinds and directions depend only on the difference of the coordinates
    topology = server_topology(torus_server(dims))
    place = st.tuples(*(st.integers(0, size - 1) for size in dims))
    a, b, shift = (data.draw(place) for _ in "abs")

    def number(coordinates: tuple[int, ...]) -> int:
        chip = 0
        for coordinate, size in reversed(list(zip(coordinates, dims, strict=True))):
            chip = chip * size + coordinate % size
        return chip

    def moved(coordinates: tuple[int, ...]) -> int:
        return number(tuple(c + s for c, s in zip(coordinates, shift, strict=True)))

    route, other = topology.route(number(a), number(b)), topology.route(moved(a), moved(b))
    assert [link.kind for link in route] == [link.kind for link in other]


def test_uniform_traffic_in_dimension_order_loads_each_direction_as_theory_says() -> None:
    # ring of 4, all pairs: offsets +1, +2 (a tie, so positive) and -1: each positive link carries 1 + 2 = 3 of the
    # flows of its ring, each negative link 1; on the 4 x 4 torus every ring is used by 4 chips' worth of other offsets
    topology = server_topology(load_server("trn2.48xlarge"))
    loads = Counter((link.source, link.target) for a in range(16) for b in range(16) for link in topology.route(a, b))
    assert Counter(loads.values()) == {12: 32, 4: 32}


def test_a_route_is_found_once_and_a_stranger_refused() -> None:
    topology = server_topology(load_server("trn2.48xlarge"))
    assert topology.route(3, 9) is topology.route(3, 9)
    assert topology.route(5, 5) == ()
    with pytest.raises(ValueError, match="chips 0 to 15, not 0 and 16"):
        topology.route(0, 16)
