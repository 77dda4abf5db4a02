"""Replicas that are not like others because of what is impaired in them: only these are listed."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from trnsim.parallel import Mesh, Placement
    from trnsim.topology.perturbations import Impairments
    from trnsim.training.crossings import Crossing
    from trnsim.training.replicas import Blocks
    from trnsim.training.spec import StepSpec

__all__ = ["Blemish", "blemishes", "slow_ranks"]


class Blemish(NamedTuple):
    """What is wrong in a replica, said so that replicas of which the same is true are alike.

    Parameters
    ----------
    speeds
        Slow ranks: stage, tensor rank, speed.
    links
        Impaired links inside its servers, counted from its first server; of one where a NIC has failed also those out of it.
    ways
        Impaired ways out of other servers, of chips that send something there.
    """

    speeds: tuple[tuple[int, int, float], ...] = ()
    links: tuple[Hashable, ...] = ()
    ways: tuple[Hashable, ...] = ()


def slow_ranks(mesh: Mesh, placement: Placement, impairments: Impairments) -> dict[int, float]:
    """Return the speeds of the ranks on slow chips."""
    return {
        rank: speed
        for chip, speed in sorted(impairments.chips.items())
        for rank in placement.ranks_on(chip)
        if rank < mesh.ranks and speed < 1
    }


def blemishes(spec: StepSpec, crossings: Sequence[Crossing], blocks: Blocks) -> dict[int, Blemish]:
    """Return what is wrong, by replica; replicas in which nothing is are left out.

    Parameters
    ----------
    spec
        The step, and what is impaired in the cluster.
    crossings
        What leaves servers.
    blocks
        Chips below one switch group of each tier.

    Notes
    -----
    Links to other servers tell apart only replicas whose chips use them in their passes: gradients travel in groups that
    hold a member of every replica, and what such a group pays all of its members pay.
    """
    mesh, placement, impairments = spec.mesh, spec.placement, spec.impairments
    speeds: defaultdict[int, list[tuple[int, int, float]]] = defaultdict(list)
    for rank, speed in slow_ranks(mesh, placement, impairments).items():
        place = mesh.coordinates(rank)
        speeds[place["dp"]].append((place["pp"], place["tp"], speed))
    links: defaultdict[int, list[Hashable]] = defaultdict(list)
    for server, cables in sorted(impairments.cables.items()):
        ranks = range(server * placement.ranks_per_server, (server + 1) * placement.ranks_per_server)
        for replica in _replicas(mesh, ranks):
            links[replica].append((server - _first_server(mesh, placement, replica), tuple(sorted(cables.items()))))
    ways: defaultdict[int, list[Hashable]] = defaultdict(list)
    if any(crossing.pairs for crossing in crossings):
        failed = {chip // placement.chips for chip, share in impairments.nics.items() if not share}
        leaving = [crossing.chips for crossing in crossings]
        for chip, shares in _ways_out(placement, impairments, blocks).items():
            for replica in _replicas(mesh, placement.ranks_on(chip)):
                way = chip - _first_server(mesh, placement, replica) * placement.chips, tuple(shares)
                if chip // placement.chips in failed:
                    links[replica].append(way)
                elif way[0] in leaving[replica % len(leaving)]:
                    ways[replica].append(way)
    struck = sorted({*speeds, *links, *ways})
    return {
        replica: Blemish(tuple(sorted(speeds[replica])), tuple(links[replica]), tuple(ways[replica]))
        for replica in struck
    }


def _ways_out(placement: Placement, impairments: Impairments, blocks: Blocks) -> dict[int, list[tuple[int, float]]]:
    """Return what is left of the ways of chips to other servers: by chip, tier (-1 for the NIC) and share."""
    found: defaultdict[int, list[tuple[int, float]]] = defaultdict(list)
    for chip, share in sorted(impairments.nics.items()):
        for neighbour in range(
            chip // placement.chips * placement.chips, (chip // placement.chips + 1) * placement.chips
        ):
            if neighbour == chip or not share:  # whose NIC has failed uses that of a neighbour
                found[neighbour].append((-1, share) if neighbour == chip else (-2 - chip % placement.chips, share))
    for trunk, share in sorted(impairments.trunks.items()):
        for chip in range(trunk.group * blocks[trunk.tier], (trunk.group + 1) * blocks[trunk.tier]):
            found[chip].append((trunk.tier, share))
    return found


def _replicas(mesh: Mesh, ranks: Iterable[int]) -> list[int]:
    return sorted({mesh.coordinates(rank)["dp"] for rank in ranks if rank < mesh.ranks})


def _first_server(mesh: Mesh, placement: Placement, replica: int) -> int:
    return replica * mesh.stride("dp") // placement.ranks_per_server
