"""Generic machines: counted links, routes by their laws, symmetry, and what is refused."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.errors import InputError
from trnsim.topology.machines import is_machine, machine
from trnsim.topology.network import SWITCH, Network
from trnsim.topology.torus import torus_path

RATE, LATENCY_S, BUFFER = 50e9, 500e-9, 1 << 30
SHAPES = st.lists(st.integers(1, 5), min_size=1, max_size=3)


def built(spec: str, endpoints: int | None = None, **options: str) -> Network:
    return machine(spec, endpoints=endpoints, bandwidth_bytes_per_s=RATE, latency_s=LATENCY_S, **options)  # type: ignore[arg-type] # ties only


def everyone(network: Network) -> tuple[np.ndarray, np.ndarray]:
    chips = np.arange(network.endpoints)
    return np.repeat(chips, len(chips)), np.tile(chips, len(chips))


def loads(network: Network, sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Return how many transfers each link carries, parts counted as parts."""
    routes = network.routes(sources, targets)
    crossings = (routes.weight / routes.parts[routes.path_of_crossing]).astype(float)
    return np.bincount(routes.link, crossings, network.links)


@pytest.mark.parametrize(
    ("spec", "endpoints", "links"),
    [
        ("ring", 6, 12),  # 2 N
        ("ring", 2, 2),  # one cable
        ("ring", 1, 0),
        ("star", 5, 10),  # 2 N
        ("switch", 5, 10),
        ("fully-connected", 5, 20),  # N (N - 1)
        ("torus:4x4x4", None, 384),  # 2 x 3 x 64
        ("torus:2x3", None, 18),  # 3 cables in x, 2 rings of 3
        ("mesh:8x8", None, 224),  # 2 x 2 x 8 x 7
        ("hypercube:6", None, 384),  # 6 x 64
        ("hypercube:0", None, 0),
        ("fat-tree:16x16", None, 544),  # 2 x 256 + 2 x 16
    ],
)
def test_links(spec: str, endpoints: int | None, links: int) -> None:
    assert built(spec, endpoints).links == links == sum(built(spec, endpoints).counts().values())


@pytest.mark.parametrize(
    ("spec", "time_ns"), [("torus:4x4x4", 337_044), ("torus:8x8x8", 43_443), ("fat-tree:16x16", 85_886)]
)
def test_neighbour_step_of_peers(spec: str, time_ns: int) -> None:
    # No link has two transfers of i -> i + 1 mod N: the step takes S / (N B) + hops x latency
    network = built(spec)
    chips = np.arange(network.endpoints)
    routes = network.routes(chips, np.roll(chips, -1))
    assert loads(network, chips, np.roll(chips, -1)).max() == 1
    step_s = BUFFER / len(chips) / RATE + network.latencies_s(routes).max()
    assert step_s * 1e9 == pytest.approx(time_ns, abs=1)


def test_all_to_all_of_a_torus_with_ties_both_ways_and_one_way() -> None:
    # Of the 4 x 4 pairs on a ring of 4, hops up per link are 1 + 2 when the tied pair goes up, 1 + 2 / 2 when it is split;
    # 16 pairs of the other axes share each: 48 or 32 transfers of S / N, as peers answer less latency
    for ties, transfers, time_ms in (("positive", 48, 16.106127), ("split", 32, 10.737418)):
        network = built("torus:4x4x4", ties=ties)
        load = loads(network, *everyone(network))
        assert load.max() == transfers
        assert load.max() * BUFFER / 64 / RATE * 1e3 == pytest.approx(time_ms, abs=1e-6)


@given(SHAPES, st.data())
def test_torus_routes_are_those_of_the_servers(dims: list[int], data: st.DataObject) -> None:
    # dimension order, the shorter way round, of two equal ones the positive one
    network = built("torus:" + "x".join(map(str, dims)), ties="positive")
    chip = st.integers(0, network.endpoints - 1)
    source, target = data.draw(chip), data.draw(chip)
    path = torus_path(source, target, tuple(dims))
    names = [network.link_name(link) for link in network.routes([source], [target]).link]
    assert names == [f"chip {a} -> chip {b}" for a, b in pairwise(path)]


