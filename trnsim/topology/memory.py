"""The memory of each chip as a link: whatever a transfer reads and writes there, it shares with all others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

if TYPE_CHECKING:
    from trnsim.hardware import Chip
    from trnsim.topology.network import Network

__all__ = ["MEMORY", "with_chip_memory"]

MEMORY = "hbm"
"""Kind of the links that stand for the memory of a chip."""


def with_chip_memory(network: Network, chip: Chip, ranks_per_chip: int = 1) -> Network:
    """Return the network with the memory of each chip as a link of its own, which transfers touch at both ends.

    Parameters
    ----------
    network
        Its endpoints are the ranks of the chips, chip after chip.
    chip
        Its memory has one bandwidth for reads and writes together, taken as the datasheet prints it.
    ranks_per_chip
        Ranks that share a memory: a divisor of the endpoints. >= 1.

    Raises
    ------
    ValueError
        If the ranks do not fill the chips.

    Notes
    -----
    DMA engines need no link of their own, because the memory always gives out first: a byte that travels passes one
    engine, and touches memory at least twice, and the engines of every Trainium sustain more than half of what its
    memory does.

    References
    ----------
    AWS Neuron SDK documentation, Intra-node collective communications, read 2026-11-30: of two ranks that each hand on
    a chunk, a gathering touches memory 4 times and a reduction 6 times; 3 and 4 times where they share a place of a ring

    Examples
    --------
    >>> from trnsim.hardware import load_chip
    >>> from trnsim.topology.machines import machine
    >>> from trnsim.topology.network import ADDED
    >>> ring = machine("ring", endpoints=4, bandwidth_bytes_per_s=128e9, latency_s=1e-6)
    >>> network = with_chip_memory(ring, load_chip("trainium2"))
    >>> routes = network.routes([0], [1], ADDED)
    >>> [network.link_name(link) for link in routes.link], routes.weight.tolist()
    (['chip 0: hbm', 'chip 0 -> chip 1', 'chip 1: hbm'], [1, 1, 2])
    """
    if ranks_per_chip < 1 or network.endpoints % ranks_per_chip:
        raise ValueError(f"{network.endpoints} ranks do not fill chips of {ranks_per_chip}")
    chips, links, orbit = network.endpoints // ranks_per_chip, network.links, network.orbit
    rate = round(chip.memory_bandwidth_bytes_per_s.value)
    return replace(
        network,
        kinds=(*network.kinds, MEMORY),
        kind=np.concatenate([network.kind, np.full(chips, len(network.kinds), dtype=np.int16)]),
        bytes_per_s=np.concatenate([network.bytes_per_s, np.full(chips, rate, dtype=np.int64)]),
        latency_s=np.concatenate([network.latency_s, np.zeros(chips)]),
        orbit=None if orbit is None else np.concatenate([orbit, np.full(chips, orbit.max(initial=-1) + 1)]),
        memory=links + np.arange(network.endpoints, dtype=np.int64) // ranks_per_chip,
        namer=lambda link: network.link_name(link) if link < links else f"chip {link - links}: {MEMORY}",
    )
