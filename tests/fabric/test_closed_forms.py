"""Prices against closed forms worked out by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from fabrics import cores_of, exact_link, exact_torus, make_fabric, star_server
from machines import catalog_server, fabric_spec, sourced, star_of, switched_server
from msgspec.structs import replace

from trnsim.fabric import LATENCY
from trnsim.hardware import StarScaleUp
from trnsim.parallel import Group

if TYPE_CHECKING:
    from trnsim.fabric import ClosedFormFabric

S = 2.0**30
B = 50e9
ALPHA = 500e-9


def whole(fabric: ClosedFormFabric) -> Group:
    return Group(0, 1, fabric.placement.ranks_per_server * fabric.cluster.servers)


@pytest.mark.parametrize("ranks", [3, 4, 7, 16])
def test_ring_on_a_ring_of_neighbours(ranks: int) -> None:
    # both ways at once, half of the buffer each: 2(n-1) steps of S/(2n), so 2(n-1)/n S/(2B) + 2(n-1) alpha
    fabric = make_fabric(exact_torus((ranks,), ALPHA, B))
    expected = 2 * (ranks - 1) / ranks * S / (2 * B) + 2 * (ranks - 1) * ALPHA
    price = fabric.price("all-reduce", "ring", whole(fabric), S)
    assert price.time_s == pytest.approx(expected, rel=1e-12)
    assert price.slowest_kind == "torus"
    for half in ("reduce-scatter", "all-gather"):
        assert fabric.price(half, "ring", whole(fabric), S).time_s == pytest.approx(expected / 2, rel=1e-12)


def test_two_neighbours_share_one_cable() -> None:
    # n = 2: both ways lead over the same cable, so the two halves follow each other: 2 steps of S/2
    fabric = make_fabric(exact_torus((2,), ALPHA, B))
    assert fabric.price("all-reduce", "ring", whole(fabric), S).time_s == pytest.approx(2 * (S / (2 * B) + ALPHA))


@pytest.mark.parametrize("side", [3, 4, 5])
def test_two_cycles_on_a_full_square_torus(side: int) -> None:
    # two disjoint cycles, both ways: every link busy in every step, 2(n-1) steps of S/(4n) over one hop
    fabric = make_fabric(exact_torus((side, side), ALPHA, B))
    ranks = side**2
    expected = 2 * (ranks - 1) * (S / (4 * ranks * B) + ALPHA)
    assert fabric.price("all-reduce", "ring", whole(fabric), S).time_s == pytest.approx(expected, rel=1e-12)


def test_half_a_torus_is_one_ring_and_pays_its_hops() -> None:
    # 8 of 16 chips in the order of ranks: rows of 4; from the end of a row to the next and back it is two hops, on
    # links that no other transfer of the step uses
    fabric = make_fabric(exact_torus((4, 4), ALPHA, B))
    expected = 2 * 7 * (S / (2 * 8 * B) + 2 * ALPHA)
    assert fabric.price("all-reduce", "ring", Group(0, 1, 8), S).time_s == pytest.approx(expected, rel=1e-12)


def test_every_second_chip_of_a_ring_pays_two_hops() -> None:
    # rule: groups without a direct ring pay their hops, and their halves do not meet
    fabric = make_fabric(exact_torus((8,), ALPHA, B))
    expected = 2 * 3 * (S / (2 * 4 * B) + 2 * ALPHA)
    assert fabric.price("all-reduce", "ring", Group(0, 2, 4), S).time_s == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("ranks", [2, 5, 16])
def test_single_switch(ranks: int) -> None:
    # a chip has one link to the switch, so both ways of a ring share it: 2(n-1)(S/(nB) + 2 alpha); direct: two steps
    # in which it carries (n-1)/n S; halving: 2 (n-1)/n S/B in 2 ceil(log2 n) steps; a path is two links
    fabric = make_fabric(switched_server(ranks, 1, 1))
    rate, path_s = 50e9, 2e-6  # half of 100 GB/s; two links of 1 us
    volume = 2 * (ranks - 1) / ranks * S / rate
    steps = {"ring": 2 * (ranks - 1), "direct": 2, "recursive-halving-doubling": 2 * (ranks - 1).bit_length()}
    for algorithm, count in steps.items():
        price = fabric.price("all-reduce", algorithm, whole(fabric), S)
        assert price.time_s == pytest.approx(volume + count * path_s, rel=1e-12), algorithm


@pytest.mark.parametrize(
    ("servers", "simgrid_s"),
    [
        (8, 37.587964e-3),
        (64, 42.341584e-3),
        (144, 42.794409e-3),
        (512, 43.376787e-3),
        (1_024, 43.930730e-3),
        (1_000_080, 1.043029),
    ],
)
def test_ring_of_one_nic_per_server_is_the_star_of_simgrid(servers: int, simgrid_s: float) -> None:
    # both ways share the NIC, so nothing is gained: 2(N-1)(S/(N B) + latency); SimGrid 3.32 (CM02 without correction
    # factors) answers as given for a star of full-duplex links; the last is its law extended
    fabric = make_fabric(star_server(ALPHA, B), servers)
    price = fabric.price("all-reduce", "ring", whole(fabric), S)
    assert price.time_s == pytest.approx(2 * (servers - 1) * (S / (servers * B) + ALPHA), rel=1e-12)
    assert price.time_s == pytest.approx(simgrid_s, rel=1e-6)


@pytest.mark.parametrize("servers", [2, 3, 6, 64, 6_945])
def test_halving_of_one_nic_per_server(servers: int) -> None:
    # 2 (n-1)/n S/B + 2 ceil(log2 n) latency for every n; hierarchical is the same where servers have one member
    fabric = make_fabric(star_server(ALPHA, B), servers)
    expected = 2 * (servers - 1) / servers * S / B + 2 * (servers - 1).bit_length() * ALPHA
    for algorithm in ("recursive-halving-doubling", "hierarchical"):
        price = fabric.price("all-reduce", algorithm, whole(fabric), S)
        assert price.time_s == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("dims", "expected_ns"), [((4, 4, 4), 337_044), ((8, 8, 8), 43_443)])
def test_neighbour_step_on_a_torus(dims: tuple[int, ...], expected_ns: int) -> None:
    # rank i to i + 1, S/N bytes: S/(N B) + 3 hops for the last, who has to go back on all three axes
    fabric = make_fabric(exact_torus(dims, ALPHA, B))
    price = fabric.price("send-recv", "direct", whole(fabric), S)
    assert price.time_s * 1e9 == pytest.approx(expected_ns, abs=1)


@pytest.mark.parametrize("nic", [1e6, 12.5e9, 25e9, 1e15])
def test_hierarchical_follows_the_rule_of_the_narrower_way(nic: float) -> None:
    # r chips on a ring in each of m servers, n = r m. Inside 2(r-1)/r S/B_up with B_up = 2B, between
    # 2(m-1)/m S/(r B_nic), one after the other. Where one way is far narrower than the other that is the rule
    # 2(n-1)/n S/min(B_up, r B_nic) but for 1/r or 1/m; where both are equally wide it is at most twice the rule.
    r, m = 16, 32
    server = replace(exact_torus((r,), 0.0, B), scale_out=exact_link("efa", 0.0, nic))
    fabric = make_fabric(server, m)
    time_s = fabric.price("all-reduce", "hierarchical", whole(fabric), S).time_s
    inside, between = 2 * (r - 1) / r * S / (2 * B), 2 * (m - 1) / m * S / (r * nic)
    assert time_s == pytest.approx(inside + between, rel=1e-12)
    rule = 2 * (r * m - 1) / (r * m) * S / min(2 * B, r * nic)
    assert rule * (1 - 1 / r) < time_s < 2 * rule
    if nic in {1e6, 1e15}:
        assert time_s == pytest.approx(rule, rel=1 / r)


def test_two_cores_of_a_chip_use_their_own_link() -> None:
    # all-reduce of two cores: 2 steps of S/2 over the core link, whatever the other cores do
    fabric = make_fabric(exact_torus((4,), ALPHA, B), ranks_per_chip=4)
    cores = cores_of(fabric.cluster.server_topology.server.chip)
    rate, latency_s = cores.link_bytes_per_s(4), cores.link_latency_s.value
    price = fabric.price("all-reduce", "ring", Group(4, 1, 2), S)
    assert price.time_s == pytest.approx(S / rate + 2 * latency_s, rel=1e-12)
    assert price.bytes_by_kind == {"core-link": pytest.approx(2 * S)}


@pytest.mark.parametrize("cores", [1, 2, 4])
def test_parallel_groups_on_a_chip_share_its_links(cores: int) -> None:
    # one rank of each chip: the other cores' groups do the same, so a group has 1/cores of every link
    fabric = make_fabric(exact_torus((5,), ALPHA, B), ranks_per_chip=cores)
    expected = 2 * 4 * (S / (2 * 5 * B / cores) + ALPHA)
    assert fabric.price("all-reduce", "ring", Group(0, cores, 5), S).time_s == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("cores", [1, 2, 4])
def test_parallel_groups_on_a_chip_share_its_nic(cores: int) -> None:
    # as above, on the NICs: 2(n-1)(S/(n B/cores) + latency)
    fabric = make_fabric(star_server(ALPHA, B), 6, cores)
    expected = 2 * 5 * (S / (6 * B / cores) + ALPHA)
    assert fabric.price("all-reduce", "ring", Group(1 % cores, cores, 6), S).time_s == pytest.approx(
        expected, rel=1e-12
    )


def test_all_ranks_of_a_chip_in_one_group_share_with_nobody() -> None:
    # 4 ranks on each of 5 chips, one ring of 20: between chips one transfer each way of S/40, at the full rate; the
    # core links are slower here and bind, one transfer each way too
    server = exact_torus((5,), ALPHA, B)
    cores = replace(cores_of(server.chip), link_bandwidth_bytes_per_s=sourced(B / 10), link_latency_s=sourced(0.0))
    chip = replace(server.chip, neuron_cores=cores)
    fabric = make_fabric(replace(server, chip=chip), ranks_per_chip=4)
    price = fabric.price("all-reduce", "ring", whole(fabric), S)
    assert price.time_s == pytest.approx(2 * 19 * (S / (40 * B / 10) + ALPHA), rel=1e-12)
    assert price.slowest_kind == "core-link"
    assert price.bytes_by_kind == pytest.approx({"core-link": 2 * 19 * S * 15 / 20, "torus": 2 * 19 * S * 5 / 20})


def test_send_to_a_neighbour_core_chip_and_server() -> None:
    # bytes/rate + latency of the path; every rank of a chip sends at once, unless both ends are on one chip
    server = replace(exact_torus((4,), ALPHA, B), scale_out=exact_link("efa", 10 * ALPHA, B / 5))
    fabric = make_fabric(server, 2, ranks_per_chip=2)
    cores = cores_of(server.chip)
    rate, core_s = cores.link_bytes_per_s(2), cores.link_latency_s.value
    assert fabric.send(0, 1, S).time_s == pytest.approx(S / rate + core_s)
    assert fabric.send(0, 2, S).time_s == pytest.approx(2 * S / B + ALPHA)
    assert fabric.send(0, 4, S).time_s == pytest.approx(2 * S / B + 2 * ALPHA)
    assert fabric.send(8, 0, S).time_s == pytest.approx(2 * 5 * S / B + 10 * ALPHA)
    assert fabric.send(8, 0, S) == fabric.send(0, 8, S)
    assert fabric.send(8, 0, S).bytes_by_kind == {"efa": 2 * S}


def test_send_costs_the_same_both_ways() -> None:
    # to the other rack: over the switch to the twin, two links, and across
    fabric = make_fabric(switched_server(2, 1, 2, (1e-6, 2e-6, 3e-6)))
    there, back = fabric.send(0, 3, S), fabric.send(3, 0, S)
    assert there.time_s == back.time_s == pytest.approx(S / B + 2 * 1e-6 + 3e-6)
    assert there.bytes_by_kind == back.bytes_by_kind == {"sled": 2 * S, "cross": S}


def test_oversubscribed_trunks_limit_what_goes_through_them() -> None:
    # 2:1 above the first tier: servers under one switch keep the NIC, others half of it
    star, spec = star_server(ALPHA, B), fabric_spec([6, 6, 6], [2, 1, 1], planes=1)
    fabric = make_fabric(star, 8, spec=spec)
    below = fabric.price("all-reduce", "direct", Group(0, 1, 4), S)
    above = fabric.price("all-reduce", "direct", Group(0, 1, 8), S)
    assert below.time_s == pytest.approx(2 * (3 / 4 * S / B + ALPHA))
    assert above.time_s == pytest.approx(2 * (7 / 8 * S / (B / 2) + ALPHA + 1e-6))
    assert (below.slowest_kind, above.slowest_kind) == ("efa", "tier0-tier1")
    # 8 x 4 ordered pairs meet above their switch; each of 2 x 32 transfers of S/8 goes up and down
    assert above.bytes_by_kind == pytest.approx({"efa": 2 * 2 * 7 * S, "tier0-tier1": 2 * 2 * 4 * S})


def test_bytes_by_kind_follow_every_link_of_a_path() -> None:
    # chip to chip in a rack: up and down; to the other rack: up, down, across (over the twin)
    fabric = make_fabric(switched_server(2, 2, 2))
    assert fabric.send(0, 1, S).bytes_by_kind == {"sled": 2 * S}
    assert fabric.send(0, 3, S).bytes_by_kind == {"rack": 2 * S}
    assert fabric.send(0, 7, S).bytes_by_kind == {"rack": 2 * S, "cross": S}


def test_small_messages_are_bound_by_latency() -> None:
    fabric = make_fabric(exact_torus((4,), ALPHA, B))
    price = fabric.price("all-reduce", "ring", whole(fabric), 8)
    assert price.slowest_kind == LATENCY
    assert price.time_s == pytest.approx(6 * ALPHA, rel=1e-3)


def test_trn1_bandwidth_doubles_when_all_chips_take_part() -> None:
    # two cycles instead of one: measured bus bandwidth 131 against 70.5 GB/s (nccom-test tables of trn1.32xlarge)
    fabric = make_fabric(catalog_server("trn1.32xlarge"))
    busbw = {
        ranks: 2 * (ranks - 1) / ranks * S / (fabric.price("all-reduce", "ring", Group(0, 1, ranks), S).time_s)
        for ranks in (4, 8, 16)
    }
    assert busbw[4] == pytest.approx(70.5e9, rel=0.1)
    assert busbw[8] == pytest.approx(70.5e9, rel=0.1)
    assert busbw[16] == pytest.approx(131e9, rel=0.1)


def test_a_group_of_one_costs_nothing() -> None:
    fabric = make_fabric(exact_torus((4,), ALPHA, B), ranks_per_chip=2)
    for algorithm in ("ring", "direct", "recursive-halving-doubling", "hierarchical"):
        price = fabric.price("all-reduce", algorithm, Group(3, 8, 1), S)
        assert (price.time_s, dict(price.bytes_by_kind)) == (0.0, {})


@pytest.mark.parametrize(("r", "m", "nic"), [(8, 4, B / 10), (8, 4, B), (2, 3, B / 3), (4, 16, B / 7)])
def test_a_rail_ring_has_the_bandwidth_of_all_nics_or_of_the_server(r: int, m: int, nic: float) -> None:
    # p = r m members, r rings of S/(r p) a step; a NIC carries one of them, a chip's link r - 1 and both ends of none
    server = replace(star_of(r), scale_up=StarScaleUp(exact_link("switch", ALPHA / 2, B)))
    server = replace(server, scale_out=exact_link("nic", 10 * ALPHA, nic))
    fabric, p = make_fabric(server, m), r * m
    price = fabric.price("all-reduce", "rail-ring", whole(fabric), S)
    a_step = S / (r * p) * max(1 / nic, (r - 1) / B)
    latencies = (
        m * 10 * ALPHA + (p - 1 - m) * ALPHA
    )  # of the longest way along a ring: it leaves each of m servers once
    assert price.time_s == pytest.approx(2 * ((p - 1) * a_step + latencies), rel=1e-12)
    assert price.bytes_by_kind["nic"] == pytest.approx(2 * 2 * (p - 1) * S / r / p * m * r)


def test_a_step_on_gpus_takes_the_rails_and_on_trainium_does_not() -> None:
    # one NIC: 2 S / B; all eight: 2 S / 8 B, and the synchronous phases of hierarchical take longer than that
    link = exact_link("switch", 0.0, B)
    gpus = replace(star_of(8), scale_up=StarScaleUp(link), scale_out=exact_link("nic", 0.0, B / 8))
    fabric = make_fabric(gpus, 4)
    assert fabric.best("all-reduce", whole(fabric), S).algorithm == "rail-ring"
    assert fabric.best("all-reduce", Group(0, 8, 4), S).algorithm != "rail-ring"
    torus = make_fabric(replace(exact_torus((8,), 0.0, B), scale_out=exact_link("nic", 0.0, B / 8)), 4)
    assert torus.best("all-reduce", whole(torus), S).algorithm != "rail-ring"


@pytest.mark.parametrize("op", ["all-gather", "reduce-scatter"])
def test_what_is_no_all_reduce_has_rings_alone_between_servers_of_gpus(op: str) -> None:
    # of 8 bytes over 32 members five steps of halving are faster than 31 of a ring, but NCCL does not have them
    gpus = replace(star_of(8), scale_up=StarScaleUp(exact_link("switch", ALPHA / 2, B)))
    fabric = make_fabric(replace(gpus, scale_out=exact_link("nic", 10 * ALPHA, B)), 4)
    best = fabric.best(op, whole(fabric), 8)
    assert best.time_s > fabric.price(op, "recursive-halving-doubling", whole(fabric), 8).time_s
    assert best.algorithm == "rail-ring"
    assert fabric.best(op, Group(0, 8, 4), 8).algorithm == "direct"  # one member to a server has no rails
    assert fabric.best("all-reduce", whole(fabric), 8).algorithm != "rail-ring"


@pytest.mark.parametrize(("r", "m"), [(8, 1), (1, 4), (2, 3), (8, 16)])
def test_latencies_of_a_rail_ring_add_up_along_a_ring(r: int, m: int) -> None:
    gpus = replace(star_of(r), scale_up=StarScaleUp(exact_link("switch", ALPHA / 2, B)))
    fabric, p = make_fabric(replace(gpus, scale_out=exact_link("nic", 10 * ALPHA, B)), m), r * m
    crossings = min(m, p - 1) if m > 1 else 0
    expected = crossings * 10 * ALPHA + (p - 1 - crossings) * ALPHA
    assert fabric.price("all-gather", "rail-ring", whole(fabric), 0).time_s == pytest.approx(expected, rel=1e-12)
