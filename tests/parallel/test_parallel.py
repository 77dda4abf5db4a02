"""The mesh, its groups, the placement and the split of layers."""

import math
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.parallel import Group, Mesh, Placement, split_layers

axes = ("tp", "cp", "pp", "dp")
meshes = st.builds(
    lambda sizes, order: Mesh(dict(zip(axes, sizes, strict=True)), order),
    st.tuples(*[st.integers(1, 5)] * 4),
    st.sampled_from(list(permutations(axes))),
)


@given(meshes)
def test_ranks_and_coordinates_are_a_bijection(mesh: Mesh) -> None:
    # Law: rank -> coordinates -> rank is the identity on 0 .. product(sizes) - 1.
    assert mesh.ranks == math.prod(mesh.sizes.values())
    seen = {mesh.rank(mesh.coordinates(rank)) for rank in range(mesh.ranks)}
    assert seen == set(range(mesh.ranks))


@given(meshes, st.sampled_from(axes))
def test_groups_of_an_axis_partition_the_ranks(mesh: Mesh, axis: str) -> None:
    # Law: the groups of one axis are disjoint, cover all ranks, and members differ in that axis only.
    groups = {mesh.group(axis, rank) for rank in range(mesh.ranks)}
    members = [rank for group in groups for rank in group.members()]
    assert sorted(members) == list(range(mesh.ranks))
    for group in groups:
        others = [{**mesh.coordinates(rank), axis: 0} for rank in group.members()]
        assert all(other == others[0] for other in others)
        assert [mesh.coordinates(rank)[axis] for rank in group.members()] == list(range(mesh.size(axis)))


def test_the_default_order_is_megatrons() -> None:
    # Megatron-LM and NxD: tensor ranks are consecutive, then data, then pipeline.
    mesh = Mesh({"tp": 32, "pp": 4, "dp": 4}, ("tp", "cp", "dp", "pp"))
    assert (mesh.stride("tp"), mesh.stride("dp"), mesh.stride("pp")) == (1, 32, 128)
    assert mesh.group("dp", 130) == Group(first=130, stride=32, size=4)


def test_a_mesh_refuses_axes_without_a_place() -> None:
    with pytest.raises(ValueError, match="dp"):
        Mesh({"tp": 2, "dp": 2}, ("tp",))
    with pytest.raises(ValueError, match="tp"):
        Mesh({"tp": 0}, ("tp",))


@given(st.integers(1, 8), st.integers(1, 144), st.integers(0, 10**6))
def test_ranks_fill_cores_then_chips_then_servers(ranks_per_chip: int, chips: int, rank: int) -> None:
    # Law: (server * chips + chip) * ranks_per_chip + core == rank.
    placement = Placement(ranks_per_chip, chips)
    server, chip, core = placement.slot(rank)
    assert (server * chips + chip) * ranks_per_chip + core == rank
    assert 0 <= core < ranks_per_chip
    assert placement.endpoint(rank) == rank // ranks_per_chip


def test_a_chip_order_repeats_for_each_instance_of_an_ultraserver() -> None:
    # 64 chips = 4 instances of 16; the order of one instance holds in each.
    order = (0, 1, 2, 3, 15, 14, 13, 12, 4, 5, 6, 7, 11, 10, 9, 8)
    placement = Placement(ranks_per_chip=4, chips=64, chip_order=order)
    assert [placement.slot(4 * position).chip for position in range(8)] == [0, 1, 2, 3, 15, 14, 13, 12]
    assert placement.slot(4 * 20).chip == 16 + 15
    assert sorted(placement.slot(4 * position).chip for position in range(64)) == list(range(64))


@given(st.integers(1, 200), st.integers(1, 64))
def test_layers_are_split_evenly_and_the_last_stages_take_more(layers: int, stages: int) -> None:
    # NxD: sizes differ by at most one, ascending, and sum to the layers.
    if layers < stages:
        with pytest.raises(ValueError, match="without leaving one empty"):
            split_layers(layers, stages)
        return
    split = split_layers(layers, stages)
    assert sum(split) == layers
    assert list(split) == sorted(split)
    assert max(split) - min(split) <= 1
