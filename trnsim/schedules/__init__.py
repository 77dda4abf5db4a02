"""Pipeline schedules as data: in which order a stage works on its microbatches, without a clock.

Each schedule is one module in `trnsim.schedules.kinds` and is found there by its name.
"""

from trnsim.schedules.order import Kind, Pass, Pipeline, Sends
from trnsim.schedules.periods import borders, repeats
from trnsim.schedules.registry import (
    BrokenRule,
    broken_rules,
    interleaved_names,
    schedule,
    schedule_kind,
    schedule_names,
)

__all__ = [
    "BrokenRule",
    "Kind",
    "Pass",
    "Pipeline",
    "Sends",
    "borders",
    "broken_rules",
    "interleaved_names",
    "repeats",
    "schedule",
    "schedule_kind",
    "schedule_names",
]
