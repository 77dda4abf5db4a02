"""Lower bounds: by hand on small machines, and never above what any algorithm takes at any fidelity."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from trnsim.collectives import Arrangement, algorithm_names, op_names, program
from trnsim.fabric.bounds import Bounds, LowerBounds
from trnsim.fabric.network_fabric import Fidelity, Latencies, NetworkFabric
from trnsim.topology.machines import machine

if TYPE_CHECKING:
    from trnsim.topology.network import Network

B = 50e9
S = 2.0**30
FIDELITIES: list[Fidelity] = ["closed_form", "flow", "chunk"]


def built(spec: str, endpoints: int | None = None) -> Network:
    return machine(spec, endpoints=endpoints, bandwidth_bytes_per_s=B, latency_s=1e-6)


def whole(network: Network) -> LowerBounds:
    return LowerBounds(network, np.arange(network.endpoints))


def test_all_to_all_on_a_torus() -> None:
    # A chip of 4x4x4 sends 63/64 S over 6 links; 32 chips send 32 x 32 S / 64 over 32 links; the far corner is 6 hops away.
    bounds = whole(built("torus:4x4x4")).of("all-to-all", S)
    assert bounds.endpoint_s == pytest.approx(63 / 64 * S / (6 * B))
    assert bounds.bisection_s == pytest.approx(32 * 32 / 64 * S / (32 * B))
    assert bounds.latency_s == pytest.approx(6e-6)
    assert bounds.largest_s == bounds.bisection_s


@pytest.mark.parametrize(
    ("op", "out", "into"),
    [
        ("all-gather", 1 / 5, 4 / 5),
        ("reduce-scatter", 4 / 5, 1 / 5),
        ("all-to-all", 4 / 5, 4 / 5),
        ("broadcast", 1.0, 1.0),
        ("reduce", 1.0, 1.0),
        ("all-reduce", 1.0, 1.0),
        ("send-recv", 1 / 5, 1 / 5),
        ("barrier", 0.0, 0.0),
        ("all-to-all-v", 0.0, 0.0),
    ],
)
def test_ports_of_a_switch_that_adds(op: str, out: float, into: float) -> None:
    # what a member sends or receives at least, over its one link each way; nothing more, as the switch adds and copies
    assert whole(built("switch", 5)).of(op, S).endpoint_s == pytest.approx(max(out, into) * S / B)


def test_members_without_a_switch_that_adds_share_the_work() -> None:
    # a ring of 5 has 2 links out of each: 2 (n - 1) S in all over 2 n links
    assert whole(built("ring", 5)).of("all-reduce", S).endpoint_s == pytest.approx(2 * 4 * S / (5 * 2 * B))


def test_the_slowest_port_counts() -> None:
    # one link out of chip 0 at a tenth, the other as before: S over 1.1 B, and 2 (n - 1) S over 2 n - 0.9 links
    ring = built("ring", 5)
    link = int(ring.routes([0], [1]).link[0])
    bounds = whole(ring.degraded([link], 0.1)).of("all-reduce", S)
    assert bounds.endpoint_s == pytest.approx(max(S / (1.1 * B), 8 * S / (9.1 * B)))
    assert whole(ring.degraded([link], 0.1)).of("broadcast", S).endpoint_s == pytest.approx(S / (1.1 * B))


def test_a_group_uses_the_links_between_its_members() -> None:
    # chips 0, 1, 2 of a line: 0 has one link, and 2 is 2 us away; the bisection of the line is not theirs
    bounds = LowerBounds(built("mesh:6"), np.arange(3)).of("all-gather", S)
    assert bounds == Bounds(pytest.approx(2 / 3 * S / B), 0.0, pytest.approx(2e-6))  # type: ignore[arg-type]  # approx


def test_halves() -> None:
    # cut of a line of 6: one link. Everything of one half has to pass; of an all-gather half of it, n^2 / 4 of n^2 parts
    # of an all-to-all.
    expected = {"all-reduce": 1, "broadcast": 1, "all-gather": 1 / 2, "reduce-scatter": 1 / 2, "all-to-all": 9 / 6}
    for op, share in expected.items():
        assert whole(built("mesh:6")).of(op, S).bisection_s == pytest.approx(share * S / B), op


def test_latency_takes_the_shortest_way_over_any_members() -> None:
    # around a ring of 7 at most 3 hops; to the neighbour 1; from the root of a broadcast 3
    seven = whole(built("ring", 7))
    found = {op: seven.of(op, 0.0).latency_s for op in ("barrier", "send-recv", "broadcast", "reduce")}
    assert found == pytest.approx({"barrier": 3e-6, "send-recv": 1e-6, "broadcast": 3e-6, "reduce": 3e-6})


def test_a_relay_may_be_faster_than_the_route() -> None:
    # the link from 0 to 1 takes 10 us; over 3 and 2 it is 3 us, and an algorithm may go that way
    ring = built("ring", 4)
    latency_s = ring.latency_s.copy()
    latency_s[ring.routes([0], [1]).link] = 10e-6
    assert whole(replace(ring, latency_s=latency_s)).of("barrier", 0.0).latency_s == pytest.approx(3e-6)


def test_many_members_have_lower_bounds() -> None:
    # more than 512 members: two hops of a ring are sure, though the way is 500
    assert whole(built("ring", 1000)).of("barrier", 0.0).latency_s == pytest.approx(2e-6)
    assert whole(built("ring", 1000).degraded([5], 0.5)).of("all-to-all", S).endpoint_s >= 0.999 * S / (2 * B)


def test_software_comes_on_top_and_alone_is_free() -> None:
    # every collective has at least one step; a group of one has none
    bounds = whole(built("star", 4)).of("barrier", 0.0, collective_s=3e-6, step_s=1e-6)
    assert bounds == Bounds(4e-6, 4e-6, pytest.approx(4e-6 + 2e-6))  # type: ignore[arg-type]  # approx
    assert whole(built("star", 1)).of("all-reduce", S, collective_s=3e-6) == Bounds(0.0, 0.0, 0.0)


@st.composite
def fabrics(draw: st.DrawFn) -> NetworkFabric:
    spec = draw(
        st.sampled_from(
            ["ring", "star", "switch", "fully-connected", "torus:3x2", "mesh:2x3", "hypercube:3", "fat-tree:2x3:2"]
        )
    )
    network = built(spec, None if ":" in spec else draw(st.integers(2, 7)))
    slow = draw(st.lists(st.integers(0, network.links - 1), max_size=2))
    network = network.degraded(slow, 0.3) if slow else network
    seats = draw(st.none() | st.lists(st.integers(0, network.endpoints - 1), min_size=2, max_size=6, unique=True))
    latencies = Latencies(collective_s=2e-6, step_s=1e-6) if draw(st.booleans()) else Latencies()
    return NetworkFabric(network, None if seats is None else np.array(seats), latencies)


@settings(max_examples=40, deadline=None)
@given(fabrics(), st.sampled_from(op_names()), st.sampled_from([0, 1000, 10**6, 10**9]))
def test_no_answer_beats_its_bound(fabric: NetworkFabric, op: str, size: int) -> None:
    # Law, for every algorithm that the group can run and every fidelity.
    ranks = len(fabric.members)
    arrangement = Arrangement(ranks, reducing_switch=fabric.network.reduces, pieces=3)
    software = fabric.latencies
    bounds = LowerBounds(fabric.network, fabric.members).of(
        op, size, collective_s=software.collective_s, step_s=software.step_s
    )
    for name, fidelity in product(algorithm_names(op, arrangement), FIDELITIES):
        time_s = fabric.time_s(program(op, name, arrangement), size, fidelity)
        assert time_s >= bounds.largest_s * (1 - 1e-9), (name, fidelity)
