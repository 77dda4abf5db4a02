"""What leaves a server in the passes of a replica: the chips that meet others there, and the ranks that pay for it.

Servers are alike, so it depends on where a replica starts in its first server. All else that ranks of a replica send each
other stays inside a server, and costs the same in all replicas that start there.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnsim.training.spec import StepSpec

    Seat = tuple[int, int]

__all__ = ["NOTHING_LEAVES", "Crossing", "crossings"]


class Crossing(NamedTuple):
    """Transfers between servers, in replicas that start at one place of a server.

    Parameters
    ----------
    pairs
        Chips that meet in the fabric between servers, counted from the first of the replica's first server. The tiers at
        which these meet settle those of all that do.
    seats
        Tensor rank and stage of all ranks that take part.
    """

    pairs: tuple[tuple[int, int], ...]
    seats: frozenset[Seat]

    @property
    def chips(self) -> frozenset[int]:
        """Those of the pairs."""
        return frozenset(chip for pair in self.pairs for chip in pair)


NOTHING_LEAVES = (Crossing((), frozenset()),)
"""What leaves servers where all replicas are taken to sit like the first: nothing by which they could be told apart."""


def crossings(spec: StepSpec) -> tuple[Crossing, ...]:
    """Return what leaves servers for each place at which a replica starts; replica r starts at place r modulo their number."""
    stride, per_server = spec.mesh.stride("dp"), spec.placement.ranks_per_server
    period = per_server // math.gcd(stride, per_server)
    return tuple(_crossing(spec, place * stride) for place in range(min(period, spec.mesh.size("dp"))))


def _crossing(spec: StepSpec, start: int) -> Crossing:
    mesh, chips = spec.mesh, spec.placement.chips
    first_chip = start // spec.placement.ranks_per_server * chips
    tensors, stages = range(mesh.size("tp")), range(mesh.size("pp"))
    chip = {
        (tensor, stage): spec.placement.endpoint(start + stage * mesh.stride("pp") + tensor * mesh.stride("tp"))
        - first_chip
        for stage in stages
        for tensor in tensors
    }
    pairs: dict[tuple[int, int], None] = {}
    seats: set[Seat] = set()
    for seat, other in _message_partners(spec):
        if chip[seat] // chips != chip[other] // chips:
            pairs[chip[seat], chip[other]] = None
            seats.update((seat, other))
    for stage in stages:
        group = sorted({chip[tensor, stage] for tensor in tensors})
        if group[0] // chips != group[-1] // chips:
            pairs.update(dict.fromkeys(pairwise(group)))
            seats.update((tensor, stage) for tensor in tensors)
    return Crossing(tuple(pairs), frozenset(seats))


def _message_partners(spec: StepSpec) -> Iterator[tuple[Seat, Seat]]:
    """Yield the ranks of a replica that send each other messages, or sum the gradients of a tied embedding."""
    last = spec.mesh.size("pp") - 1
    is_closed = last > 0 and (spec.virtual_stages > 1 or spec.model.tied_embeddings)
    for tensor in range(spec.mesh.size("tp")):
        yield from (((tensor, stage), (tensor, stage + 1)) for stage in range(last))
        if is_closed:
            yield (tensor, last), (tensor, 0)
