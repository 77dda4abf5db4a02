"""Memory over time, as `trnsim memory` reports it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trnsim.record import Record
from trnsim.results.columns import Column
from trnsim.results.document import plain
from trnsim.results.tables import frame_of

if TYPE_CHECKING:
    import pandas as pd

    from trnsim.results.records import MemoryTerms

__all__ = ["MEMORY_COLUMNS", "MemoryPeak", "MemoryPoint", "MemoryReport"]

MEMORY_COLUMNS = (
    Column("time_s", "float64", "s", "since the start of the step"),
    Column("weights", "int64", "B", "weights, or the rank's share of them"),
    Column("gradients", "int64", "B", "gradients, or the rank's share of them"),
    Column("optimizer", "int64", "B", "states of the optimizer, or the rank's share of them"),
    Column("activations", "int64", "B", "what forward passes keep"),
    Column("communication", "int64", "B", "gathered weights, and gradients that are not reduced yet"),
    Column("buffers", "int64", "B", "what is alive for a moment only"),
)
"""Columns of memory over time: each row holds from its time to that of the next."""


class MemoryPoint(Record):
    """What a rank holds from a time on; seconds since the start of the step."""

    time_s: float
    terms: MemoryTerms


class MemoryPeak(Record):
    """When a rank of a stage holds most.

    Parameters
    ----------
    stage, layers, rank
        Its stage, the layers of that, and its number (the lowest of those that hold as much).
    time_s
        Since the start of the step.
    during
        What it does then.
    bytes, terms
        What it holds.
    """

    stage: int
    layers: int
    rank: int
    time_s: float
    during: str
    bytes: int
    terms: MemoryTerms


class MemoryReport(Record):
    """Memory of the last step of a run.

    Parameters
    ----------
    name
        Name of the scenario.
    convention
        What is kept of a parameter, in words.
    limit_bytes, ranks_per_chip
        What one rank may use, and how many share a chip.
    step_time_s
        Length of the step.
    worst
        The peak of the rank that holds most.
    stages
        The peak of each stage.
    timeline
        What the worst rank holds over the step.
    warnings
        What is legal but deserves a look.
    """

    name: str
    convention: str
    limit_bytes: int
    ranks_per_chip: int
    step_time_s: float
    worst: MemoryPeak
    stages: tuple[MemoryPeak, ...]
    timeline: tuple[MemoryPoint, ...]
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document."""
        document: dict[str, Any] = plain(self)
        return document

    def frame(self) -> pd.DataFrame:
        """Return memory over time as a frame with :data:`MEMORY_COLUMNS`."""
        return frame_of([{"time_s": point.time_s, **point.terms.terms()} for point in self.timeline], MEMORY_COLUMNS)
