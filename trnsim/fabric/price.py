"""What a collective costs: its time, and the bytes it puts on the links."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec import field

from trnsim.record import Record

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["LATENCY", "MESSAGE", "Cost", "Price", "Task"]

LATENCY = "latency"
"""What bounds an operation whose links are idle most of the time."""


MESSAGE = "message"
"""What the first member of a pair sends to the second."""


class Task(NamedTuple):
    """What a group carries out.

    Parameters
    ----------
    op, algorithm
        Names as in `trnsim.collectives`; :data:`MESSAGE` for a message to one rank.
    size_bytes
        The larger of one rank's input and output buffer.
    """

    op: str
    algorithm: str
    size_bytes: float


class Price(Record):
    """The cost of one operation.

    Parameters
    ----------
    time_s
        From the last member's arrival to everyone's departure. >= 0.
    bytes_by_kind
        Bytes over all links of a kind, for the whole group; a byte counts on every link that it crosses.
    slowest_kind
        Kind of link that takes most of the time, or ``"latency"``.
    task
        What is carried out, and how.
    busy_s
        Of the time, seconds in which links of each kind are the slowest of a phase: where others may be in the way.
    """

    time_s: float
    bytes_by_kind: Mapping[str, float]
    slowest_kind: str
    task: Task
    busy_s: Mapping[str, float]

    @property
    def algorithm(self) -> str:
        """How it is done."""
        return self.task.algorithm

    @property
    def spent(self) -> tuple[object, ...]:
        """The time, and the part of it on links of each kind: what tells transfers apart."""
        return (self.time_s, *self.busy_s.items())


class Cost(Record, eq=False):
    """Prices of one operation for every size: all terms but the latency grow with the size.

    Parameters
    ----------
    op, algorithm
        What is done, and how.
    latency_s
        Sum of the steps' latencies.
    seconds_per_byte
        Time per byte of the buffer that each kind of link takes as the slowest one of its phase.
    links_per_byte
        Bytes on all links of a kind, per byte of the buffer.
    prices
        Those that have been asked for, by size: ranks that pay the same share one.
    """

    op: str
    algorithm: str
    latency_s: float
    seconds_per_byte: Mapping[str, float]
    links_per_byte: Mapping[str, float]
    prices: dict[float, Price] = field(default_factory=dict)

    def price(self, size_bytes: float) -> Price:
        """Return the price for a buffer of `size_bytes`.

        Raises
        ------
        ValueError
            If the size is negative or not a number.
        """
        if not size_bytes >= 0:
            raise ValueError(f"a buffer has at least 0 bytes, not {size_bytes}")
        if size_bytes not in self.prices:
            self.prices[size_bytes] = self._price(size_bytes)
        return self.prices[size_bytes]

    def _price(self, size_bytes: float) -> Price:
        busy_s = {kind: each * size_bytes for kind, each in self.seconds_per_byte.items()}
        parts = {LATENCY: self.latency_s} | busy_s
        slowest = max(parts, key=lambda part: parts[part])
        carried = {kind: links * size_bytes for kind, links in self.links_per_byte.items()}
        task = Task(self.op, self.algorithm, size_bytes)
        return Price(sum(parts.values()), carried, slowest, task, busy_s)
