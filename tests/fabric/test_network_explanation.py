"""What a program is said to do adds up to what it does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from network_programs import all_to_all, in_network, ring, shifts

from trnsim.collectives import Program
from trnsim.fabric.explanation import LATENCY, explain
from trnsim.fabric.network_fabric import Fidelity, Latencies, NetworkFabric
from trnsim.topology.machines import machine

BANDWIDTH, ALPHA = 50e9, 1e-6
GIB = 2**30


def fabric(spec: str, endpoints: int | None = None) -> NetworkFabric:
    return NetworkFabric(machine(spec, endpoints=endpoints, bandwidth_bytes_per_s=BANDWIDTH, latency_s=ALPHA))


def test_ring_on_a_star() -> None:
    # 2 (N - 1) steps; every up link carries S / N in each, all N of them 2 (N - 1) S together, as do the down links.
    found = explain(fabric("star", 8), ring(8), GIB)
    assert found.steps == 14
    assert found.bytes_by_kind == pytest.approx({"up": 14 * GIB, "down": 14 * GIB})
    assert found.busiest is not None
    assert found.busiest.busiest_bytes == pytest.approx(GIB / 8)
    assert found.busiest.busiest_s == pytest.approx(GIB / 8 / BANDWIDTH)
    assert found.busiest.busiest_link == "chip 0 -> switch"


def test_torus_counts_every_hop() -> None:
    # The mean distance of a ring of 4 is (1 + 2 + 1) / 4 = 1: 64 chips x 64 partners x 3 axes x S / 64.
    found = explain(fabric("torus:4x4x4"), all_to_all(64), GIB)
    assert found.bytes_by_kind == pytest.approx({"link": 64 * 3 * GIB})


def test_a_slow_link_is_named() -> None:
    # Of all uplinks the one at a quarter of its bandwidth is busy for four times as long.
    star = fabric("star", 8).network.degraded([5], 0.25)
    found = explain(NetworkFabric(star), ring(8), GIB)
    assert found.busiest is not None
    assert found.busiest.busiest_link == "chip 5 -> switch"
    assert found.busiest.busiest_s == pytest.approx(4 * GIB / 8 / BANDWIDTH)


@pytest.mark.parametrize(("size", "bound"), [(8, LATENCY), (GIB, "up")])
def test_bound_by_what_takes_longer(size: int, bound: str) -> None:
    # 14 x 2 us of latency against 14 S / 8 B on the up links.
    assert explain(fabric("star", 8), ring(8), size).bound_by == bound


def test_at_the_bound() -> None:
    # Without latency a ring takes the endpoint bound 2 (N - 1) / N S / B.
    quick = machine("ring", endpoints=8, bandwidth_bytes_per_s=BANDWIDTH, latency_s=0.0)
    found = explain(NetworkFabric(quick), ring(8), GIB)
    assert found.above_bound == pytest.approx(1, abs=1e-3)


def test_alone_there_is_nothing_to_explain() -> None:
    found = explain(fabric("star", 1), Program("all-reduce", "ring", 1, ()), GIB)
    assert (found.steps, found.time_s, found.busiest, found.above_bound) == (0, 0, None, 1)


def test_moves_in_words() -> None:
    # Both ways round a ring; up to the switch and down.
    assert explain(fabric("star", 4), ring(4), 8).phases[0].moves == (
        "each to the one +1, among 4",
        "each to the one -1, among 4",
    )
    assert [phase.moves for phase in explain(fabric("switch", 4), in_network(4), 8).phases] == [
        ("each to the switch, among 4",),
        ("the switch to each, among 4",),
    ]


@given(
    st.sampled_from([ring(9), all_to_all(9), in_network(9), shifts(9, 2, 5, steps=3)]),
    st.sampled_from(["closed_form", "flow"]),
    st.integers(0, GIB),
)
def test_phases_add_up(program: Program, fidelity: Fidelity, size: int) -> None:
    # T = alpha + sum over phases of steps x step time; no step is shorter than its busiest link.
    switch = machine("switch", endpoints=9, bandwidth_bytes_per_s=BANDWIDTH, latency_s=ALPHA)
    found = explain(NetworkFabric(switch, latencies=Latencies(5e-6, 1e-6)), program, size, fidelity)
    assert found.time_s == pytest.approx(5e-6 + sum(phase.steps * phase.step_s for phase in found.phases))
    assert all(phase.busiest_s <= phase.step_s for phase in found.phases)
