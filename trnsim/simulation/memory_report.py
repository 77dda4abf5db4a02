"""Run a scenario and report its memory over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsim.engine import seconds
from trnsim.results.memory_report import MemoryPeak, MemoryPoint, MemoryReport
from trnsim.simulation.facts import memory_terms
from trnsim.simulation.machine import build_machine
from trnsim.simulation.memory import Counter, memory_limit_bytes, nearly_full
from trnsim.simulation.memory_log import Held, held_over_time
from trnsim.simulation.run import run_scenario
from trnsim.workload import GRADIENT_BYTES, STATES

if TYPE_CHECKING:
    from trnsim.scenario import Scenario
    from trnsim.simulation.simulated import Simulated
    from trnsim.training import Member

__all__ = ["memory_over_time"]


def memory_over_time(scenario: Scenario) -> MemoryReport:
    """Simulate the training step of a scenario and follow what its ranks hold, whether or not it fits.

    Parameters
    ----------
    scenario
        A resolved scenario, as `trnsim.load` returns it.

    Raises
    ------
    InputError
        If the fabric is too small for the servers.
    SimulationStalledError
        If a rank waits for what never comes.

    Examples
    --------
    >>> import trnsim
    >>> report = trnsim.memory(trnsim.load("trn3-ultraserver"))
    >>> report.worst.stage, report.worst.bytes < report.limit_bytes, report.worst.during
    (0, True, 'backward pass of microbatch 0')
    """
    run = run_scenario(scenario, build_machine(scenario))
    counter = Counter(scenario, {})
    peaks: dict[int, tuple[Held, Member]] = {}
    for member in run.members:
        stage = member.node.stage.number
        highest = max(held_over_time(member, counter.rank(stage)), key=lambda held: held.terms.total)
        if stage not in peaks or highest.terms.total > peaks[stage][0].terms.total:
            peaks[stage] = (highest, member)
    stages = tuple(_peak(run, stage, *peaks[stage]) for stage in sorted(peaks))
    worst = max(stages, key=lambda peak: peak.bytes)
    limit = memory_limit_bytes(scenario)
    warning = nearly_full(worst.stage, worst.bytes, limit)
    return MemoryReport(
        name=scenario.name,
        convention=_convention(scenario),
        limit_bytes=limit,
        ranks_per_chip=scenario.ranks_per_chip,
        step_time_s=run.window.duration_s,
        worst=worst,
        stages=stages,
        timeline=_timeline(peaks[worst.stage][1], counter),
        warnings=(*scenario.warnings, *([warning] if warning else [])),
    )


def _peak(run: Simulated, stage: int, held: Held, member: Member) -> MemoryPeak:
    terms = memory_terms(held.terms)
    return MemoryPeak(
        stage=stage,
        layers=sum(run.spec.split[place] for place in member.plan.passes),
        rank=member.node.first_rank,
        time_s=seconds(held.time_ps - _start_ps(member)),
        during=held.during,
        bytes=terms.total_bytes,
        terms=terms,
    )


def _timeline(member: Member, counter: Counter) -> tuple[MemoryPoint, ...]:
    held = held_over_time(member, counter.rank(member.node.stage.number))
    return tuple(MemoryPoint(seconds(each.time_ps - _start_ps(member)), memory_terms(each.terms)) for each in held)


def _start_ps(member: Member) -> int:
    """Return when the last step of a rank began."""
    ends = member.cohort.step_ends
    return ends[-2][2] if len(ends) > 1 else 0


def _convention(scenario: Scenario) -> str:
    """Say what is kept of a parameter: bytes of weight, gradient and optimizer states, and which of them are shared."""
    states, gradient = STATES[scenario.training.states], GRADIENT_BYTES[scenario.training.gradient_dtype]
    terms = (("weight", states.weight, 3), ("gradient", gradient, 2), ("optimizer", states.optimizer, 1))
    group = scenario.layout.zero_group
    shared = {name: f"/{group:,}" if group > 1 and scenario.layout.zero >= least else "" for name, _, least in terms}
    parts = " + ".join(f"{size}{shared[name]} {name}" for name, size, _ in terms)
    return f"{parts} bytes a parameter ({scenario.training.states} states, ZeRO-{scenario.layout.zero})"
