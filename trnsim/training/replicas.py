"""Replicas that sit alike: the classes of data-parallel coordinates that no price can tell apart.

Servers are identical, so what a replica's ranks pay each other depends on where the replica starts
in a server, and, if it touches several servers, on the tiers of the fabric at which its chips meet.
The tiers of consecutive chips settle those of all pairs: switch groups are intervals of chips, so two
chips meet at the highest tier between them. Two replicas that agree in both are of one class; a class
is simulated by its first replica.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

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
        Tier of the fabric at which two chips of the cluster meet.
    """
    replicas, stride = mesh.size("dp"), mesh.stride("dp")
    period = placement.ranks_per_server // math.gcd(stride, placement.ranks_per_server)
    neighbours = [_neighbouring_chips(mesh, placement, place * stride) for place in range(min(period, replicas))]
    if not any(neighbours):
        return [ReplicaClass(first, len(range(first, replicas, period))) for first in range(len(neighbours))]
    found: dict[tuple[int, ...], list[int]] = {}
    for replica in range(replicas):
        first_chip = replica * stride // placement.ranks_per_server * placement.chips
        place = replica % period
        tiers = (meeting_tier(first_chip + a, first_chip + b) for a, b in neighbours[place])
        found.setdefault((place, *tiers), []).append(replica)
    return [ReplicaClass(alike[0], len(alike)) for alike in found.values()]


def _neighbouring_chips(mesh: Mesh, placement: Placement, start: int) -> list[tuple[int, int]]:
    """Return consecutive chips of a replica, counted from its first server; none if it touches one server only."""
    first_chip = start // placement.ranks_per_server * placement.chips
    chips = {
        placement.endpoint(start + stage * mesh.stride("pp") + tensor * mesh.stride("tp")) - first_chip
        for stage in range(mesh.size("pp"))
        for tensor in range(mesh.size("tp"))
    }
    ordered = sorted(chips)
    return list(pairwise(ordered)) if ordered[-1] >= placement.chips else []
