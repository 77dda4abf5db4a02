"""What a simulation costs the machine it runs on; never part of a result, which must not depend on the machine."""

from __future__ import annotations

import json
import sys

from msgspec.structs import asdict

from trnsim.record import Record
from trnsim.units import format_bytes, format_count, format_time

__all__ = ["Cost", "peak_memory_bytes"]


class Cost(Record):
    """What one simulation cost.

    Parameters
    ----------
    load_s, simulate_s
        Wall time to read the scenario and to simulate it, imports included; seconds.
    peak_memory_bytes
        Most memory that the process has held.
    events
        Events that the engine went through.
    """

    load_s: float
    simulate_s: float
    peak_memory_bytes: int
    events: int

    def sentence(self) -> str:
        """Return the cost in one line."""
        return (
            f"simulated in {format_time(self.load_s + self.simulate_s)} with {format_bytes(self.peak_memory_bytes)} of "
            f"memory and {format_count(self.events)} events"
        )

    def json_text(self) -> str:
        """Return the cost as JSON text."""
        return json.dumps(asdict(self), indent=2) + "\n"


def peak_memory_bytes() -> int:
    """Return the most memory that this process has held; bytes."""
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
