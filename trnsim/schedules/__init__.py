"""Pipeline schedules as data: in which order a stage works on its microbatches, without a clock.

Each schedule is one module in `trnsim.schedules.kinds` and is found there by its name.
"""

from trnsim.schedules.order import Kind, Pass
from trnsim.schedules.registry import in_flight, schedule, schedule_names

__all__ = ["Kind", "Pass", "in_flight", "schedule", "schedule_names"]
