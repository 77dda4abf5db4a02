"""Replicas that sit alike: the classes of data-parallel coordinates that no price can tell apart.

Servers are identical, so what a replica's ranks pay each other depends on where the replica starts
in a server, and, for transfers between servers, on the tier of the fabric at which the two meet.
Two replicas that agree in both are of one class; a class is simulated by its first replica.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from trnsim.parallel import Mesh, Placement

    MeetingTier = Callable[[int, int], int]


class ReplicaClass(NamedTuple):
    """Replicas that sit alike: the first of them, and how many there are."""

    first: int
    replicas: int


def replica_classes(mesh: Mesh, placement: Placement, meeting_tier: MeetingTier) -> list[ReplicaClass]:
    """Sort the replicas of a mesh into classes.

    Parameters
    ----------
    mesh
        The ranks.
    placement
        Where they sit.
    meeting_tier
        Tier of the fabric at which two endpoints of different servers meet.
    """
    found: dict[tuple[int, ...], list[int]] = {}
    links = {}
    for replica in range(mesh.size("dp")):
        start = replica * mesh.stride("dp")
        offset = start % placement.ranks_per_server
        if offset not in links:
            links[offset] = list(_links_between_servers(mesh, placement, start))
        tiers = [meeting_tier(placement.endpoint(start + a), placement.endpoint(start + b)) for a, b in links[offset]]
        found.setdefault((offset, *tiers), []).append(replica)
    return [ReplicaClass(replicas[0], len(replicas)) for replicas in found.values()]


def _links_between_servers(mesh: Mesh, placement: Placement, start: int) -> Iterator[tuple[int, int]]:
    """Yield pairs of ranks, relative to the replica's first, that send to each other between servers.

    They are neighbours along the tensor and the pipeline axis; one pair a chip is enough.
    """
    per_server = placement.ranks_per_server
    for stage in range(mesh.size("pp")):
        for tensor in range(mesh.size("tp")):
            here = stage * mesh.stride("pp") + tensor * mesh.stride("tp")
            for axis, coordinate in (("pp", stage), ("tp", tensor)):
                there = here + mesh.stride(axis) * (1 if coordinate + 1 < mesh.size(axis) else -coordinate)
                if (start + here) // per_server != (start + there) // per_server:
                    yield here, there
