"""A cluster as arithmetic and as a whole graph: both views show the same counted facts."""

from __future__ import annotations

from collections import Counter

import networkx as nx
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from machines import count_kinds, count_links, fabric_specs, laws, servers, torus_server

from trnsim.errors import InputError
from trnsim.hardware import Server, load_server
from trnsim.topology import (
    ClusterTopology,
    FabricSpec,
    FabricTopology,
    cluster_topology,
    load_fabric,
    server_topology,
)


@laws
@given(servers, st.integers(1, 5), fabric_specs)
def test_the_whole_graph_has_the_counts_of_the_arithmetic(server: Server, count: int, spec: FabricSpec) -> None:
    assume(spec.tiers_for(server.chips * count) is not None)
    cluster = cluster_topology(server, count, spec)
    graph = cluster.expand()
    kinds = count_kinds(graph)
    assert kinds["chip"] == cluster.chips == server.chips * count
    assert count_links(graph) == cluster.link_counts()
    assert nx.is_strongly_connected(graph)
    assert cluster.fabric is not None
    for tier in range(cluster.fabric.tiers_used):
        assert kinds[f"tier{tier}"] == cluster.fabric.groups(tier)
    edges = graph.edges(data=True)
    ports = Counter(source for source, _, edge in edges if edge["kind"] == "efa" and "chip" in source)
    assert set(ports.values()) == {1}
    assert len(ports) == cluster.chips


@laws
@given(servers, st.integers(2, 5), fabric_specs, st.data())
def test_a_path_over_the_fabric_is_as_long_in_both_views(
    server: Server, count: int, spec: FabricSpec, data: st.DataObject
) -> None:
    assume(spec.tiers_for(server.chips * count) is not None)
    cluster = cluster_topology(server, count, spec)
    assert cluster.fabric is not None
    graph = cluster.expand()
    inside = [(a, b) for a, b in graph.edges if a.startswith("server") and b.startswith("server")]
    graph.remove_edges_from(inside)
    a, b = (data.draw(st.integers(0, cluster.chips - 1)) for _ in "ab")
    assume(a != b)
    source, target = (f"server {end // server.chips}/chip {end % server.chips}" for end in (a, b))
    latency_s = nx.shortest_path_length(graph, source, target, weight="latency_s")
    assert latency_s == pytest.approx(cluster.fabric.path_latency_s(cluster.fabric.meeting_tier(a, b)))


def test_16_ultraservers_of_trn3() -> None:
    # 16 x 144 = 2,304 chips in 36 top-of-rack groups of 64; 2 planes of 64 cables from each to the one leaf group
    cluster = cluster_topology(load_server("trn3-gen2-ultraserver"), 16, load_fabric("ultracluster"))
    assert cluster.chips == 2_304
    assert cluster.link_counts() == {
        "sled-switch": 2 * 2_304,
        "rack-switch": 2 * 2_304,
        "cross-rack": 2_304,
        "efa": 2 * 2_304,
        "tor-leaf": 2 * 36 * 64 * 2,
    }
    assert cluster.facts()["tor-leaf cables"] == 4_608
    assert count_links(cluster.expand()) == cluster.link_counts()


def test_rates_are_per_cable_and_direction() -> None:
    # Trn2: 128 and 64 GB/s of NeuronLink, 25 GB/s of EFA over two planes of 12.5 GB/s; 0.68 of each is achieved
    cluster = cluster_topology(load_server("trn2-ultraserver"), 4, load_fabric("ultracluster"))
    rates = {kind: rate / 0.68e9 for kind, rate in cluster.link_rates().items()}
    assert rates == pytest.approx({"neuronlink-xy": 128, "neuronlink-z": 64, "efa": 25, "tor-leaf": 12.5})
    for _, _, link in cluster.expand().edges(data=True):
        assert link["bandwidth_bytes_per_s"] == cluster.link_rates()[link["kind"]]


def test_a_server_alone_needs_no_fabric() -> None:
    cluster = cluster_topology(load_server("trn1.2xlarge"), 1, load_fabric("ultracluster"))
    assert cluster.fabric is None
    assert cluster.link_counts() == {}
    assert list(cluster.expand()) == ["server 0/chip 0"]
    assert cluster_topology(load_server("trn2.48xlarge"), 1, None).chips == 16


def test_several_servers_without_a_fabric_name_two_chips_without_a_path() -> None:
    with pytest.raises(InputError, match="server 0/chip 0 and server 1/chip 0 have no path: 3 servers need a fabric"):
        cluster_topology(load_server("trn2.48xlarge"), 3, None)


def test_a_fabric_of_other_servers_is_refused() -> None:
    template = server_topology(torus_server([4]))
    fabric = FabricTopology(load_fabric("ultracluster"), torus_server([4]), 3)
    with pytest.raises(ValueError, match="a fabric of 3 x torus cannot join 2 x torus"):
        ClusterTopology(template, 2, fabric)
    with pytest.raises(ValueError, match="at least 1 server, not 0"):
        ClusterTopology(template, 0)
