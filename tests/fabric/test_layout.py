"""Units of groups, and the tours on which rings run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from fabrics import make_fabric
from hypothesis import given
from hypothesis import strategies as st
from machines import catalog_server, star_of, torus_server
from msgspec.structs import replace

from trnsim.collectives import Rotation
from trnsim.fabric.layout import Layout, lay_out, tours
from trnsim.fabric.paths import Paths
from trnsim.fabric.steps import step_traffic
from trnsim.parallel import Group, Placement
from trnsim.topology import server_topology

if TYPE_CHECKING:
    from trnsim.hardware import Server

placements = st.builds(Placement, st.integers(1, 4), st.sampled_from([1, 4, 6]), st.sampled_from([(), (1, 0)]))


@given(placements, st.integers(0, 50), st.integers(1, 60), st.integers(1, 40))
def test_a_layout_says_where_every_member_is(placement: Placement, first: int, stride: int, size: int) -> None:
    # up to the number of the server when there is only one
    group = Group(first, stride, size)
    layout = lay_out(group, placement)
    slots = [placement.slot(rank) for rank in group.members()]
    moved = slots[0].server - layout.slot(0).server
    assert [layout.slot(member) for member in range(size)] == [
        slot._replace(server=slot.server - moved) for slot in slots
    ]
    assert moved == 0 or layout.in_one_server
    assert layout.in_one_server == (len({slot.server for slot in slots}) == 1)
    assert layout.endpoints(placement.chips, size) == [
        (slot.server - moved) * placement.chips + slot.chip for slot in slots
    ]


@given(placements, st.integers(0, 50), st.integers(1, 60), st.integers(1, 40))
def test_inner_members_share_a_server(placement: Placement, first: int, stride: int, size: int) -> None:
    group = Group(first, stride, size)
    inner = lay_out(group, placement).inner
    assert size % inner == 0
    servers = [placement.slot(rank).server for rank in group.members()]
    assert all(len(set(servers[at : at + inner])) == 1 for at in range(0, size, inner))


def test_a_unit_is_as_short_as_the_group_allows() -> None:
    # per server 144 ranks: one member in each, nine in each, or a last server that holds fewer
    placement = Placement(1, 144)
    assert len(lay_out(Group(5, 144, 6945), placement).unit) == 1
    assert len(lay_out(Group(5, 16, 9 * 100), placement).unit) == 9
    assert len(lay_out(Group(5, 16, 9 * 100 + 1), placement).unit) == 901
    assert lay_out(Group(5, 2 * 144, 10), placement).server_step == 2


def layout_of(server: Server, group: Group, ranks_per_chip: int = 1) -> Layout:
    return lay_out(group, Placement(ranks_per_chip, server.chips))


@pytest.mark.parametrize(
    ("name", "group", "ranks_per_chip"),
    [
        ("trn1.32xlarge", Group(0, 1, 16), 1),
        ("trn1.32xlarge", Group(0, 1, 32), 2),
        ("trn2-ultraserver", Group(48, 1, 16), 1),
        ("trn2.48xlarge", Group(0, 1, 48), 1),
    ],
)
def test_tours_go_from_neighbour_to_neighbour(name: str, group: Group, ranks_per_chip: int) -> None:
    # each of the two tours moves within a chip or over one cable, and no cable serves both
    server = catalog_server(name)
    layout = layout_of(server, group, ranks_per_chip)
    two = tours(layout, server)
    assert len(two) == 2
    used: list[frozenset[int]] = []
    for order in two:
        chips = [layout.unit[member].chip for member in order]
        hops = [(here, there) for here, there in zip(chips, chips[1:] + chips[:1], strict=True) if here != there]
        assert [len(server_topology(server).route(*hop)) for hop in hops] == [1] * 16
        used += map(frozenset, hops)
    assert len(set(used)) == 32


@pytest.mark.parametrize(
    ("server", "group"),
    [
        (catalog_server("trn1.32xlarge"), Group(0, 1, 8)),
        (catalog_server("trn1.32xlarge"), Group(8, 1, 32)),  # every chip number twice, in three servers
        (catalog_server("trn2-ultraserver"), Group(0, 1, 64)),
        (catalog_server("trn2-ultraserver"), Group(8, 1, 16)),
        (catalog_server("trn3-gen2-ultraserver"), Group(0, 1, 16)),
        (torus_server((4, 4)), Group(0, 1, 16)),  # its axes are of different classes
        (torus_server((2, 2)), Group(0, 1, 4)),
        (torus_server((16,)), Group(0, 1, 16)),
    ],
)
def test_other_groups_have_no_tours(server: Server, group: Group) -> None:
    assert tours(layout_of(server, group), server) == ()


def test_a_chip_short_of_a_member_has_no_tours() -> None:
    server = catalog_server("trn1.32xlarge")
    assert tours(layout_of(server, Group(0, 1, 31), ranks_per_chip=2), server) == ()


def test_a_rotation_over_several_servers_at_once_is_followed_whole() -> None:
    # blocks of four members over servers of two: what leaves a server is counted pair by pair
    server = replace(catalog_server("trn2.48xlarge"), chips=2, scale_up=star_of(2).scale_up)
    fabric, rotation = make_fabric(server, 4), Rotation(span=8, inner=4, first=1)
    layout = lay_out(Group(0, 1, 8), fabric.placement)
    traffic = step_traffic({rotation: 1}, layout, Paths(fabric.cluster, 1))
    leaving = sum(member // 2 != rotation.targets(member)[0] // 2 for member in range(8))
    assert (len(layout.unit), sum(traffic.by_tier.values())) == (2, leaving)
