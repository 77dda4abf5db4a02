"""One run of the engine on a scenario, with everything that the facts about it are read from."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trnsim.engine import Engine, account, last_step
from trnsim.simulation.machine import build_rates, build_step
from trnsim.simulation.messages import refuse_many_messages
from trnsim.training import Communication, Contraction, contract, fold, populate

if TYPE_CHECKING:
    from trnsim.engine import Account, Cohort, Window
    from trnsim.scenario import Scenario
    from trnsim.simulation.machine import Machine
    from trnsim.training import Folding, Member, StepSpec

    Members = tuple[Member, ...]


class Simulated(NamedTuple):
    """A finished run of the engine.

    Attributes
    ----------
    engine
        The engine, at its end.
    spec, communication, folding
        What was run: the step, the prices, the fold.
    members
        The cohorts, by ascending first rank.
    window, account
        The last step, and where the time of the cohort that finishes last went in it.
    """

    engine: Engine
    spec: StepSpec
    communication: Communication
    folding: Folding | Contraction
    members: tuple[Member, ...]
    window: Window
    account: Account

    @property
    def cohorts(self) -> list[Cohort]:
        """The engine's side of the members."""
        return [member.cohort for member in self.members]

    @property
    def last(self) -> Member:
        """The member that finishes last."""
        return next(member for member in self.members if member.cohort is self.window.last)


def run_engine(scenario: Scenario, machine: Machine, *, folding: bool) -> Simulated:
    """Run the engine with the best numbers of the software family."""
    spec = build_step(scenario, machine, build_rates(scenario), folding=folding)
    communication = Communication(machine.fabric, spec, scenario.collectives.algorithm_for)
    shared = scenario.run.fidelity == "flow"
    contraction = contract(spec, communication, machine.meeting_tier, machine.blocks, links_are_shared=shared)
    if (
        machine.chunk is None
        and contraction is not None
        and (found := _run_teams(scenario, machine, spec, contraction)) is not None
    ):
        engine, members = found
        return _simulated(engine, spec, communication, contraction, members)
    folded = fold(spec, communication, machine.meeting_tier, machine.blocks)
    if machine.chunk is not None:
        refuse_many_messages(scenario, machine.chunk, spec, folded)
    engine, members = _run_cohorts(scenario, machine, spec, folded)
    return _simulated(engine, spec, communication, folded, members)


def run_again(scenario: Scenario, machine: Machine, run: Simulated, spec: StepSpec) -> Window | None:
    """Return the last step with other rates; None where the fold of the run does not hold for them."""
    if isinstance(run.folding, Contraction):
        found = _run_teams(scenario, machine, spec, run.folding)
    else:
        found = _run_cohorts(scenario, machine, spec, run.folding)
    return found and last_step([member.cohort for member in found[1]])


def _run_teams(
    scenario: Scenario, machine: Machine, spec: StepSpec, contraction: Contraction
) -> tuple[Engine, Members] | None:
    """Run teams and tails; return nothing if replicas were still at work when their gradients had been reduced."""
    engine = _new_engine(scenario, machine)
    populated = contraction.populate(engine, spec)
    engine.run()
    return (engine, populated.members) if populated.holds else None


def _run_cohorts(scenario: Scenario, machine: Machine, spec: StepSpec, folding: Folding) -> tuple[Engine, Members]:
    engine = _new_engine(scenario, machine)
    members = populate(engine, spec, folding)
    engine.run()
    return engine, members


def _new_engine(scenario: Scenario, machine: Machine) -> Engine:
    """Return an engine of the fidelity that a scenario asks for."""
    if machine.chunk is not None:
        from trnsim.engine.message_engine import MessageEngine

        return MessageEngine(machine.chunk.latencies_ps, machine.chunk.exchanges)
    return Engine(links_are_shared=scenario.run.fidelity == "flow")


def _simulated(
    engine: Engine, spec: StepSpec, communication: Communication, folding: Folding | Contraction, members: Members
) -> Simulated:
    window = last_step([member.cohort for member in members])
    return Simulated(engine, spec, communication, folding, members, window, account(window.last, window))
