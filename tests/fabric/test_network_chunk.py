"""Single messages on networks: equal to closed forms alone, near flow on small machines, refused where too many."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from network_programs import all_to_all, in_network, ring, shifts

from trnsim.errors import InputError
from trnsim.fabric import chunk
from trnsim.fabric.chunk import chunk_s
from trnsim.fabric.network_fabric import Latencies, NetworkFabric
from trnsim.topology.machines import machine

if TYPE_CHECKING:
    from trnsim.topology.network import Network

BANDWIDTH, ALPHA = 50e9, 1e-6
GIB = 2**30


def built(spec: str, endpoints: int | None = None) -> Network:
    return machine(spec, endpoints=endpoints, bandwidth_bytes_per_s=BANDWIDTH, latency_s=ALPHA, ties="positive")


@given(st.integers(2, 20), st.integers(0, 10**9))
def test_ring_on_a_star(ranks: int, size: int) -> None:
    # 2 (N - 1) (S / (N B) + 2 alpha) with cut-through, and twice the transmission with store-and-forward.
    star, steps = built("star", ranks), 2 * (ranks - 1)
    one_way, sent_s = shifts(ranks, 1, steps=steps), size / ranks / BANDWIDTH
    ends = [chunk_s(star, np.arange(ranks), one_way.phases, size, cut_through=through) for through in (True, False)]
    assert ends == pytest.approx([steps * (sent_s + 2 * ALPHA), steps * (2 * sent_s + 2 * ALPHA)], abs=steps * 2e-12)


@pytest.mark.parametrize("hops", [1, 2, 3, 7])
def test_alone_on_a_line(hops: int) -> None:
    # h alpha + S / B with cut-through, h (alpha + S / B) without.
    line, ends = built("mesh:8"), np.array([0, hops])
    sent_s = 0.5 * GIB / BANDWIDTH
    assert chunk_s(line, ends, shifts(2, 1).phases, GIB) == pytest.approx(hops * ALPHA + sent_s)
    stored = chunk_s(line, ends, shifts(2, 1).phases, GIB, cut_through=False)
    assert stored == pytest.approx(hops * (ALPHA + sent_s))


def test_reducing_switch_waits_for_all() -> None:
    # Up S / B + alpha / 2, and down again; alpha is that of a switch from chip to chip.
    answer_s = NetworkFabric(built("switch", 8)).time_s(in_network(8), GIB, "chunk")
    assert answer_s == pytest.approx(2 * (GIB / BANDWIDTH + ALPHA / 2))


def test_latencies_count_once_and_per_step() -> None:
    # The latency of the collective, and that of the step as often as there are steps.
    fabric = NetworkFabric(built("star", 4), latencies=Latencies(7e-6, 3e-6))
    bare = NetworkFabric(built("star", 4)).time_s(shifts(4, 1, steps=6), GIB, "chunk")
    assert fabric.time_s(ring(4), GIB, "chunk") - bare == pytest.approx(7e-6 + 6 * 3e-6)


def test_ties_are_messages_of_their_own() -> None:
    # Two halves of S / 4 go round a ring of 4 both ways: 2 alpha + S / 8 / B for the chip opposite.
    both_ways = machine("ring", endpoints=4, bandwidth_bytes_per_s=BANDWIDTH, latency_s=0.0)
    step_s = NetworkFabric(both_ways).time_s(shifts(4, 2), 4e9, "chunk")
    assert step_s == pytest.approx(2 * 0.5e9 / BANDWIDTH)  # each link carries the halves of two chips


@given(st.sampled_from(["torus:3x3", "torus:4x2", "hypercube:3", "fat-tree:3x2:2", "mesh:2x3"]), st.data())
def test_chunk_stays_near_flow(spec: str, data: st.DataObject) -> None:
    # No link can be done before its load is through; queues of whole messages cost at most as much again per hop.
    network = built(spec)
    distances = data.draw(st.lists(st.integers(1, network.endpoints - 1), min_size=1, max_size=3))
    program, fabric = shifts(network.endpoints, *distances), NetworkFabric(network)
    busiest_s = fabric.loads(program.phases[0]).seconds_per_byte * GIB
    chunked_s = fabric.time_s(program, GIB, "chunk")
    assert busiest_s * (1 - 1e-9) <= chunked_s <= 4 * fabric.time_s(program, GIB, "flow")


def test_all_to_all_on_a_star_queues_at_the_receivers() -> None:
    # Every member sends to the next one first, so that receivers are busy all the time: (N - 1) S / (N B) + 2 alpha.
    answer_s = NetworkFabric(built("star", 16)).time_s(all_to_all(16), GIB, "chunk")
    assert answer_s == pytest.approx(15 / 16 * GIB / BANDWIDTH + 2 * ALPHA)


def test_too_many_ranks_are_refused() -> None:
    with pytest.raises(InputError, match="16,385 ranks are more than the 16,384") as refused:
        NetworkFabric(built("star", 16_385)).time_s(ring(16_385), GIB, "chunk")
    assert refused.value.exit_code == 2


def test_too_many_events_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    # 6 steps x (5 members, the switch among them, and 8 crossings)
    monkeypatch.setattr(chunk, "MOST_EVENTS", 77)
    with pytest.raises(InputError, match="78 or more events"):
        NetworkFabric(built("star", 4)).time_s(shifts(4, 1, steps=6), GIB, "chunk")
