"""The tiered fabric: how much it holds, where two chips meet, what a path costs, how many cables there are."""

from __future__ import annotations

import math

import networkx as nx
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from machines import count_links, fabric_spec, fabric_specs, laws, servers, single_chip_server, torus_server

from trnsim.errors import InputError
from trnsim.hardware import Server, load_server
from trnsim.topology import FabricSpec, FabricTopology, load_fabric


@pytest.mark.parametrize(("radix", "tiers"), [(2, 3), (8, 2), (64, 3), (128, 4)])
def test_a_fat_tree_holds_two_times_half_the_radix_to_the_tiers(radix: int, tiers: int) -> None:
    # Al-Fares et al., SIGCOMM 2008: k tiers of radix r without oversubscription hold 2 (r / 2)^k
    spec = fabric_spec([radix] * tiers, [1] * tiers)
    assert [spec.capacity(k) for k in range(1, tiers + 1)] == [2 * (radix // 2) ** k for k in range(1, tiers + 1)]


def test_the_ultracluster_holds_what_is_published() -> None:
    # SemiAnalysis 2025-12-04: 8,192 endpoints in two tiers of 12.8T switches, 524,288 in three
    spec = load_fabric("ultracluster")
    assert [spec.capacity(tiers) for tiers in (2, 3, 4)] == [8_192, 524_288, 33_554_432]
    assert spec.planes.value == 2
    assert [spec.tiers_for(chips) for chips in (128, 129, 8_192, 8_193, 524_289, 33_554_433)] == [1, 2, 2, 3, 4, None]


def test_oversubscription_divides_the_ports() -> None:
    # 128 ports at 3 to 1: 32 up, 96 down; at 2 to 1: 42 up, 84 down and 2 empty; at 2.2 to 1 of 96: exactly 30 and 66
    tiers = fabric_spec([128, 128, 96], [3, 2, 2.2]).tiers
    assert [(tier.down_ports, tier.up_ports) for tier in tiers] == [(96, 32), (84, 42), (66, 30)]


@laws
@given(fabric_specs, st.integers(1, 20_000))
def test_the_fewest_tiers_that_hold_the_chips_are_used(spec: FabricSpec, chips: int) -> None:
    fewest = spec.tiers_for(chips)
    if fewest is None:
        assert chips > spec.capacity(len(spec.tiers))
    else:
        assert spec.capacity(fewest) >= chips
        assert fewest == 1 or spec.capacity(fewest - 1) < chips


@laws
@given(fabric_specs)
def test_a_switch_has_one_cable_to_each_group_below(spec: FabricSpec) -> None:
    # the switches of a group (per plane: the product of the ports up of all tiers below) take one cable from each of
    # the groups below them, so that a group has as many of those as a switch has ports down
    fabric = FabricTopology(spec, single_chip_server(), spec.capacity(4))
    for tier in range(1, 4):
        groups_below = fabric.chips_below(tier) // fabric.chips_below(tier - 1)
        ports = spec.tiers[tier].down_ports if tier < 3 else spec.tiers[tier].radix.value
        assert groups_below == ports
        switches_per_plane = math.prod(level.up_ports for level in spec.tiers[:tier])
        assert fabric.trunk_cables(tier - 1) == spec.planes.value * switches_per_plane
        assert fabric.groups(tier) * groups_below == fabric.groups(tier - 1)


@laws
@given(fabric_specs, servers, st.integers(1, 40), st.data())
def test_where_two_chips_meet(spec: FabricSpec, server: Server, count: int, data: st.DataObject) -> None:
    # walking up from both chips through the graph, they meet in the first common switch group; and of three chips no
    # pair meets above the higher of the two other meetings (an ultrametric)
    assume(spec.tiers_for(server.chips * count) is not None)
    fabric = FabricTopology(spec, server, count)
    a, b, c = (data.draw(st.integers(0, fabric.endpoints - 1)) for _ in "abc")
    parent = {low: high for low, high in fabric.graph.edges if _tier_of(low) + 1 == _tier_of(high)}

    def groups_above(endpoint: int) -> list[str]:
        groups = [f"tier0 {endpoint // fabric.chips_below(0)}"]
        while groups[-1] in parent:
            groups.append(parent[groups[-1]])
        return groups

    common = [one == other for one, other in zip(groups_above(a), groups_above(b), strict=True)]
    assert fabric.meeting_tier(a, b) == fabric.meeting_tier(b, a) == common.index(True)
    assert fabric.meeting_tier(a, c) <= max(fabric.meeting_tier(a, b), fabric.meeting_tier(b, c))
    assert fabric.meeting_tier(a, a) == 0


def _tier_of(node: str) -> int:
    return -1 if node.startswith("server") else int(node.split(maxsplit=1)[0].removeprefix("tier"))


@laws
@given(fabric_specs, st.integers(1, 60), st.data())
def test_the_latency_of_a_path_is_the_sum_over_its_links(spec: FabricSpec, count: int, data: st.DataObject) -> None:
    # one chip per server: the shortest path of the graph is EFA's 15 us and what each tier on the way adds
    assume(spec.tiers_for(count) is not None)
    fabric = FabricTopology(spec, single_chip_server(), count)
    a, b = (data.draw(st.integers(0, count - 1)) for _ in "ab")
    assume(a != b)
    tier = fabric.meeting_tier(a, b)
    path = nx.shortest_path(fabric.graph, f"server {a}", f"server {b}", weight="latency_s")
    links = [fabric.graph.edges[ends] for ends in nx.utils.pairwise(path)]
    assert fabric.path_latency_s(tier) == pytest.approx(15e-6 + sum(level * 1e-6 for level in range(tier + 1)))
    assert sum(link["latency_s"] for link in links) == pytest.approx(fabric.path_latency_s(tier))
    assert tuple(link["kind"] for link in links) == fabric.path_kinds(tier)


@laws
@given(fabric_specs, servers, st.integers(1, 40))
def test_link_counts_are_those_of_the_graph(spec: FabricSpec, server: Server, count: int) -> None:
    assume(spec.tiers_for(server.chips * count) is not None)
    fabric = FabricTopology(spec, server, count)
    assert fabric.link_counts() == count_links(fabric.graph)
    assert fabric.link_counts()["efa"] == 2 * server.chips * count
    assert nx.is_strongly_connected(fabric.graph)


def test_two_to_one_halves_the_share_beyond_the_first_switch() -> None:
    # 200 Gbit/s x 0.68 = 17 GB/s under one switch; 42 ports up for 84 chips leave half
    fabric = FabricTopology(load_fabric("ultracluster-2to1"), load_server("trn3-gen2-ultraserver"), 64)
    assert fabric.tiers_used == 2
    assert fabric.chips_below(0) == 84
    assert fabric.share_bytes_per_s(0) == pytest.approx(25e9 * 0.68)
    assert fabric.share_bytes_per_s(1) == pytest.approx(25e9 * 0.68 / 2)
    assert fabric.trunk_bandwidth_bytes_per_s(0) == pytest.approx(84 * 25e9 * 0.68 / 2)


def test_shares_multiply_along_the_way_up() -> None:
    # 2 to 1, then 3 to 1: a sixth is left in the third tier. Radix 12: 8 down + 4 up, then 9 down + 3 up
    fabric = FabricTopology(fabric_spec([12, 12, 12], [2, 3, 1]), single_chip_server(), 8 * 9 * 12)
    efa = single_chip_server().scale_out
    assert efa is not None
    shares = [fabric.share_bytes_per_s(tier) / efa.effective_bytes_per_s for tier in range(3)]
    assert shares == pytest.approx([1, 1 / 2, 1 / 6])


@laws
@given(fabric_specs)
def test_the_share_is_the_maximum_flow_out_of_a_switch_group(spec: FabricSpec) -> None:
    # all chips below one group of a tier send to all others: no routing gets more out than chips x share
    chips = spec.capacity(2)
    fabric = FabricTopology(spec, single_chip_server(), chips)
    graph: nx.DiGraph[str] = nx.DiGraph()
    for a, b, edge in fabric.graph.edges(data=True):
        graph.add_edge(a, b, capacity=edge["count"] * edge["bandwidth_bytes_per_s"])
    inside = fabric.chips_below(0)
    graph.add_edges_from(("source", f"server {chip}") for chip in range(inside))
    graph.add_edges_from((f"server {chip}", "sink") for chip in range(inside, chips))
    assert nx.maximum_flow_value(graph, "source", "sink") == pytest.approx(inside * fabric.share_bytes_per_s(1))


def test_a_million_chips_are_described_without_a_chip_object() -> None:
    # 6,945 x 144 = 1,000,080 chips; 64 a top-of-rack group, 64 of these a leaf group, 64 of these a spine group.
    # Servers overlap one switch group each and one more per boundary inside them: boundaries are at 64 k, those
    # between two servers at multiples of lcm(64, 144) = 576
    fabric = FabricTopology(load_fabric("ultracluster"), load_server("trn3-gen2-ultraserver"), 6_945)
    chips = 6_945 * 144
    tors, leaves, spines = (math.ceil(chips / 64**tier) for tier in (1, 2, 3))
    assert (tors, leaves, spines) == (15_627, 245, 4)
    assert fabric.graph.number_of_nodes() == 6_945 + tors + leaves + spines + 1
    attached = 6_945 + (tors - 1) - (chips - 1) // 576
    assert fabric.graph.number_of_edges() == 2 * (attached + tors + leaves + spines)
    assert fabric.facts()["chips"] == chips
    assert fabric.facts()["efa cables"] == chips
    assert fabric.facts()["building: latency of a path"] == "20.0 us"


def test_more_chips_than_the_tiers_hold_are_refused_with_the_arithmetic() -> None:
    with pytest.raises(InputError) as refusal:
        FabricTopology(load_fabric("ultracluster"), load_server("trn3-gen2-ultraserver"), 300_000)
    assert refusal.value.exit_code == 2
    [problem] = refusal.value.problems
    assert problem.key == "cluster.servers"
    assert problem.message == (
        "300,000 servers x 144 chips = 43,200,000 chips; the 4 tiers of fabric ultracluster hold "
        "64 x 64 x 64 x 128 = 33,554,432; at most 233,016 servers of 144 chips fit"
    )


@pytest.mark.parametrize(("servers_that_fit", "radix"), [(2, 8), (4, 16)])
def test_the_largest_count_that_fits_does_fit(servers_that_fit: int, radix: int) -> None:
    # one tier: a switch of radix r holds r / 4 servers of 4 chips
    spec = fabric_spec([radix], [1])
    assert spec.problem(4, servers_that_fit) is None
    problem = spec.problem(4, servers_that_fit + 1)
    assert problem is not None
    assert f"at most {servers_that_fit} servers" in problem.message


def test_a_server_without_efa_cannot_be_one_of_several() -> None:
    with pytest.raises(InputError, match=r"server trn1\.2xlarge has no scale-out links") as refusal:
        FabricTopology(load_fabric("ultracluster"), load_server("trn1.2xlarge"), 2)
    assert refusal.value.exit_code == 2


def test_no_servers_are_no_cluster() -> None:
    with pytest.raises(ValueError, match="at least 1 server, not 0"):
        FabricTopology(load_fabric("ultracluster"), torus_server([4]), 0)