@given(SHAPES)
def test_ties_are_cut_into_two_parts_per_tied_axis(dims: list[int]) -> None:
    # parts = 2^k with k the axes of even size > 2 on which the target is opposite; all paths are as long
    network = built("torus:" + "x".join(map(str, dims)))
    opposite = sum(place * int(np.prod(dims[:axis])) for axis, place in enumerate(size // 2 for size in dims))
    routes = network.routes([0], [opposite])
    tied = sum(size % 2 == 0 and size > 2 for size in dims)
    assert routes.parts.tolist() == [2**tied] * 2**tied
    assert set(routes.lengths) == {sum(size // 2 for size in dims)}


@given(SHAPES)
def test_mesh_distance_is_the_sum_over_axes(dims: list[int]) -> None:
    # |x - x'| + |y - y'| + |z - z'|
    network = built("mesh:" + "x".join(map(str, dims)))
    sources, targets = everyone(network)
    place = [np.array(np.unravel_index(chips, dims[::-1])) for chips in (sources, targets)]
    assert (network.routes(sources, targets).lengths == np.abs(place[0] - place[1]).sum(axis=0)).all()


@given(st.integers(0, 6))
def test_hypercube_distance_is_the_number_of_bits(axes: int) -> None:
    # Hamming distance
    network = built(f"hypercube:{axes}")
    chips = np.arange(network.endpoints)
    assert network.routes(chips * 0, chips).lengths.tolist() == [int(chip).bit_count() for chip in chips]


@pytest.mark.parametrize(
    ("spec", "endpoints"),
    [
        ("ring", 6),
        ("star", 5),
        ("fully-connected", 5),
        ("torus:4x3x2", None),
        ("hypercube:3", None),
        ("fat-tree:3x4:2", None),
    ],
)
def test_an_orbit_carries_the_same_load_everywhere(spec: str, endpoints: int | None) -> None:
    # Load by all on a link = crossings from endpoint 0 x endpoints / links of its orbit
    network = built(spec, endpoints)
    assert network.orbit is not None
    by_all = loads(network, *everyone(network))
    chips = np.arange(network.endpoints)
    by_one = np.bincount(network.orbit, loads(network, chips * 0, chips))
    np.testing.assert_allclose(by_all, (by_one * len(chips) / np.bincount(network.orbit))[network.orbit])


def test_a_mesh_has_no_orbits() -> None:
    assert built("mesh:3x3").orbit is None


def test_a_star_path_has_two_latencies_and_a_switch_path_one() -> None:
    star, switch = built("star", 4), built("switch", 4)
    assert star.latencies_s(star.routes([0], [3]))[0] == pytest.approx(2 * LATENCY_S)
    assert switch.latencies_s(switch.routes([0], [3]))[0] == pytest.approx(LATENCY_S)


def test_a_reducing_switch_is_one_link_away() -> None:
    network = built("switch", 4)
    assert network.reduces
    assert not built("star", 4).reduces
    names = [network.link_name(link) for link in network.routes([2, SWITCH], [SWITCH, 1]).link]
    assert names == ["chip 2 -> switch", "switch -> chip 1"]


def test_a_torus_has_no_switch_to_reduce_in() -> None:
    with pytest.raises(ValueError, match="endpoints 0 to 63, not -1"):
        built("torus:4x4x4").routes([0], [SWITCH])


@pytest.mark.parametrize(("spec", "trunk"), [("fat-tree:4x8", 8), ("fat-tree:4x8:2", 4), ("fat-tree:4x8:1.6", 5)])
def test_a_trunk_carries_its_hosts_over_the_oversubscription(spec: str, trunk: int) -> None:
    # hosts x B / oversubscription
    network = built(spec)
    up = network.routes([0], [31]).link[1]
    assert network.bytes_per_s[up] == trunk * RATE
    assert network.link_name(up) == "leaf 0 -> spine"


@pytest.mark.parametrize(
    ("spec", "endpoints", "message"),
    [
        ("taurus:4x4", None, "did you mean torus"),
        ("torus", None, "written like torus:4x4x4"),
        ("torus:4x0", None, "at least 1"),
        ("torus:4x4", 17, "16 chips, not 17"),
        ("fat-tree:4x4:0.5", None, "at least 1"),
        ("fat-tree:4x4x4", None, "written like fat-tree:16x16"),
        ("ring", None, "takes its size from the number of ranks"),
        ("ring:4", 4, "takes its size from the number of ranks"),
        ("star", 0, "at least 1"),
        ("hypercube:21", None, "more than the 1,048,576"),
        ("fully-connected", 5000, "more than the 4,096"),
    ],
)
def test_refused(spec: str, endpoints: int | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        built(spec, endpoints)


def test_case_and_dashes_do_not_count() -> None:
    assert built("Fat_Tree:2X3").endpoints == 6
    assert is_machine("FullyConnected")
    assert not is_machine("trn2-ultraserver")


@pytest.mark.parametrize(("rate", "latency_s"), [(0.0, 0.0), (float("nan"), 0.0), (1e9, -1e-9)])
def test_a_link_carries_something(rate: float, latency_s: float) -> None:
    with pytest.raises(InputError, match="at least 1 B/s"):
        machine("ring", endpoints=4, bandwidth_bytes_per_s=rate, latency_s=latency_s)


def test_degraded_links_keep_their_routes_and_lose_the_symmetry() -> None:
    whole = built("star", 4)
    slowed = whole.degraded(whole.uplinks[:2], 0.25)
    assert slowed.bytes_per_s.tolist() == [RATE / 4, RATE / 4, *[RATE] * 6]
    assert slowed.orbit is None
    assert slowed.routes([0], [1]).link.tolist() == whole.routes([0], [1]).link.tolist()
    with pytest.raises(ValueError, match="above 0 and up to 1"):
        whole.degraded([0], 1.5)
