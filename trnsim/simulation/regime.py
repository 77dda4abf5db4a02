"""In which regime a step is: steps of one regime have like errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trnsim.hardware.software import REGIMES
from trnsim.simulation.memory import NEARLY_FULL_FRACTION, memory_limit_bytes

if TYPE_CHECKING:
    from trnsim.scenario import Scenario
    from trnsim.simulation.simulated import Simulated

__all__ = ["regime"]

NEAR_MEMORY_LIMIT, HOST_BOUND, LARGE, GENERAL = REGIMES

HOST_BOUND_FRACTION: Final = 0.05
LARGE_CHIPS: Final = 64
COMPUTE_BOUND_FRACTION: Final = 0.6


def regime(scenario: Scenario, run: Simulated, memory_bytes: int) -> str:
    """Say in which regime a step is: by memory first, then by the host, then by size and by what its time goes into.

    Parameters
    ----------
    scenario, run
        The scenario and its run.
    memory_bytes
        What the rank needs that needs most.
    """
    if memory_bytes > NEARLY_FULL_FRACTION * memory_limit_bytes(scenario):
        return NEAR_MEMORY_LIMIT
    parts = run.account.by_heading()
    total = sum(parts.values())
    if parts.get("overhead", 0) > HOST_BOUND_FRACTION * total:
        return HOST_BOUND
    chips = -(-scenario.ranks // scenario.ranks_per_chip)
    compute = parts.get("compute", 0) + parts.get("recompute", 0)
    return LARGE if chips >= LARGE_CHIPS and compute >= COMPUTE_BOUND_FRACTION * total else GENERAL
