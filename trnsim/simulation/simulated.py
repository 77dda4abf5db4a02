"""One run of the engine on a scenario, with everything that the facts about it are read from."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trnsim.engine import Engine, MessageEngine, account, last_step
from trnsim.simulation.machine import build_rates, build_step
from trnsim.simulation.messages import refuse_many_messages
from trnsim.training import Communication, fold, populate

if TYPE_CHECKING:
    from trnsim.engine import Account, Cohort, Window
    from trnsim.scenario import Scenario
    from trnsim.simulation.machine import Machine
    from trnsim.training import Folding, Member, StepSpec


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
    folding: Folding
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


def new_engine(scenario: Scenario, machine: Machine) -> Engine:
    """Return an engine of the fidelity that a scenario asks for."""
    if machine.chunk is not None:
        return MessageEngine(machine.chunk.latencies_ps, machine.chunk.exchanges)
    return Engine(links_are_shared=scenario.run.fidelity == "flow")


def run_engine(scenario: Scenario, machine: Machine, *, folding: bool) -> Simulated:
    """Run the engine with the best numbers of the software family."""
    spec = build_step(scenario, machine, build_rates(scenario), folding=folding)
    communication = Communication(machine.fabric, spec, scenario.collectives.algorithm_for)
    folded = fold(spec, communication, machine.meeting_tier, machine.blocks)
    if machine.chunk is not None:
        refuse_many_messages(scenario, machine.chunk, spec, folded)
    engine = new_engine(scenario, machine)
    members = populate(engine, spec, folded)
    engine.run()
    window = last_step(engine.cohorts)
    return Simulated(engine, spec, communication, folded, members, window, account(window.last, window))
