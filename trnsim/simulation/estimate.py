"""One step of a scenario and how far to trust it, without the rest of a report: for studies of many scenarios."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsim.record import Record
from trnsim.simulation.machine import build_machine
from trnsim.simulation.memory import stage_memories, worst
from trnsim.simulation.regime import regime
from trnsim.simulation.run import run_scenario

if TYPE_CHECKING:
    from trnsim.scenario import Scenario

__all__ = ["Estimate", "estimate"]


class Estimate(Record):
    """What a study keeps of one simulated step.

    Parameters
    ----------
    time_s
        Time of the step.
    regime
        Which of `trnsim.hardware.software.REGIMES` it belongs to.
    """

    time_s: float
    regime: str


def estimate(scenario: Scenario) -> Estimate:
    """Simulate a step whether or not it fits in memory.

    Raises
    ------
    InputError
        As `trnsim.simulate`, but for memory.

    Examples
    --------
    >>> import trnsim
    >>> estimate(trnsim.load("trn3-ultraserver")).regime
    'large, compute-bound'
    """
    run = run_scenario(scenario, build_machine(scenario))
    return Estimate(run.window.duration_s, regime(scenario, run, worst(stage_memories(scenario)).terms.total))
