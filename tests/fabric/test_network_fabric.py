"""Programs on networks: closed forms, answers of other simulators, and laws of sharing."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from network_programs import all_to_all, in_network, moved, ring, shifts

from trnsim.collectives import Phase, Program, Shift
from trnsim.errors import InputError
from trnsim.fabric import network_steps
from trnsim.fabric.network_fabric import Fidelity, Latencies, NetworkFabric
from trnsim.fabric.network_steps import folded, paths_of
from trnsim.topology.machines import machine

if TYPE_CHECKING:
    from trnsim.topology.network import Network

GIB = 2**30
BANDWIDTH = 50e9
both = pytest.mark.parametrize("fidelity", ["closed_form", "flow"])


def star(hosts: int) -> Network:
    return machine("star", endpoints=hosts, bandwidth_bytes_per_s=BANDWIDTH, latency_s=250e-9)


def built(spec: str, ties: str = "split") -> Network:
    return machine(
        spec, bandwidth_bytes_per_s=BANDWIDTH, latency_s=500e-9, ties="split" if ties == "split" else "positive"
    )


@both
@pytest.mark.parametrize(
    ("hosts", "answer_s"),
    [(8, 37.587964e-3), (64, 42.341584e-3), (144, 42.794409e-3), (512, 43.376787e-3), (1024, 43.930730e-3)],
)
def test_ring_on_a_star(hosts: int, answer_s: float, fidelity: Fidelity) -> None:
    # 2 (N - 1) (S / (N B) + 0.5 us); the answers are those of SimGrid 3.32 (flow model CM02, factors off).
    assert NetworkFabric(star(hosts)).time_s(ring(hosts), GIB, fidelity) == pytest.approx(answer_s, rel=1e-6)


@both
@pytest.mark.parametrize(("hosts", "answer_s"), [(64, 21.139792e-3), (144, 21.326204e-3), (256, 21.391450e-3)])
def test_all_to_all_on_a_star(hosts: int, answer_s: float, fidelity: Fidelity) -> None:
    # (N - 1) S / (N B) + 0.5 us; SimGrid again.
    assert NetworkFabric(star(hosts)).time_s(all_to_all(hosts), GIB, fidelity) == pytest.approx(answer_s, rel=1e-6)


def test_ring_of_a_million() -> None:
    # 2 (N - 1) (S / (N B) + 0.5 us) = 1.043029 s for 1,000,080 ranks
    assert NetworkFabric(star(1_000_080)).time_s(ring(1_000_080), GIB) == pytest.approx(1.043029, rel=1e-4)


@pytest.mark.parametrize(
    ("spec", "ranks", "answer_ns"),
    [("torus:4x4x4", 64, 337_044), ("torus:8x8x8", 512, 43_443), ("fat-tree:16x16", 256, 85_886)],
)
def test_neighbours_that_share_no_link(spec: str, ranks: int, answer_ns: int) -> None:
    # S / (N B) + hops x 500 ns of the furthest neighbour: one per axis of a torus, two up and two down in a tree.
    answer_s = NetworkFabric(built(spec)).time_s(shifts(ranks, 1), GIB)
    assert answer_s == pytest.approx(answer_ns * 1e-9, abs=1e-9)


def test_all_to_all_on_a_torus_with_positive_ties() -> None:
    # Of a ring of 4 the positive link carries 1 + 2 hops of each chip, the negative one 1: 3 x 16 S / 64 / B = 16.106127 ms, and the
    # last of the flows over it alone is one of a single hop, 0.5 us later. SimGrid says the same: 16.106627 ms.
    answer_s = NetworkFabric(built("torus:4x4x4", "positive")).time_s(all_to_all(64), GIB)
    assert answer_s == pytest.approx(16.106627e-3, abs=1e-9)


def test_all_to_all_on_a_torus_with_split_ties() -> None:
    # Half of the chips send to the other half: (N / 2)^2 S / N over 2 x 16 links one way = 10.737418 ms, then the latency of
    # the last flow over such a link, one hop.
    answer_s = NetworkFabric(built("torus:4x4x4")).time_s(all_to_all(64), GIB)
    bisection_s = 32 * 32 * GIB / 64 / (32 * BANDWIDTH)
    assert answer_s == pytest.approx(bisection_s + 500e-9, abs=1e-10)


def test_oversubscribed_tree() -> None:
    # 4 leaves of 4 hosts, trunks of half their ports: a leaf sends 4 x 12 S / 16 over 2 B; latency of 4 hops.
    answer_s = NetworkFabric(built("fat-tree:4x4:2")).time_s(all_to_all(16), GIB)
    assert answer_s == pytest.approx(4 * 12 * GIB / 16 / (2 * BANDWIDTH) + 4 * 500e-9, rel=1e-9)


def test_reducing_switch() -> None:
    # Every member sends S to the switch, then it sends S to all: 2 (S / B + 250 ns), of 500 ns from chip to chip.
    switch = machine("switch", endpoints=8, bandwidth_bytes_per_s=BANDWIDTH, latency_s=500e-9)
    assert NetworkFabric(switch).time_s(in_network(8), GIB) == pytest.approx(2 * (GIB / BANDWIDTH + 250e-9))


def test_weights_multiply_shares() -> None:
    # Ranks 0 and 1 swap, 3 S / 2 one way and S / 2 back; the longer way counts.
    uneven = Program("all-to-all-v", "direct", 2, (Phase((moved(Shift(1, 2), Fraction(1, 2), (3.0, 1.0)),)),))
    assert NetworkFabric(star(2)).time_s(uneven, GIB) == pytest.approx(1.5 * GIB / BANDWIDTH + 500e-9)


@both
def test_latencies_count_once_and_per_step(fidelity: Fidelity) -> None:
    # The latency of the collective, and that of the step as often as there are steps.
    bare = NetworkFabric(star(4)).time_s(ring(4), GIB, fidelity)
    slow = NetworkFabric(star(4), latencies=Latencies(collective_s=7e-6, step_s=3e-6)).time_s(ring(4), GIB, fidelity)
    assert slow - bare == pytest.approx(7e-6 + 6 * 3e-6)


def test_members_sit_where_they_are_put() -> None:
    # On a line of 8, members at 0 and 7 are 7 hops apart; two members at one endpoint meet no link.
    line = built("mesh:8")
    assert NetworkFabric(line, np.array([0, 7])).time_s(shifts(2, 1), 0) == pytest.approx(7 * 500e-9)
    assert NetworkFabric(line, np.array([3, 3])).time_s(shifts(2, 1), GIB) == 0


def test_alone_takes_no_time() -> None:
    assert (
        NetworkFabric(star(1), latencies=Latencies(1e-6, 1e-6)).time_s(Program("all-reduce", "ring", 1, ()), GIB) == 0
    )


@pytest.mark.parametrize(("ranks", "size"), [(3, 1.0), (4, -1.0), (4, float("nan"))])
def test_refusals(ranks: int, size: float) -> None:
    with pytest.raises(ValueError, match=r"ranks|bytes"):
        NetworkFabric(star(4)).time_s(ring(ranks), size)


def test_two_collectives_on_a_link_take_twice_as_long() -> None:
    # T = n S' / B + n latency alone; two of them: 2 n S' / B + n latency.
    fabric = NetworkFabric(star(8))
    alone, latency = fabric.time_s(ring(8), GIB), 14 * 500e-9
    together = fabric.concurrent_s([(ring(8), fabric.members, GIB)] * 2)
    assert together == pytest.approx([2 * (alone - latency) + latency] * 2, rel=1e-12)


def test_collectives_that_do_not_meet_do_not_mind() -> None:
    fabric = NetworkFabric(star(8))
    halves = [(ring(4), np.arange(4), 4e9), (ring(4), np.arange(4, 8), 1e9)]
    alone = [NetworkFabric(star(8), members).time_s(program, size) for program, members, size in halves]
    assert fabric.concurrent_s(halves) == pytest.approx(alone, rel=1e-12)


def test_the_shorter_collective_gives_back_what_it_used() -> None:
    # Without latency, links of B, rings of n = 6 steps of s and 3 s bytes: both get B / 2. The short one ends after
    # 12 s / B; by then the long one has sent 6 s of its 18 s and sends the rest alone: 12 s / B + 12 s / B.
    quick = machine("star", endpoints=4, bandwidth_bytes_per_s=BANDWIDTH, latency_s=0.0)
    fabric = NetworkFabric(quick)
    short, long = fabric.concurrent_s([(ring(4), fabric.members, 4e9), (ring(4), fabric.members, 12e9)])
    assert (short, long) == pytest.approx((12 * 1e9 / BANDWIDTH, 24 * 1e9 / BANDWIDTH), rel=1e-9)


def test_repetition_is_skipped_exactly() -> None:
    # 2 (N - 1) steps beside another as long, of which only the first are computed: as N one after the other.
    fabric = NetworkFabric(star(5), latencies=Latencies(5e-6, 1e-6))
    often, once = shifts(5, 1, steps=8), Program("all-gather", "shifts", 5, shifts(5, 1).phases * 8)
    singly = fabric.concurrent_s([(once, fabric.members, 1e6), (once, fabric.members, 1e6)])
    assert fabric.concurrent_s([(often, fabric.members, 1e6)] * 2) == singly


@given(
    st.integers(2, 9), st.integers(1, 8), st.integers(0, 10**9), st.sampled_from(["ring", "star", "fully-connected"])
)
def test_a_collective_alone_is_one_of_one(ranks: int, distance: int, size: int, spec: str) -> None:
    # The loop of several collectives, given one, does what the product steps x step time does.
    network = machine(spec, endpoints=ranks, bandwidth_bytes_per_s=BANDWIDTH, latency_s=1e-6)
    fabric = NetworkFabric(network, latencies=Latencies(1e-6, 2e-6))
    program = shifts(ranks, distance % ranks, steps=5)
    alone = fabric.concurrent_s([(program, fabric.members, size)])
    assert alone == pytest.approx([fabric.time_s(program, size)], abs=1e-11)


@given(st.sampled_from(["torus:3x4", "torus:2x2x2", "mesh:3x2", "hypercube:3", "fat-tree:3x2:2"]), st.data())
def test_flow_lies_between_the_busiest_link_and_the_closed_form(spec: str, data: st.DataObject) -> None:
    # Fair sharing of one-link-at-a-time loads can end later than the busiest link alone, never earlier.
    network = built(spec)
    slow = data.draw(st.lists(st.integers(0, network.links - 1), max_size=3))
    fabric = NetworkFabric(network.degraded(slow, 0.5) if slow else network)
    distances = data.draw(st.lists(st.integers(1, network.endpoints - 1), min_size=1, max_size=3))
    program = shifts(network.endpoints, *distances)
    busiest_s = fabric.loads(program.phases[0]).seconds_per_byte * GIB
    assert fabric.time_s(program, GIB) >= busiest_s * (1 - 1e-9)


@given(
    st.sampled_from(["torus:4x2", "torus:3x3", "ring:6", "fat-tree:3x2:2", "hypercube:3"]),
    st.sampled_from(["split", "positive"]),
)
def test_paths_of_one_endpoint_stand_for_all(spec: str, ties: str) -> None:
    # With an orbit only endpoint 0 is routed; without it every pair is.
    name, _, size = spec.partition(":")
    network = star(int(size)) if name == "ring" else built(spec, ties)
    program = all_to_all(network.endpoints)
    whole = folded(network, paths_of(network, np.arange(network.endpoints), program.phases[0], symmetric=False))
    symmetric = NetworkFabric(network).step(program.phases[0])
    assert symmetric.classes.counts.sum() == whole.classes.counts.sum()
    plain = NetworkFabric(network.degraded([0], 1.0))
    assert NetworkFabric(network).time_s(program, GIB) == plain.time_s(program, GIB)


def test_a_degraded_uplink_sets_the_pace_of_a_ring() -> None:
    # 2 (N - 1) (S / (N B / 4) + latency), in a few classes of flows.
    slow = star(4096).degraded([100, 2000], 0.25)
    fabric, one_way = NetworkFabric(slow), shifts(4096, 1, steps=2 * 4095)
    expected = 2 * 4095 * (GIB / (4096 * BANDWIDTH / 4) + 500e-9)
    assert fabric.time_s(one_way, GIB) == pytest.approx(expected, rel=1e-9)
    assert len(fabric.step(shifts(4096, 1).phases[0]).share) <= 4


def test_too_many_paths_are_refused_before_memory_is_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    # 16,384 x 16,383 transfers, and 12 x 2 crossings of the ring, on stars of which one link is degraded.
    with pytest.raises(InputError, match=r"at least 268,419,072 links, and 33,554,432 fit"):
        NetworkFabric(star(16_384).degraded([0], 0.5)).time_s(all_to_all(16_384), GIB)
    monkeypatch.setattr(network_steps, "MOST_CROSSINGS", 20)
    with pytest.raises(InputError, match=r"at least 24 links, and 20 fit"):
        NetworkFabric(star(12)).time_s(ring(12), GIB)


def test_very_wide_links_do_not_overflow() -> None:
    # Trunks of 13 PB/s: 2 x 262,144 hosts, each to the one opposite, S / N over B and four hops.
    wide = NetworkFabric(built("fat-tree:2x262144"))
    expected = GIB / 524_288 / BANDWIDTH + 4 * 500e-9
    assert wide.time_s(shifts(524_288, 262_144), GIB) == pytest.approx(expected, rel=1e-9)


def test_orbits_may_leave_out_numbers() -> None:
    # Classes 3 and 7 of up and down links are as good as 0 and 1.
    plain = star(6)
    gaps = replace(plain, orbit=4 * plain.kind.astype(np.int64) + 3)
    assert NetworkFabric(gaps).time_s(all_to_all(6), GIB) == NetworkFabric(plain).time_s(all_to_all(6), GIB)
