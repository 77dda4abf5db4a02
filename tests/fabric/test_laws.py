"""Laws that every price obeys, and what is refused."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from fabrics import OPERATIONS, exact_torus, make_fabric, possible, scaled_server, star_server
from hypothesis import assume, given, reject, settings
from hypothesis import strategies as st
from machines import catalog_server, fabric_spec, sourced, switched_server, torus_server
from msgspec.structs import replace

from trnsim.collectives import algorithm_names, op_names
from trnsim.fabric import ClosedFormFabric
from trnsim.fabric.closed_form import CANDIDATES
from trnsim.parallel import Group
from trnsim.topology.perturbations import Impairments
from trnsim.topology.places import Cable, Trunk

if TYPE_CHECKING:
    from trnsim.fabric import Price
    from trnsim.fabric.layout import Layout
    from trnsim.fabric.struck import Culprit
    from trnsim.topology import ClusterTopology

laws = settings(deadline=None, max_examples=60)
operations = st.sampled_from(OPERATIONS)
sizes = st.floats(1, 1e12)
factors = st.floats(1.01, 10)

MACHINES = [
    (torus_server((4, 3)), 1, 2),
    (torus_server((2, 2)), 6, 1),
    (switched_server(2, 2, 2), 4, 4),
    (star_server(1e-6, 1e9), 9, 2),
]
"""Server, servers, ranks per chip."""


@st.composite
def cases(draw: st.DrawFn) -> tuple[int, Group]:
    """Draw the number of a machine, and a group on it of at least two members."""
    number = draw(st.integers(0, len(MACHINES) - 1))
    server, servers, cores = MACHINES[number]
    ranks = server.chips * servers * cores
    stride = draw(st.integers(1, ranks - 1))
    first = draw(st.integers(0, ranks - 1 - stride))
    return number, Group(first, stride, draw(st.integers(2, (ranks - 1 - first) // stride + 1)))


def machine(number: int, *, latency: float = 1.0, bandwidth: float = 1.0) -> ClosedFormFabric:
    server, servers, cores = MACHINES[number]
    spec = fabric_spec([10, 10, 10, 10], [2, 1, 1, 1])
    tiers = tuple(replace(tier, latency_s=sourced(tier.latency_s.value * latency)) for tier in spec.tiers)
    scaled = scaled_server(server, latency=latency, bandwidth=bandwidth)
    return make_fabric(scaled, servers, cores, replace(spec, tiers=tiers))


@laws
@given(cases(), operations, sizes, factors)
def test_time_grows_with_size_and_latency_and_falls_with_bandwidth(
    case: tuple[int, Group], operation: tuple[str, str], size: float, factor: float
) -> None:
    number, group = case
    assume(operation[1] in possible(machine(number), group, operation[0]) and operation[0] != "barrier")
    time_s = machine(number).price(*operation, group, size).time_s
    assert machine(number).price(*operation, group, size * factor).time_s > time_s
    assert machine(number, latency=factor).price(*operation, group, size).time_s > time_s
    assert machine(number, bandwidth=factor).price(*operation, group, size).time_s < time_s


class LiteralFabric(ClosedFormFabric):
    """Prices every group on its own chips."""

    def _as_priced(self, layout: Layout) -> Layout:
        return layout


@settings(laws, max_examples=400)
@given(cases(), operations, sizes, st.data())
def test_groups_that_lie_alike_are_priced_as_one(
    case: tuple[int, Group], operation: tuple[str, str], size: float, data: st.DataObject
) -> None:
    # Moving a group on a torus, or renumbering what switches hold, keeps every route: same price, same bytes. Links that are
    # impaired are those of the group's own chips all the same.
    number, group = case
    healthy = machine(number)
    assume(operation[1] in possible(healthy, group, operation[0]))
    wrong = data.draw(impairments(healthy.cluster, (0.0, 0.2, 0.7)))
    fabric, literal = (kind(healthy.cluster, healthy.placement, wrong) for kind in (ClosedFormFabric, LiteralFabric))
    try:
        price = literal.price(*operation, group, size)
    except ValueError:  # a chip is cut off
        reject()
    assert fabric.price(*operation, group, size) == price
    assert price.time_s >= healthy.price(*operation, group, size).time_s


@st.composite
def impairments(draw: st.DrawFn, cluster: ClusterTopology, left: tuple[float, ...]) -> Impairments:
    """Draw some NICs and cables of which such shares are left, and trunks; none in a third of the cases."""
    if draw(st.integers(0, 2)) == 0:
        return Impairments()
    shares, servers = st.sampled_from(left), st.integers(0, cluster.servers - 1)
    ends = sorted({(min(pair), max(pair)) for pair in cluster.server_topology.graph.edges})
    cables = st.dictionaries(st.sampled_from(ends), shares, max_size=3) if ends else st.just({})
    below_the_top = cluster.fabric.tiers_used - 1 if cluster.fabric else 0
    trunks = st.builds(Trunk, st.integers(0, max(0, below_the_top - 1)), st.integers(0, 2))
    return Impairments(
        nics=draw(st.dictionaries(st.integers(0, cluster.chips - 1), shares, max_size=2)) if cluster.fabric else {},
        cables=draw(st.dictionaries(servers, cables, max_size=2)),
        trunks=draw(st.dictionaries(trunks, st.sampled_from([0.2, 0.7]), max_size=1)) if below_the_top else {},
    )


@settings(laws, max_examples=200)
@given(cases(), operations, sizes, st.data())
def test_each_culprit_makes_a_transfer_dearer_alone_and_all_together_as_dear_as_it_is(
    case: tuple[int, Group], operation: tuple[str, str], size: float, data: st.DataObject
) -> None:
    number, group = case
    healthy = machine(number)
    assume(operation[1] in possible(healthy, group, operation[0]))
    wrong = data.draw(impairments(healthy.cluster, data.draw(st.sampled_from([(0.2, 0.7), (0.0, 0.2, 0.7)]))))

    def priced(impaired: Impairments) -> Price:
        return ClosedFormFabric(healthy.cluster, healthy.placement, impaired).price(*operation, group, size)

    try:
        price = priced(wrong)
    except ValueError:  # a chip is cut off
        reject()
    before_s = priced(Impairments()).time_s
    lost_s = ClosedFormFabric(healthy.cluster, healthy.placement, wrong).losses(price.task, group)
    assert sum(lost_s.values()) == pytest.approx(price.time_s - before_s, rel=1e-6, abs=1e-12)
    shares = [*wrong.nics.values(), *(share for cables in wrong.cables.values() for share in cables.values())]
    for culprit in lost_s if all(shares) else ():  # another way round may cost nothing
        assert priced(alone(culprit, wrong)).time_s > before_s


def alone(culprit: Culprit, wrong: Impairments) -> Impairments:
    """Return impairments of which only one is left."""
    if isinstance(culprit, Trunk):
        return Impairments(trunks={culprit: wrong.trunks[culprit]})
    if isinstance(culprit, int):
        return Impairments(nics={culprit: wrong.nics[culprit]})
    return Impairments(cables={culprit.server: {culprit.ends: wrong.cables[culprit.server][culprit.ends]}})


@laws
@given(st.integers(2, 6), operations, sizes, st.integers(0, 3))
def test_a_failed_nic_costs_what_two_chips_with_one_pay(
    servers: int, operation: tuple[str, str], size: float, chip: int
) -> None:
    # its neighbour, which is of another group, sends as much by the same NIC at once; the way there takes longer
    healthy, group = make_fabric(torus_server((2, 2)), 6), Group(chip, 4, servers)
    assume(operation[0] != "barrier")
    assume(operation[1] in possible(healthy, group, operation[0]))
    halved, failed = (
        ClosedFormFabric(healthy.cluster, healthy.placement, Impairments(nics={4 + chip: share}))
        for share in (0.5, 0.0)
    )
    prices = halved.price(*operation, group, size), failed.price(*operation, group, size)
    assert prices[1].time_s > prices[0].time_s
    assert sum(prices[1].busy_s.values()) == pytest.approx(sum(prices[0].busy_s.values()))
    assert list(failed.losses(prices[1].task, group)) == [4 + chip]
    if prices[0].time_s > healthy.price(*operation, group, size).time_s:
        assert list(halved.losses(prices[0].task, group)) == [4 + chip]


def test_a_nic_is_shared_by_all_that_have_no_other() -> None:
    # with one NIC left of four, each of four groups has a quarter of it
    healthy, group = make_fabric(torus_server((2, 2)), 2), Group(1, 4, 2)
    failed, quarter = (
        ClosedFormFabric(healthy.cluster, healthy.placement, Impairments(nics=dict.fromkeys(chips, share)))
        for chips, share in (((5, 6, 7), 0.0), ((4, 5, 6, 7), 0.25))
    )
    prices = [fabric.price("all-reduce", "ring", group, 1e9).time_s for fabric in (failed, quarter)]
    assert prices[0] == pytest.approx(prices[1], rel=1e-4)


def test_what_goes_round_a_failed_link_meets_what_others_send_there() -> None:
    # of a 4 x 4 torus the first row sends to the right; round the first link it goes by the second row, which does as well
    server = exact_torus((4, 4), 1e-6, 1e9)
    row, healthy = Group(0, 1, 4), make_fabric(server)
    failed, halved = (
        ClosedFormFabric(healthy.cluster, healthy.placement, Impairments(cables={0: {("chip 0", "chip 1"): share}}))
        for share in (0.0, 0.5)
    )
    shift = "send-recv", "direct", row, 1e9
    assert halved.price(*shift).time_s == pytest.approx(2 * healthy.price(*shift).time_s, rel=1e-3)
    assert failed.price(*shift).time_s == pytest.approx(2 * healthy.price(*shift).time_s, rel=1e-3)
    assert list(failed.losses(failed.price(*shift).task, row)) == [Cable(0, ("chip 0", "chip 1"))]


def test_of_two_failed_links_that_one_is_blamed_which_is_in_the_way() -> None:
    healthy = make_fabric(exact_torus((4, 4), 1e-6, 1e9))
    cables = {("chip 1", "chip 13"): 0.0, ("chip 4", "chip 5"): 0.0}
    failed = ClosedFormFabric(healthy.cluster, healthy.placement, Impairments(cables={0: cables}))
    row = Group(4, 1, 4)
    lost_s = failed.losses(failed.price("all-reduce", "ring", row, 1e9).task, row)
    assert list(lost_s) == [Cable(0, ("chip 4", "chip 5"))]


@laws
@given(cases(), operations, sizes)
def test_doubled_bandwidth_halves_the_bandwidth_term(
    case: tuple[int, Group], operation: tuple[str, str], size: float
) -> None:
    # time = latency + size / rate: the part that is left without bytes does not change, the other halves
    number, group = case
    assume(operation[1] in possible(machine(number), group, operation[0]))
    once, twice = machine(number), machine(number, bandwidth=2.0)
    latency_s = once.price(*operation, group, 0).time_s
    assert twice.price(*operation, group, 0).time_s == latency_s
    term_s = once.price(*operation, group, size).time_s - latency_s
    assert twice.price(*operation, group, size).time_s - latency_s == pytest.approx(term_s / 2, rel=1e-6, abs=1e-15)


@laws
@given(cases(), operations, sizes)
def test_doubled_latency_doubles_the_time_of_nothing(
    case: tuple[int, Group], operation: tuple[str, str], size: float
) -> None:
    number, group = case
    assume(operation[1] in possible(machine(number), group, operation[0]))
    empty_s = machine(number).price(*operation, group, 0).time_s
    assert machine(number, latency=2.0).price(*operation, group, 0).time_s == pytest.approx(2 * empty_s)


@laws
@given(cases(), st.sampled_from(op_names()), sizes)
def test_best_is_never_slower_than_a_candidate(case: tuple[int, Group], op: str, size: float) -> None:
    number, group = case
    fabric = machine(number)
    names = [name for name in CANDIDATES if name in algorithm_names(op)] or possible(fabric, group, op)
    prices = {algorithm: fabric.price(op, algorithm, group, size) for algorithm in names}
    best = fabric.best(op, group, size)
    assert best.time_s == min(price.time_s for price in prices.values())
    assert best == prices[best.algorithm]
    some = names[:2]
    assert fabric.best(op, group, size, some).time_s == min(prices[algorithm].time_s for algorithm in some)


@laws
@given(st.data(), operations, st.sampled_from([(4, 4), (5, 3), (3, 4, 2)]))
def test_moving_a_group_over_a_torus_changes_nothing(
    data: st.DataObject, operation: tuple[str, str], dims: tuple[int, ...]
) -> None:
    # a torus looks the same from every chip, so a group moved along the last axis costs what it did
    fabric = make_fabric(torus_server(dims))
    chips, step = math.prod(dims), math.prod(dims[:-1])
    stride = data.draw(st.integers(1, chips - 1 - step))
    size = data.draw(st.integers(2, max(2, (chips - 1 - step) // stride + 1)))
    first = data.draw(st.integers(0, chips - 1 - step - stride * (size - 1)))
    assume(operation[1] in possible(fabric, Group(first, stride, size), operation[0]))
    here, there = (fabric.price(*operation, Group(at, stride, size), 1e9) for at in (first, first + step))
    assert here.time_s == pytest.approx(there.time_s)
    assert here.bytes_by_kind == pytest.approx(there.bytes_by_kind)


def test_equal_servers_give_equal_prices() -> None:
    # a group inside one server costs the same in each
    fabric = make_fabric(catalog_server("trn2.48xlarge"), 3)
    groups = [Group(server * 16 + 4, 1, 4) for server in range(3)]
    assert len({fabric.price("all-reduce", "ring", group, 1e6).time_s for group in groups}) == 1


def test_best_takes_the_plain_algorithm_where_there_is_no_hierarchy() -> None:
    # in one server the hierarchical algorithm is its ring, and the ring is named
    fabric = make_fabric(exact_torus((8,), 1e-6, 1e9))
    assert fabric.best("all-reduce", Group(0, 1, 8), 1e9).algorithm == "ring"
    assert fabric.best("all-reduce", Group(0, 1, 8), 1).algorithm == "direct"


def test_best_goes_by_hierarchy_where_servers_are_far_apart() -> None:
    fabric = make_fabric(catalog_server("trn2.48xlarge"), 8)
    assert fabric.best("all-reduce", Group(0, 1, 128), 1e9).algorithm == "hierarchical"


def test_bytes_name_the_way_of_a_group() -> None:
    fabric = make_fabric(catalog_server("trn2-ultraserver"), 8, 4, fabric_spec([8, 16, 64], [1, 1, 1]))

    def kinds(group: Group) -> tuple[str, ...]:
        return tuple(fabric.price("all-gather", "ring", group, 1.0).bytes_by_kind)

    assert kinds(Group(0, 1, 4)) == ("core-link",)
    assert kinds(Group(0, 4, 4)) == ("neuronlink-xy",)
    assert kinds(Group(0, 64, 4)) == ("neuronlink-z",)
    assert kinds(Group(0, 256, 8)) == ("efa", "tier0-tier1", "tier1-tier2")
    assert kinds(Group(5, 1, 1)) == ()


def test_links_are_counted_with_the_core_links() -> None:
    # 4 cores on a chip: 12 ordered pairs
    fabric = make_fabric(catalog_server("trn2-ultraserver"), 2, 4)
    counts = fabric.link_counts()
    assert counts["core-link"] == 2 * 64 * 12
    assert counts["neuronlink-xy"] == 2 * 256
    assert counts["efa"] == 2 * 128
    assert "core-link" not in make_fabric(catalog_server("trn2-ultraserver")).link_counts()


@pytest.mark.parametrize("size", [-1.0, math.nan])
def test_a_size_below_nothing_is_refused(size: float) -> None:
    with pytest.raises(ValueError, match="at least 0 bytes"):
        make_fabric(torus_server((4,))).price("all-reduce", "ring", Group(0, 1, 4), size)


def test_unknown_names_are_refused_with_the_list() -> None:
    fabric = make_fabric(torus_server((4,)))
    with pytest.raises(ValueError, match="recursive-halving-doubling"):
        fabric.price("all-reduce", "rings-of-saturn", Group(0, 1, 4), 1)
    with pytest.raises(ValueError, match="reduce-scatter"):
        fabric.price("reduce-all", "ring", Group(0, 1, 4), 1)


def test_ranks_outside_the_only_server_are_refused() -> None:
    fabric = make_fabric(torus_server((4,)))
    with pytest.raises(ValueError, match="no path leaves a server"):
        fabric.price("all-reduce", "ring", Group(0, 1, 8), 1)
    with pytest.raises(ValueError, match="no path leaves a server"):
        fabric.send(0, 4, 1)


def test_a_rank_does_not_send_to_itself() -> None:
    with pytest.raises(ValueError, match="rank 2 cannot send to itself"):
        make_fabric(torus_server((4,))).send(2, 2, 1)
