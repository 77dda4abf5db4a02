"""Networks of any graph: files, shortest paths in equal parts, and what is refused."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from machines import laws, link_class

from trnsim.errors import InputError
from trnsim.topology.graphs import graph_network
from trnsim.topology.network import SWITCH
from trnsim.topology.network_files import load_network, network_names
from trnsim.topology.shortest import MOST_PATHS

if TYPE_CHECKING:
    from pathlib import Path

    from trnsim.topology.network import Network, Routes

CABLE = link_class("cable", latency_s=1e-6, bandwidth_bytes_per_s=100e9)  # effective 50 GB/s


def network_of(chips: int, cables: list[tuple[str, str]], **options: bool) -> Network:
    graph: nx.Graph[str] = nx.Graph()
    graph.add_nodes_from(f"chip {chip}" for chip in range(chips))
    graph.add_edges_from(cables, kind="cable", count=1)
    return graph_network("graph", graph, {"cable": CABLE}, **options)


def everyone(network: Network) -> Routes:
    chips = np.arange(network.endpoints)
    return network.routes(np.repeat(chips, len(chips)), np.tile(chips, len(chips)))


def loads(network: Network) -> dict[str, float]:
    routes = everyone(network)
    load = np.bincount(routes.link, 1 / routes.parts[routes.path_of_crossing], network.links)
    return {network.link_name(link): float(load[link]) for link in range(network.links)}


@laws
@given(st.integers(2, 7), st.integers(0, 10**6), st.data())
def test_paths_are_all_the_shortest_ones(chips: int, seed: int, data: st.DataObject) -> None:
    # Equal cables: the paths of networkx's all_shortest_paths, each with an equal part
    tree = nx.random_labeled_tree(chips, seed=seed)
    more = data.draw(st.lists(st.tuples(st.integers(0, chips - 1), st.integers(0, chips - 1)), max_size=8))
    tree.add_edges_from((a, b) for a, b in more if a != b)
    network = network_of(chips, [(f"chip {a}", f"chip {b}") for a, b in tree.edges])
    routes = everyone(network)
    for transfer in range(chips**2):
        paths = np.flatnonzero(routes.transfer == transfer)
        links = [routes.link[routes.first[path] : routes.first[path + 1]] for path in paths]
        found = {tuple(network.link_name(link).split(" -> ")[1] for link in path) for path in links}
        walks = nx.all_shortest_paths(tree, *divmod(transfer, chips))
        assert found == {tuple(f"chip {node}" for node in walk[1:]) for walk in walks}
        assert set(routes.parts[paths]) == {len(found)} == {len(paths)}


def test_less_latency_beats_fewer_links_and_fewer_links_break_the_tie() -> None:
    # 0 - 1 direct in 3 us, over a and b in 2 us, over c, d and e in 2 us too
    slow, half = link_class("slow", 3e-6), link_class("half", 0.5e-6)
    graph: nx.Graph[str] = nx.Graph()
    graph.add_nodes_from(["chip 0", "chip 1"])
    graph.add_edge("chip 0", "chip 1", kind="slow", count=1)
    nx.add_path(graph, ["chip 0", "a 0", "chip 1"], kind="cable", count=1)
    nx.add_path(graph, ["chip 0", "c 0", "d 0", "e 0", "chip 1"], kind="half", count=1)
    network = graph_network("graph", graph, {"slow": slow, "cable": CABLE, "half": half})
    assert [network.link_name(link) for link in network.routes([0], [1]).link] == ["chip 0 -> a 0", "a 0 -> chip 1"]


def test_at_most_so_many_paths() -> None:
    # an 8 x 8 mesh of chips has C(14, 7) = 3,432 shortest paths from corner to corner
    cables = [(f"chip {a}", f"chip {a + step}") for a in range(64) for step in (1, 8) if step == 8 or a % 8 < 7]
    network = network_of(64, [(a, b) for a, b in cables if int(b.split()[1]) < 64])
    assert set(network.routes([0], [63]).parts) == {MOST_PATHS}


def test_twin_switches_act_as_one_with_all_their_cables() -> None:
    # 2 chips x 3 leaves of 50 GB/s: one leaf of 150 GB/s
    network = network_of(2, [(f"chip {chip}", f"leaf {leaf}") for chip in range(2) for leaf in range(3)])
    assert network.links == 4
    assert set(network.bytes_per_s) == {150_000_000_000}
    assert network.link_name(0) == "chip 0 -> leaf 0-2"


def test_idle_switches_are_warned_about_and_are_no_endpoints() -> None:
    cables = [("chip 0", "leaf 0"), ("chip 1", "leaf 0"), ("leaf 0", "spine 0"), ("far 0", "far 1"), ("far 1", "far 2")]
    network = network_of(2, [*cables, ("far 2", "far 0")])
    assert network.endpoints == 2
    assert network.warnings == ("on no path between chips, left out: spine 0, far 0, far 1, far 2",)
    assert network.links == 4


def test_disconnected_chips_are_named() -> None:
    with pytest.raises(InputError, match="chip 0 and chip 2 have no path"):
        network_of(4, [("chip 0", "chip 1"), ("chip 2", "chip 3")])


def test_one_chip_alone() -> None:
    network = network_of(1, [])
    assert network.routes([0], [0]).lengths.tolist() == [0]
    assert network.links == 0


@pytest.mark.parametrize("name", network_names())
def test_every_network_of_the_package(name: str) -> None:
    # the route from a to b and that from b to a are equally long, and every chip reaches every other
    network = load_network(name)
    routes = everyone(network)
    latency = np.zeros(network.endpoints**2)
    latency[routes.transfer] = network.latencies_s(routes)
    square = latency.reshape(network.endpoints, -1)
    np.testing.assert_allclose(square, square.T)
    assert (square > 0).sum() == network.endpoints * (network.endpoints - 1)
    assert network.warnings == ()
    assert len(network.uplinks) >= network.endpoints


def test_a_switch_that_no_route_takes_is_warned_about() -> None:
    # Over the leaf two links, over leaf, spine and leaf more
    cables = [
        *((f"chip {chip}", "leaf 0") for chip in range(3)),
        ("chip 0", "far 0"),
        ("far 0", "spine 0"),
        ("spine 0", "leaf 0"),
    ]
    network = network_of(3, cables)
    assert network.warnings == ("on no shortest path: far 0, spine 0",)
    assert network.endpoints == 3


@pytest.mark.parametrize(("name", "rate"), [("dgx-h100", 0.82 * 450e9), ("nvl72", 0.82 * 900e9)])
def test_all_to_all_over_one_switch_loads_each_port_alike(name: str, rate: float) -> None:
    # N - 1 transfers up and N - 1 down; the port is the sum of the cables to all switches; NVLS is one link away
    network = load_network(name)
    assert set(loads(network).values()) == {network.endpoints - 1}
    assert set(network.bytes_per_s) == {rate}
    assert network.reduces
    assert network.routes([3, SWITCH], [SWITCH, 3]).lengths.tolist() == [1, 1]


def test_unequal_pods_meet_on_the_trunk() -> None:
    # 4 x 6 transfers each way
    load = loads(load_network("unequal-pods"))
    assert load["pod 0 -> pod 1"] == load["pod 1 -> pod 0"] == 24
    assert load["chip 0 -> pod 0"] == 9


def test_eight_chips_of_mixed_cables() -> None:
    # six cables of 25 GB/s leave each chip, single or double; the other four chips are two links away
    network = load_network("dgx-1v")
    for chip in range(8):
        out = [link for link in range(network.links) if network.link_name(link).startswith(f"chip {chip} ->")]
        assert sorted(network.bytes_per_s[out]) == [25e9, 25e9, 50e9, 50e9]
    assert everyone(network).lengths.max() == 2


def test_several_nics_of_a_chip_add_up() -> None:
    # 4 NICs of 12.5 GB/s: 50 GB/s to the other server, and the switch inside it for the own one
    network = load_network("four-nics")
    routes = network.routes([0, 0], [4, 1])
    assert network.bytes_per_s[routes.link].tolist() == [50e9, 50e9, 400e9, 400e9]


def test_a_rail_joins_the_chips_of_one_place_in_their_instances() -> None:
    # 4 instances of a 4 x 4 torus: 2 x 16 cables each; a chip is two links from its fellows and 2 + 4 from the farthest
    rails = load_network("ultracluster-rails")
    assert rails.counts() == {"neuronlink-xy": 2 * 4 * 32, "efa": 2 * 64}
    assert [rails.link_name(link) for link in rails.routes([5], [53]).link] == ["chip 5 -> rail 5", "rail 5 -> chip 53"]
    assert rails.routes([0], [26]).lengths.max() == 6


def test_clos_counts() -> None:
    # 2 tiers: 8 chips of a leaf send over 2 cables to each of 4 spines; 3 tiers: 2 ways up to the core
    two, three = load_network("clos-two-tier"), load_network("clos-three-tier")
    trunk = two.routes([0], [63]).link[1]
    assert two.link_name(trunk) == "leaf 0 -> spine 0-3"
    assert two.bytes_per_s[trunk] == 8 * 50e9
    assert three.routes([0], [15]).parts.tolist() == [2, 2]
    assert three.routes([0, 0, 0], [1, 2, 15]).lengths.tolist() == [2, 4, 4, 6, 6]


HEAD = """\
description: made up
sources: {s: {text: made up for a test, read: 2026-11-30}}
chips: {value: 4, kind: assumed, source: s}
switches: {leaf: {value: 2, kind: assumed, source: s}}
kinds:
  cable:
    bandwidth: {value: 50 GB/s, kind: assumed, source: s}
    latency: {value: 1 us, kind: assumed, source: s}
    achieved_fraction: {value: 0.5, kind: assumed, source: s}
