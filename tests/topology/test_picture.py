"""Pictures as data: every node once, every cable once, and grids drawn along their axes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from machines import laws

from trnsim.errors import InputError
from trnsim.hardware import load_chip, load_server, names
from trnsim.topology import cluster_topology, load_fabric
from trnsim.topology.cluster_network import cluster_network
from trnsim.topology.machines import machine
from trnsim.topology.memory import with_chip_memory
from trnsim.topology.network_files import load_network, network_names
from trnsim.topology.picture import Picture, picture

if TYPE_CHECKING:
    from trnsim.topology.network import Network


def generic(spec: str, endpoints: int | None = None) -> Network:
    return machine(spec, endpoints=endpoints, bandwidth_bytes_per_s=50e9, latency_s=1e-6)


def servers(name: str, count: int, ranks_per_chip: int = 1) -> Network:
    fabric = load_fabric("ultracluster") if count > 1 else None
    return cluster_network(cluster_topology(load_server(name), count, fabric), ranks_per_chip)


def kinds(drawn: Picture) -> dict[str, int]:
    counted: dict[str, int] = {}
    for node in drawn.nodes:
        counted[node.kind] = counted.get(node.kind, 0) + 1
    return counted


@pytest.mark.parametrize(
    "network", [*map(load_network, network_names()), *(servers(name, 1) for name in names("servers"))]
)
def test_every_cable_is_drawn_once_between_different_places(network: Network) -> None:
    # Links run both ways: half as many edges, with what one way carries; and no two nodes on one spot
    drawn = picture(network)
    assert len(drawn.edges) == network.links / 2
    assert sum(edge.bytes_per_s for edge in drawn.edges) == network.bytes_per_s.sum() / 2
    assert len({(round(node.x, 6), round(node.y, 6)) for node in drawn.nodes}) == len(drawn.nodes)
    named = {(drawn.nodes[edge.a].name, drawn.nodes[edge.b].name) for edge in drawn.edges}
    links = {tuple(network.link_name(link).split(" -> ")) for link in range(network.links)}
    assert named | {(b, a) for a, b in named} == links


@laws
@given(st.lists(st.integers(2, 5), min_size=2, max_size=3), st.sampled_from(["torus", "mesh"]))
def test_a_grid_is_recognized_from_its_cables(dims: list[int], name: str) -> None:
    # prod(dims) / n rings of n cables on an axis of n chips; the closing cable of each ring of more than two is bent
    drawn = picture(generic(f"{name}:{'x'.join(map(str, dims))}"))
    rings = sum(math.prod(dims) // size for size in dims if size > 2)
    assert sum(edge.is_bent for edge in drawn.edges) == (rings if name == "torus" else 0)
    row = drawn.nodes[: dims[0]]
    assert [(node.x, node.y) for node in row] == [(float(place), 0.0) for place in range(dims[0])]


@pytest.mark.parametrize(("spec", "endpoints"), [("ring", 7), ("fully-connected", 5)])
def test_chips_without_switches_stand_on_a_circle(spec: str, endpoints: int) -> None:
    # Circumference N, so that neighbours are about 1 apart
    drawn = picture(generic(spec, endpoints))
    assert [math.hypot(node.x, node.y) for node in drawn.nodes] == pytest.approx(
        [endpoints / (2 * math.pi)] * endpoints
    )


def test_switches_stand_in_layers_above_what_they_join() -> None:
    drawn = picture(generic("fat-tree:2x4"))
    heights = {(node.kind, node.y) for node in drawn.nodes}
    assert heights == {("chip", 0.0), ("leaf", 1.0), ("spine", 2.0)}
    assert [node.x for node in drawn.nodes if node.kind != "chip"] == [1.75, 5.25, 3.5]


def test_chips_of_many_servers_are_drawn_as_their_servers() -> None:
    # 16 x 144 chips are more than 1,024 nodes; 64 chips to a switch group; a server keeps the NICs of its chips
    network = servers("trn3-gen2-ultraserver", 16)
    drawn = picture(network)
    assert kinds(drawn) == {"server": 16, "tor": 36, "leaf": 1}
    nics = sum(edge.bytes_per_s for edge in drawn.edges if edge.kind == "efa")
    assert nics == network.bytes_per_s[network.uplinks].sum()


def test_what_stays_inside_a_chip_is_not_drawn() -> None:
    network = with_chip_memory(servers("trn2.48xlarge", 1, ranks_per_chip=4), load_chip("trainium2"), 4)
    assert picture(network).edges == picture(servers("trn2.48xlarge", 1)).edges


def test_a_lone_chip() -> None:
    assert [node.name for node in picture(generic("ring", 1)).nodes] == ["chip 0"]


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (generic("torus:16x16x8"), "2,048 chips and switches are more than the 1,024"),
        (generic("hypercube:14"), "229,376 links are more than the 100,000"),
    ],
)
def test_too_large_to_draw(network: Network, message: str) -> None:
    with pytest.raises(InputError, match=message):
        picture(network)
