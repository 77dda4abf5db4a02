"""A time that no simulation of a step goes below, without the run: to leave out what cannot be the fastest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsim.engine import Engine, seconds
from trnsim.simulation.machine import build_machine, build_rates, build_step
from trnsim.training import Communication, UnservedGroupError, fold, populate, sharing_groups

if TYPE_CHECKING:
    from trnsim.scenario import Scenario

__all__ = ["least_time_s"]


def least_time_s(scenario: Scenario) -> float:
    """Return the passes of the stage that is busy longest, with those that must come before its first and after its last.

    The first work of stage s is a forward pass of virtual stage s or of a later one, so those of the virtual stages
    0 to s - 1 come before it; gradients go back the same way after its last. Messages, reductions and the update are left
    out. 0 where no simulation is possible.

    Examples
    --------
    >>> import trnsim
    >>> loaded = trnsim.load("llama3-70b-trn2", ["run.steps=1"])
    >>> 0.9 < least_time_s(loaded) / trnsim.simulate(loaded).step.time_s < 1
    True
    """
    machine = build_machine(scenario)
    spec = build_step(scenario, machine, build_rates(scenario), folding=True)
    communication = Communication(machine.fabric, spec, scenario.collectives.algorithm_for)
    try:
        folded = fold(spec, communication, sharing_groups(spec, machine.meeting_tier, machine.blocks))
    except UnservedGroupError:  # a simulation says what is wrong
        return 0.0
    shortest: dict[int, int] = {}
    busy: dict[int, int] = {}
    for member in populate(Engine(links_are_shared=False), spec, folded):
        plan = member.plan
        lengths = {
            place: (found.forward.duration_ps, found.backward.duration_ps) for place, found in plan.passes.items()
        }
        for place, length in lengths.items():
            shortest[place] = min(sum(length), shortest.get(place, sum(length)))
        stage = min(lengths)
        own = sum(lengths[turn.virtual_stage][turn.kind == "B"] for turn in plan.turns)
        busy[stage] = max(own, busy.get(stage, 0))
    return seconds(max(own + sum(shortest[place] for place in range(stage)) for stage, own in busy.items()))
