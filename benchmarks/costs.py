"""What a process costs, and what a SimPy loop costs that does nothing."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from itertools import tee
from statistics import median
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

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
    return waking_loop_s({1: events}, 1)


def waking_loop_s(events: Mapping[int, int], processes: int) -> float:
    """Time SimPy processes that do nothing but wait, several of them for one event, in seconds of the processor.

    Parameters
    ----------
    events
        How many events there are that so many processes wait for.
    processes
        How many processes there are: those that wait for one event are always the same.
    """
    import simpy

    environment = simpy.Environment()
    for waiting, count in events.items():
        groups = min(count, processes // waiting or 1) if waiting else 1
        for group in range(groups):
            _add(environment, waiting, count // groups + (group < count % groups))
    while environment.peek() == 0:
        environment.step()  # processes begin
    start_s = process_time()
    for _ in range(sum(events.values())):
        environment.step()
    return process_time() - start_s


def _add(environment: Any, waiting: int, count: int) -> None:
    """Add processes that wait for so many events one after the other; if there are none, events only follow one another."""
    if waiting:
        events = (environment.timeout(1) for _ in range(count))
        for mine in tee(events, waiting):  # whoever comes first makes the next event
            environment.process(_wait(mine))
    elif count:
        event = environment.timeout(1)
        event.callbacks.append(lambda _: _add(environment, waiting, count - 1))


def _wait(events: Iterator[Any]) -> Any:
    yield from events


def peak_bytes() -> int:
    """Return the most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * UNIT_BYTES