links:
"""


def written(folder: Path, *rows: str) -> Path:
    path = folder / "mine.yaml"
    path.write_text(HEAD + "".join(f"  - {{{row}}}\n" for row in rows))
    return path


def test_a_file_of_the_user(tmp_path: Path) -> None:
    # effective = datasheet x achieved fraction
    path = written(
        tmp_path, "ends: [chip 0-3, leaf 0-1], kind: cable, join: blocks", "ends: [leaf 0, leaf 1], kind: cable"
    )
    network = load_network(str(path))
    assert set(network.bytes_per_s) == {25e9}
    assert network.routes([0], [3]).lengths.tolist() == [3]


def test_a_range_with_itself_is_every_two(tmp_path: Path) -> None:
    network = load_network(str(written(tmp_path, "ends: [chip 0-3, chip 0-3], kind: cable")))
    assert network.links == 4 * 3


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["ends: [chip 0-4, leaf 0], kind: cable"], "there are chip 0 to chip 3"),
        (["ends: [chip 3-0, leaf 0], kind: cable"], "there are chip 0 to chip 3"),
        (["ends: [chip 0-3, leef 0], kind: cable"], "did you mean leaf"),
        (["ends: [chip 0-3, leaf 0], kind: cabel"], "did you mean cable"),
        (["ends: [chip 0-2, leaf 0-1], kind: cable, join: blocks"], "3 nodes do not divide into 2 equal blocks"),
        (["ends: [chip 0, chip 0], kind: cable"], "no path"),
        (["ends: [chip 0-1, chip 1-2], kind: cable"], "chip 1 is joined to itself"),
        (["ends: [chip 0-3, leaf 0], kind: cable"] * 2, "joined by links[0] too"),
        (["ends: [chip 0-1, leaf 0], kind: cable"], "chip 0 and chip 2 have no path"),
        (["ends: [0, leaf 0], kind: cable"], "links[0].ends[0]"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, rows: list[str], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        load_network(str(written(tmp_path, *rows)))


def test_reducing_needs_a_switch_at_every_chip() -> None:
    with pytest.raises(InputError, match="no switch is joined to every chip"):
        network_of(2, [("chip 0", "chip 1")], reduces=True)


def test_an_unknown_name_lists_the_known() -> None:
    with pytest.raises(InputError, match="dgx-h100"):
        load_network("dgx-h10")
