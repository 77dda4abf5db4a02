"""Memories of chips as links: counted touches of rings, and what stays as it was."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from machines import laws

from trnsim.hardware import load_chip, load_server
from trnsim.topology import cluster_topology
from trnsim.topology.cluster_network import cluster_network
from trnsim.topology.machines import machine
from trnsim.topology.memory import MEMORY, with_chip_memory
from trnsim.topology.network import ADDED, KEPT, PASSED_ON, SWITCH, Network, Touches
from trnsim.units import parse_bandwidth

CHIP = load_chip("trainium2")


def plain(spec: str, endpoints: int | None = None) -> Network:
    return machine(spec, endpoints=endpoints, bandwidth_bytes_per_s=128e9, latency_s=1e-6)


def touched(network: Network, sources: list[int], targets: list[int], touches: Touches) -> float:
    """Return how often the memories are touched per byte of one transfer, all taken together."""
    routes = network.routes(sources, targets, touches)
    memory = network.kind[routes.link] == network.kinds.index(MEMORY)
    return float((routes.weight / routes.parts[routes.path_of_crossing])[memory].sum())


@pytest.mark.parametrize(("touches", "per_two_ranks"), [(KEPT, 4), (ADDED, 6)])
def test_a_ring_touches_memory_four_or_six_times_per_two_ranks(touches: Touches, per_two_ranks: int) -> None:
    # Each rank hands on a chunk: read there, and written, or read, added and written, at the next
    network = with_chip_memory(plain("ring", 6), CHIP)
    chips = list(range(6))
    assert touched(network, chips, [*chips[1:], 0], touches) == per_two_ranks * 6 / 2


@pytest.mark.parametrize("name", ["trainium1", "trainium2", "trainium3"])
def test_memory_gives_out_before_the_dma_engines(name: str) -> None:
    # per byte that travels: one passage of an engine, two touches of memory; so engines hold back only below half of it
    chip = load_chip(name)
    assert parse_bandwidth(chip.facts["dma_bandwidth_sustained"].value) > chip.memory_bandwidth_bytes_per_s.value / 2


@pytest.mark.parametrize(("touches", "per_two_ranks"), [(KEPT, 3), (ADDED, 4)])
def test_two_ranks_that_share_a_place_touch_memory_three_or_four_times(touches: Touches, per_two_ranks: int) -> None:
    # KangaRing: one of the two receives from the place before, and the other is served in passing
    network = with_chip_memory(cluster_network(cluster_topology(load_server("trn2.48xlarge"), 1, None), 2), CHIP, 2)
    onward = touched(network, [0], [2], touches)
    assert onward + touched(network, [2], [3], PASSED_ON) == per_two_ranks


@laws
@given(st.sampled_from(["torus:4x3", "mesh:2x3", "hypercube:3", "fat-tree:3x4"]), st.data())
def test_wires_stay_as_they_were(spec: str, data: st.DataObject) -> None:
    # Leaving the memories out of a path gives the path without memories; parts and latency are the same
    before = plain(spec)
    network = with_chip_memory(before, CHIP)
    ends = st.lists(st.integers(0, before.endpoints - 1), min_size=5, max_size=5)
    sources, targets = data.draw(ends), data.draw(ends)
    old, new = before.routes(sources, targets), network.routes(sources, targets, ADDED)
    wires = new.link < before.links
    assert new.link[wires].tolist() == old.link.tolist()
    assert new.parts.tolist() == old.parts.tolist()
    assert network.latencies_s(new) == pytest.approx(before.latencies_s(old))
    for path, transfer in enumerate(new.transfer):
        links = new.link[new.first[path] : new.first[path + 1]] - before.links
        apart = sources[transfer] != targets[transfer]
        assert links[links >= 0].tolist() == ([sources[transfer], targets[transfer]] if apart else [])


def test_ranks_of_a_chip_share_its_memory() -> None:
    # 16 chips, one link each of 2.9 TB/s; between two ranks of a chip both ends touch the same one
    network = with_chip_memory(cluster_network(cluster_topology(load_server("trn2.48xlarge"), 1, None), 4), CHIP, 4)
    assert network.counts()[MEMORY] == 16
    routes = network.routes([5], [7], ADDED)
    assert [network.link_name(link) for link in routes.link] == ["chip 1: hbm", "chip 1/core 1 -> core 3"]
    assert routes.weight.tolist() == [3, 1]
    assert network.bytes_per_s[routes.link[0]] == CHIP.memory_bandwidth_bytes_per_s.value


def test_a_switch_has_no_memory() -> None:
    network = with_chip_memory(plain("switch", 3), CHIP)
    up, down = network.routes([1], [SWITCH]), network.routes([SWITCH], [2], ADDED)
    assert [network.link_name(link) for link in up.link] == ["chip 1: hbm", "chip 1 -> switch"]
    assert [network.link_name(link) for link in down.link] == ["switch -> chip 2", "chip 2: hbm"]


def test_memories_are_an_orbit_of_their_own() -> None:
    # All-to-all: each memory is read and written N - 1 times
    network = with_chip_memory(plain("torus:3x4"), CHIP)
    chips = np.arange(12)
    routes = network.routes(np.repeat(chips, 12), np.tile(chips, 12))
    load = np.bincount(routes.link, routes.weight / routes.parts[routes.path_of_crossing], network.links)
    assert network.orbit is not None
    memories = network.orbit == network.orbit[-1]
    assert memories.sum() == 12
    assert load[memories] == pytest.approx(np.full(12, 2 * 11))


def test_ranks_fill_their_chips() -> None:
    with pytest.raises(ValueError, match="6 ranks do not fill chips of 4"):
        with_chip_memory(plain("ring", 6), CHIP, 4)
