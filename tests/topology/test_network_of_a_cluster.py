"""A cluster as a network: the same links, routes and latencies as its template and its fabric have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from machines import fabric_specs, laws, servers

from trnsim.hardware import Server, load_server, names
from trnsim.topology import ClusterTopology, FabricSpec, cluster_topology, load_fabric
from trnsim.topology.cluster_network import cluster_network
from trnsim.topology.links import CORE_LINK

if TYPE_CHECKING:
    from trnsim.topology.network import Network


def catalog(name: str, count: int = 1) -> ClusterTopology:
    return cluster_topology(load_server(name), count, load_fabric("ultracluster") if count > 1 else None)


def named(network: Network, source: int, target: int) -> list[str]:
    return [network.link_name(link) for link in network.routes([source], [target]).link]


@laws
@given(servers, st.integers(2, 5), fabric_specs)
def test_links_are_those_of_the_cluster(server: Server, count: int, spec: FabricSpec) -> None:
    # One link per cable and direction, except that the cables of a trunk are one link: their rates add up
    assume(spec.tiers_for(server.chips * count) is not None)
    cluster = cluster_topology(server, count, spec)
    network = cluster_network(cluster)
    counts, rates = cluster.link_counts(), cluster.link_rates()
    for index, kind in enumerate(network.kinds):
        total = network.bytes_per_s[network.kind == index].sum()
        assert total == pytest.approx(counts.get(kind, 0) * rates.get(kind, 0), rel=1e-6)
    inside = cluster.server_topology.link_counts()
    assert {kind: network.counts()[kind] for kind in inside} == {kind: links * count for kind, links in inside.items()}
    assert network.counts()["efa"] == 2 * cluster.chips


@laws
@given(servers, st.integers(2, 5), fabric_specs, st.data())
def test_a_path_costs_what_template_and_fabric_say(
    server: Server, count: int, spec: FabricSpec, data: st.DataObject
) -> None:
    # Inside a server: the links of ServerTopology.route. Between: up to the meeting tier t and down, 2 (t + 1) links.
    assume(spec.tiers_for(server.chips * count) is not None)
    cluster = cluster_topology(server, count, spec)
    assert cluster.fabric is not None
    network = cluster_network(cluster)
    a, b = (data.draw(st.integers(0, cluster.chips - 1)) for _ in "ab")
    routes = network.routes([a], [b])
    kinds = [network.kinds[kind] for kind in network.kind[routes.link]]
    if a // server.chips == b // server.chips:
        links = cluster.server_topology.route(a % server.chips, b % server.chips)
        assert kinds == [link.kind for link in links]
        latency_s = sum(link.latency_s for link in links)
        prefix = f"server {a // server.chips}/"
        assert named(network, a, b) == [f"{prefix}{link.source} -> {prefix}{link.target}" for link in links]
    else:
        tier = cluster.fabric.meeting_tier(a, b)
        assert kinds == list(cluster.fabric.path_kinds(tier))
        latency_s = cluster.fabric.path_latency_s(tier)
    assert network.latencies_s(routes)[0] == pytest.approx(latency_s)


@laws
@given(servers, st.integers(2, 5), fabric_specs, st.data())
def test_the_names_of_a_path_join_up(server: Server, count: int, spec: FabricSpec, data: st.DataObject) -> None:
    # Each link starts where the one before ends
    assume(spec.tiers_for(server.chips * count) is not None)
    network = cluster_network(cluster_topology(server, count, spec))
    a, b = (data.draw(st.integers(0, network.endpoints - 1)) for _ in "ab")
    assume(a != b)
    ends = [name.split(" -> ") for name in named(network, a, b)]
    nodes = [f"server {chip // server.chips}/chip {chip % server.chips}" for chip in (a, b)]
    assert [ends[0][0], ends[-1][1]] == nodes
    assert [end for _, end in ends[:-1]] == [start for start, _ in ends[1:]]


@pytest.mark.parametrize(
    ("name", "count"),
    [
        *((name, 1) for name in names("servers") if load_server(name).chips <= 256),
        ("trn2.48xlarge", 12),
        ("trn2-ultraserver", 3),
    ],
)
def test_links_of_an_orbit_are_loaded_alike(name: str, count: int) -> None:
    # A symmetry carries routes over: all-to-all loads the links of an orbit alike
    network = cluster_network(catalog(name, count))
    chips = np.arange(network.endpoints)
    routes = network.routes(np.repeat(chips, len(chips)), np.tile(chips, len(chips)))
    load = np.bincount(routes.link, minlength=network.links)
    assert network.orbit is not None
    for orbit in np.unique(network.orbit):
        assert len(set(load[network.orbit == orbit])) == 1


@pytest.mark.parametrize("name", names("servers"))
def test_every_server_of_the_catalog_alone(name: str) -> None:
    cluster = catalog(name)
    assert cluster_network(cluster).counts() == cluster.link_counts()


@pytest.mark.parametrize(
    ("name", "count", "symmetric"),
    [
        ("trn2.48xlarge", 8, True),  # 64 chips a switch group: four servers each
        ("trn2.48xlarge", 9, False),  # the last group is not full
        ("trn2-ultraserver", 2, True),
        ("trn3-gen2-ultraserver", 4, False),  # 144 chips over groups of 64
    ],
)
def test_symmetric_when_whole_servers_fill_the_switches(name: str, count: int, symmetric: bool) -> None:
    network = cluster_network(catalog(name, count))
    tiers = catalog(name, count).fabric.tiers_used  # type: ignore[union-attr] # several servers have a fabric
    assert tiers == (1 if count * load_server(name).chips <= 128 else 2)
    assert (network.orbit is not None) is (symmetric or tiers == 1)


def test_logical_cores_share_the_links_of_their_chip() -> None:
    # c (c - 1) links between the c cores of each chip; between chips the route does not depend on the cores
    cluster = catalog("trn2.48xlarge", 2)
    network = cluster_network(cluster, 4)
    assert network.endpoints == 128
    assert network.counts()[CORE_LINK] == 32 * 4 * 3
    assert named(network, 5, 7) == ["server 0/chip 1/core 1 -> core 3"]
    assert named(network, 5, 5) == []
    assert named(network, 3, 4) == named(network, 0, 7) == ["server 0/chip 0 -> server 0/chip 1"]
    cores = cluster.server_topology.server.chip.neuron_cores
    assert cores is not None
    link = network.routes([5], [7]).link[0]
    assert network.bytes_per_s[link] == round(cores.link_bytes_per_s(4))
    assert network.latency_s[link] == cores.link_latency_s.value


@pytest.mark.parametrize(
    ("name", "count", "first", "links"),
    [
        ("trn2.48xlarge", 2, "server 0/chip 0 -> tor 0", 32),
        ("trn2.48xlarge", 1, "chip 0 -> chip 1", 64),
        ("trn3-gen2-ultraserver", 1, "chip 0 -> sled 0", 288),
    ],
)
def test_uplinks_leave_the_chips(name: str, count: int, first: str, links: int) -> None:
    network = cluster_network(catalog(name, count))
    assert len(network.uplinks) == links
    assert network.link_name(network.uplinks[0]) == first


def test_a_million_chips() -> None:
    # 6,945 servers of 144 chips: NICs both ways, and a trunk both ways per switch group of 64, 4,096 and 262,144 chips
    cluster = catalog("trn3-gen2-ultraserver", 6945)
    network = cluster_network(cluster)
    groups = [-(-1_000_080 // below) for below in (64, 4096, 262_144)]
    inside = sum(cluster.server_topology.link_counts().values()) * 6945
    assert network.links == inside + 2 * (1_000_080 + sum(groups))
    chips = np.arange(network.endpoints)
    routes = network.routes(chips, np.roll(chips, -1))
    assert len(routes.transfer) == 1_000_080
    assert routes.lengths.max() == 8


def test_a_chip_has_ranks() -> None:
    with pytest.raises(ValueError, match="at least 1 rank"):
        cluster_network(catalog("trn2.48xlarge"), 0)
