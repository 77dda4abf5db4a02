"""Chips under switches: sleds, racks and twins."""

from __future__ import annotations

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from machines import count_kinds, laws, switched_server

from trnsim.hardware import load_server
from trnsim.topology import server_topology


def test_a_144_chip_ultraserver() -> None:
    # 2 racks x 18 sleds x 4 chips; a chip has a cable to its sled, one to its rack, and shares one with its twin
    topology = server_topology(load_server("trn3-gen2-ultraserver"))
    assert count_kinds(topology.graph) == {"chip": 144, "sled": 36, "rack": 2}
    assert topology.link_counts() == {"sled-switch": 288, "rack-switch": 288, "cross-rack": 144}
    assert topology.facts()["cross-rack cables"] == 72
    assert topology.facts()["scale-out ports, one per chip"] == 144
    assert topology.diameter == 3


def test_a_64_chip_ultraserver() -> None:
    # 2 racks x 16 boards x 2 chips
    topology = server_topology(load_server("trn3-gen1-ultraserver"))
    assert topology.facts()["sled switches"] == 32
    assert topology.link_counts() == {"sled-switch": 128, "rack-switch": 128, "cross-rack": 64}


def test_the_three_ways() -> None:
    topology = server_topology(load_server("trn3-gen2-ultraserver"))

    def way(a: int, b: int) -> list[str]:
        return [link.target for link in topology.route(a, b)]

    assert way(0, 3) == ["sled 0", "chip 3"]
    assert way(0, 4) == ["rack 0", "chip 4"]
    assert way(5, 77) == ["chip 77"]
    assert way(77, 5) == ["chip 5"]
    assert way(0, 75) == ["sled 0", "chip 3", "chip 75"]
    assert way(143, 0) == ["rack 1", "chip 72", "chip 0"]


def test_the_pessimistic_variant_has_the_same_wires_and_other_rates() -> None:
    # 256 / 320 / 128 GB/s instead of 512 / 512 / 128, each times 0.68
    usual, pessimistic = (
        server_topology(load_server(f"trn3-gen2-ultraserver{variant}")) for variant in ("", "@pessimistic")
    )
    assert usual.link_counts() == pessimistic.link_counts()
    rates = [link.bandwidth_bytes_per_s / 0.68e9 for link in (*pessimistic.route(0, 1), *pessimistic.route(0, 143))]
    assert rates == pytest.approx([256, 256, 320, 320, 128])


@laws
@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.tuples(*[st.sampled_from([1e-6, 1.5e-6, 4e-6])] * 3))
def test_the_rule_finds_the_fastest_way(
    sled_size: int, sleds: int, racks: int, latencies_s: tuple[float, float, float]
) -> None:
    topology = server_topology(switched_server(sled_size, sleds, racks, latencies_s))
    for a in range(topology.chips):
        fastest = nx.single_source_dijkstra_path_length(topology.graph, f"chip {a}", weight="latency_s")
        for b in range(topology.chips):
            route = topology.route(a, b)
            assert sum(link.latency_s for link in route) == pytest.approx(fastest[f"chip {b}"], rel=1e-12)
            assert [link.target for link in route][-1:] == ([f"chip {b}"] if a != b else [])
