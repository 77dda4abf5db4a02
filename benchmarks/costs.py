"""What a process costs, and what a SimPy loop costs that does nothing."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

REPETITIONS = 3
UNIT_BYTES = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss


class Cost(NamedTuple):
    """What a whole process costs: seconds on the clock and of the processor, and most memory."""

    wall_s: float
    cpu_s: float
    peak_bytes: int

    @property
    def mebibytes(self) -> int:
        return round(self.peak_bytes / 2**20)


def whole_process(arguments: list[str]) -> Cost:
    """Run a Python process several times and return the medians; its output is thrown away."""
    costs = [_once([sys.executable, *arguments]) for _ in range(REPETITIONS)]
    wall_s, cpu_s, peak_bytes = (median(values) for values in zip(*costs, strict=True))
    return Cost(wall_s, cpu_s, int(peak_bytes))


def _once(command: list[str]) -> Cost:
    start_s = perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"exit code {process.returncode} of {' '.join(command)}")
    return Cost(perf_counter() - start_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * UNIT_BYTES)


def bare_loop_s(events: int) -> float:
    """Time a SimPy process that does nothing but wait."""
    import simpy
    from simpy.core import EmptySchedule

    environment = simpy.Environment()

    def wait() -> Any:
        for _ in range(events):
            yield environment.timeout(1)

    environment.process(wait())
    start_s = perf_counter()
    try:
        while True:
            environment.step()
    except EmptySchedule:
        return perf_counter() - start_s


def peak_bytes() -> int:
    """Return the most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * UNIT_BYTES
