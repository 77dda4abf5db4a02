"""Facts of networks: formulas against a search over all cuts, and what is only a bound says so."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from machines import laws
from msgspec.structs import replace

from trnsim.hardware import load_chip, load_server
from trnsim.topology import cluster_topology, load_fabric
from trnsim.topology.bisections import torus_bisection
from trnsim.topology.cluster_network import cluster_network
from trnsim.topology.machines import machine
from trnsim.topology.memory import with_chip_memory
from trnsim.topology.network_facts import Diameter, bisection, diameter, network_facts
from trnsim.topology.network_files import load_network, network_names

if TYPE_CHECKING:
    from trnsim.topology.network import Network


def built(spec: str, endpoints: int | None = None) -> Network:
    return machine(spec, endpoints=endpoints, bandwidth_bytes_per_s=1e9, latency_s=0)


def trunked(server: str, count: int, fabric: str = "ultracluster") -> Network:
    return cluster_network(cluster_topology(load_server(server), count, load_fabric(fabric)))


@laws
@given(st.sampled_from(["torus", "mesh"]), st.lists(st.integers(1, 6), min_size=1, max_size=3))
def test_formulas_of_grids_are_the_narrowest_cut(name: str, dims: list[int]) -> None:
    # least capacity over all ways to halve the chips
    assume(1 < math.prod(dims) <= 16)
    network = built(f"{name}:{'x'.join(map(str, dims))}")
    assert network.bisection is not None
    searched = bisection(replace(network, bisection=None))
    assert searched is not None
    assert searched.is_exact
    assert network.bisection.bytes_per_s >= searched.bytes_per_s
    if network.bisection.is_exact:
        assert network.bisection.bytes_per_s == searched.bytes_per_s


@pytest.mark.parametrize(
    ("spec", "endpoints", "links"),
    [
        ("ring", 8, 2),
        ("ring", 7, 2),
        ("star", 7, 3),  # floor(N / 2)
        ("fully-connected", 7, 12),  # floor(N / 2) ceil(N / 2)
        ("torus:4x4x4", None, 32),  # 2 N / 4
        ("torus:8x16x16", None, 256),  # 2 N / 16
        ("mesh:8x8", None, 8),
        ("hypercube:6", None, 32),  # N / 2
        ("fat-tree:16x16", None, 128),  # half the hosts
        ("fat-tree:32x64:2", None, 512),  # and half of that over 2:1
    ],
)
def test_bisection_in_links(spec: str, endpoints: int | None, links: int) -> None:
    found = bisection(built(spec, endpoints))
    assert found is not None
    assert (found.bytes_per_s / 1e9, found.is_exact) == (links, True)


@pytest.mark.parametrize(
    "spec", ["fat-tree:2x4", "fat-tree:3x4:2", "fat-tree:4x3:3", "fat-tree:5x3:1.5", "fat-tree:1x8"]
)
def test_the_fat_tree_formula_is_the_narrowest_cut(spec: str) -> None:
    network = built(spec)
    searched = bisection(replace(network, bisection=None))
    assert searched is not None
    assert searched.is_exact
    assert network.bisection is not None
    assert network.bisection.bytes_per_s == pytest.approx(searched.bytes_per_s)


def test_a_torus_of_unlike_axes_is_cut_where_that_costs_least() -> None:
    # 4 x 4 x 4: 32 links on any axis; the third carries half as much
    found = torus_bisection((4, 4, 4), (2.0, 2.0, 1.0))
    assert (found.bytes_per_s, found.cut, found.is_exact) == (32.0, "across axis 3", True)


@pytest.mark.parametrize(
    ("spec", "endpoints", "links"),
    [
        ("ring", 7, 3),
        ("star", 7, 2),
        ("fully-connected", 7, 1),
        ("torus:8x16x16", None, 20),
        ("mesh:8x8", None, 14),
        ("hypercube:6", None, 6),
        ("fat-tree:16x16", None, 4),
        ("ring", 1, 0),
    ],
)
def test_diameter(spec: str, endpoints: int | None, links: int) -> None:
    found = diameter(built(spec, endpoints))
    assert (found.links, found.is_exact) == (links, True)


@pytest.mark.parametrize("chips", [2, 50, 194, 512])
def test_of_up_to_512_chips_all_pairs_are_tried(chips: int) -> None:
    # A line of N chips has N - 1 cables
    assert diameter(built(f"mesh:{chips}")) == Diameter(chips - 1, 0.0, is_exact=True)


def test_the_highest_latency_may_be_on_a_shorter_route() -> None:
    # Four links of 500 ns over the spines; two NICs of 5 us over a rail
    assert diameter(load_network("clos-two-tier")).latency_s == pytest.approx(4 * 500e-9)
    assert diameter(load_network("four-nics")).latency_s == pytest.approx(2 * 5e-6)


def test_large_machines_are_measured_in_batches() -> None:
    # Half of each axis; 32,768 chips are two batches
    found = diameter(built("torus:16x32x64"))
    assert (found.links, found.is_exact) == (8 + 16 + 32, True)


@pytest.mark.parametrize("server", ["trn2.48xlarge", "trn3-gen2-ultraserver"])
def test_memories_of_chips_change_no_fact_but_the_number_of_links(server: str) -> None:
    plain = cluster_network(cluster_topology(load_server(server), 1, None))
    facts, more = network_facts(plain), network_facts(with_chip_memory(plain, load_chip("trainium3")))
    assert {name for name, value in more.items() if facts.get(name, value) != value} == {"links"}


@pytest.mark.parametrize(
    ("name", "gigabytes", "is_exact"),
    [
        ("dgx-h100", 4 * 369, True),  # 0.82 of 450
        ("unequal-pods", 5 * 50, True),  # the trunk of 200 GB/s and one port, or five ports
        ("dgx-1v", 6 * 25, True),  # the four rungs between the quads: 2 + 2 + 1 + 1 cables
        ("clos-three-tier", 8 * 50, False),
        ("nvl72", 36 * 738, False),
    ],
)
def test_bisection_of_files(name: str, gigabytes: float, is_exact: bool) -> None:
    found = bisection(load_network(name))
    assert found is not None
    assert (found.bytes_per_s / 1e9, found.is_exact) == (gigabytes, is_exact)


@pytest.mark.parametrize("fabric", ["ultracluster", "ultracluster-2to1"])
@pytest.mark.parametrize(("server", "count"), [("trn2.48xlarge", 2), ("trn2.48xlarge", 8), ("trn2.48xlarge", 30)])
def test_servers_are_parted_at_the_nics_or_trunks(server: str, count: int, fabric: str) -> None:
    # the arithmetic by tiers is the least cut (greatest flow) between the two halves of the graph
    network = trunked(server, count, fabric)
    searched = bisection(replace(network, bisection=None))
    assert searched is not None
    assert network.bisection is not None
    assert network.bisection.bytes_per_s == pytest.approx(searched.bytes_per_s)
    assert not network.bisection.is_exact


def test_a_slowed_link_loses_the_formula() -> None:
    # 8 chips on a star, 4 ports of each half; one up port at a quarter can lie in the cut
    star = built("star", 8)
    found = bisection(star.degraded(star.uplinks[:1], 0.25))
    assert found is not None
    assert found.bytes_per_s == 3.25e9


def test_facts_say_what_is_a_bound() -> None:
    facts = network_facts(trunked("trn3-gen2-ultraserver", 64))
    assert facts["endpoints"] == 9216
    assert str(facts["links on the longest route"]).startswith("at least 6")
    assert str(facts["bisection bandwidth, one direction"]).startswith("at most")


@pytest.mark.parametrize("name", network_names())
def test_facts_of_every_file(name: str) -> None:
    facts = network_facts(load_network(name))
    assert list(facts)[:2] == ["endpoints", "links"]
    assert "bisection bandwidth, one direction" in facts
