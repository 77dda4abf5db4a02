"""When each pass of a pipeline schedule runs, and what idles and is held meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import asdict

from trnsim.record import Record
from trnsim.results.columns import Column
from trnsim.results.tables import frame_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["SCHEDULE_COLUMNS", "ScheduleGrid", "TimedPass"]

SCHEDULE_COLUMNS = (
    Column("stage", "int64", "", "stage that does it"),
    Column("kind", "string", "", "F forward, B backward"),
    Column("microbatch", "int64", "", "number of the microbatch, from 0"),
    Column("virtual_stage", "int64", "", "position of the virtual stage in the model, from 0"),
    Column("start", "int64", "", "when it begins, in forward passes of a virtual stage"),
    Column("end", "int64", "", "when it ends"),
)
"""Columns of the passes of a schedule."""


class TimedPass(NamedTuple):
    """A pass and when it runs; the fields are those of :data:`SCHEDULE_COLUMNS`."""

    stage: int
    kind: str
    microbatch: int
    virtual_stage: int
    start: int
    end: int


class ScheduleGrid(Record):
    """A schedule on equal virtual stages with free messages. Times are in forward passes of a virtual stage.

    Parameters
    ----------
    name
        Of the schedule.
    stages, microbatches, virtual_stages
        Shape of the pipeline; virtual stages on each stage.
    backward
        Time of a backward pass.
    time
        End of the last pass.
    slots, idle_slots
        The step in slots of a forward and a backward pass through one virtual stage, and in how many of them every stage
        idles.
    in_flight
        For each stage, the most passes whose activations it holds.
    passes
        All of them, stage by stage, in their order.
    """

    name: str
    stages: int
    microbatches: int
    virtual_stages: int
    backward: int
    time: int
    slots: int
    idle_slots: int
    in_flight: tuple[int, ...]
    passes: tuple[TimedPass, ...]

    @property
    def bubble_fraction(self) -> float:
        """Share of the step in which a stage idles."""
        return self.idle_slots / self.slots

    @property
    def bubble_over_work(self) -> float:
        """The bubble as papers give it: idle time over the time of the work."""
        return self.idle_slots / (self.slots - self.idle_slots)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document."""
        bubble = {"bubble_fraction": self.bubble_fraction, "bubble_over_work": self.bubble_over_work}
        return {**asdict(self), **bubble, "passes": [each._asdict() for each in self.passes]}

    def frame(self) -> pd.DataFrame:
        """Return the passes as a frame with the columns of :data:`SCHEDULE_COLUMNS`."""
        return frame_of([each._asdict() for each in self.passes], SCHEDULE_COLUMNS)
