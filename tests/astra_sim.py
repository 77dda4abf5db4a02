"""What ASTRA-sim 2 answers to a ring all-reduce of 1 GiB, and the formula that its answers follow.

Measured on a 2-core machine with 24 GiB: analytical backend, `Ring` topology, bandwidth 50 ("GB/s", which it takes as
GiB/s), latency 500 ns, 4 splits, 1 active chunk, endpoint delay 10 ns, local memory 1,600 GB/s.
"""

from __future__ import annotations

from typing import NamedTuple

import trnsim

SIZE_BYTES = 2**30
BANDWIDTH_BYTES_PER_S = 50 * 2**30
LATENCY_S = 500e-9


class Answer(NamedTuple):
    """What a run printed, and what it cost: wall time in s and memory in MB."""

    ranks: int
    time_s: float
    wall_s: float
    memory_mb: int


ANSWERS = (
    Answer(8, 36_790_164e-9, 0.05, 11),
    Answer(64, 41_613_556e-9, 0.05, 14),
    Answer(144, 42_304_588e-9, 0.33, 21),
    Answer(512, 44_009_404e-9, 4.8, 102),
    Answer(1024, 46_129_156e-9, 24.8, 357),
)


def formula_s(ranks: int, *, splits: int = 4, hops: int = 1, endpoint_delay_s: float = 10e-9) -> float:
    """Return what ASTRA-sim answers, from its inputs alone."""
    passed = (ranks - 1) / ranks * SIZE_BYTES
    latency_s = 2 * (ranks - 1) * splits * (LATENCY_S * hops + endpoint_delay_s)
    return 2 * passed / BANDWIDTH_BYTES_PER_S + 3 * passed / 1600e9 + latency_s


def trnsim_s(ranks: int) -> float:
    """Return what trnsim answers for a ring in one direction over the same links."""
    times = trnsim.collective(
        "all-reduce",
        on="ring",
        ranks=ranks,
        sizes=[SIZE_BYTES],
        algorithm="unidirectional-ring",
        link_bandwidth="50 GiB/s",
        link_latency="500 ns",
    )
    return times.rows[0].time_s
