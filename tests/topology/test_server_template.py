"""Every server of the catalog as a graph, and what is refused."""

from __future__ import annotations

import sys

import networkx as nx
import pytest
from hypothesis import given
from machines import count_kinds, laws, servers, torus_server
from msgspec.structs import replace

from trnsim.errors import InputError
from trnsim.hardware import Server, load_server, names
from trnsim.topology import server_topology


@pytest.mark.parametrize("name", names("servers"))
def test_every_server_of_the_catalog_is_connected(name: str) -> None:
    server = load_server(name)
    topology = server_topology(server)
    assert nx.is_strongly_connected(topology.graph)
    assert count_kinds(topology.graph)["chip"] == server.chips == topology.chips


@laws
@given(servers)
def test_both_directions_of_a_cable_are_alike(server: Server) -> None:
    graph = server_topology(server).graph
    assert all(graph.edges[b, a] == edge for a, b, edge in graph.edges(data=True))
    assert all(edge["count"] == 1 for _, _, edge in graph.edges(data=True))


@laws
@given(servers)
def test_the_diameter_is_the_longest_of_the_shortest_ways(server: Server) -> None:
    topology = server_topology(server)
    lengths = dict(nx.all_pairs_shortest_path_length(topology.graph))
    chips = [f"chip {chip}" for chip in range(topology.chips)]
    assert topology.diameter == max(lengths[a][b] for a in chips for b in chips)


def test_a_single_chip_has_no_links() -> None:
    topology = server_topology(load_server("trn2.3xlarge"))
    assert topology.link_counts() == {}
    assert topology.diameter == 0
    assert topology.route(0, 0) == ()


def test_chips_without_a_path_are_named() -> None:
    # eight chips on a torus of four leave the other four alone
    server = replace(torus_server([4]), chips=8)
    with pytest.raises(InputError, match="chip 0 and chip 4 have no path") as refusal:
        server_topology(server)
    assert refusal.value.exit_code == 2


def test_reading_a_fabric_needs_no_networkx() -> None:
    # networkx takes a quarter of a second to import, so it waits for the first graph
    import subprocess

    code = (
        "import sys; from trnsim.hardware import load_server; from trnsim.topology import FabricTopology, load_fabric; "
        "FabricTopology(load_fabric('ultracluster'), load_server('trn2-ultraserver'), 16).meeting_tier(0, 999); "
        "sys.exit('networkx' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
