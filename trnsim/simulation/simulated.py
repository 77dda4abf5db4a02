"""One run of the engine on a scenario, with everything that the facts about it are read from."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from trnsim.engine import Engine, account, last_step
from trnsim.errors import InputError, Problem
from trnsim.simulation.machine import build_rates, build_step
from trnsim.simulation.messages import refuse_many_messages
from trnsim.training import Bodies, Communication, Contraction, Steady, contract, fold, populate

if TYPE_CHECKING:
    from trnsim.engine import Account, Cohort, Window
    from trnsim.scenario import Scenario
    from trnsim.simulation.machine import Machine
    from trnsim.training import Folding, Member, Rates, StepSpec

    Members = tuple[Member, ...]


class Simulated(NamedTuple):
    """A finished run of the engine.

    Attributes
    ----------
    events, processes
        What the engine needed: events, and cohorts that were simulated.
    spec, communication, folding
        What was run: the step, the prices, the fold.
    members
        The cohorts, by ascending first rank.
    window, account
        The last step, and where the time of the cohort that finishes last went in it.
    repeated
        Passes of cohorts that were not simulated, as they repeat earlier ones.
    bodies
        What replicas did in their passes, where these were simulated alone.
    """

    events: int
    processes: int
    spec: StepSpec
    communication: Communication
    folding: Folding | Contraction
    members: tuple[Member, ...]
    window: Window
    account: Account
    repeated: int
    bodies: Bodies | None

    @property
    def cohorts(self) -> list[Cohort]:
        """The engine's side of the members."""
        return [member.cohort for member in self.members]

    @property
    def last(self) -> Member:
        """The member that finishes last."""
        return next(member for member in self.members if member.cohort is self.window.last)


def run_engine(
    scenario: Scenario, machine: Machine, *, folding: bool, known: Bodies | None = None, must_replay: bool = False
) -> Simulated:
    """Run the engine with the best numbers of the software family.

    Parameters
    ----------
    scenario, machine
        What is run.
    folding
        Whether ranks that behave alike are simulated once.
    known
        What another run has found.
    must_replay
        Whether it is wrong to run what cannot be replayed.
    """
    spec, communication = _prepared(scenario, machine, folding=folding)
    if sorted_out := _contracted(scenario, machine, spec, communication):
        bodies = known or _new_bodies(scenario, machine)
        if played := _play(scenario, machine, spec, sorted_out, bodies):
            return _simulated(played, spec, communication, sorted_out, bodies)
    if must_replay:
        message = (
            "no ranks of this step can be simulated as teams, and nothing else is replayed; auto goes by events then"
        )
        raise InputError([Problem("run.engine", message, value=scenario.run.engine)], file=str(scenario.source))
    folded = fold(spec, communication, machine.meeting_tier, machine.blocks)
    if machine.chunk is not None:
        refuse_many_messages(scenario, machine.chunk, spec, folded)
    return _simulated(_run(scenario, machine, spec, folded), spec, communication, folded)


def sort_ranks(scenario: Scenario, machine: Machine) -> Folding | Contraction:
    """Sort the ranks as a run does before it begins; a run that finds teams not to hold sorts them anew."""
    spec, communication = _prepared(scenario, machine, folding=scenario.run.folding != "off")
    sorted_out = _contracted(scenario, machine, spec, communication)
    return sorted_out or fold(spec, communication, machine.meeting_tier, machine.blocks)


def _prepared(scenario: Scenario, machine: Machine, *, folding: bool) -> tuple[StepSpec, Communication]:
    spec = build_step(scenario, machine, build_rates(scenario), folding=folding)
    return spec, Communication(machine.fabric, spec, scenario.collectives.algorithm_for)


def _contracted(
    scenario: Scenario, machine: Machine, spec: StepSpec, communication: Communication
) -> Contraction | None:
    shared = scenario.run.fidelity == "flow"
    if machine.chunk is not None:
        return None
    return contract(spec, communication, machine.meeting_tier, machine.blocks, links_are_shared=shared)


def run_again(scenario: Scenario, machine: Machine, run: Simulated, rates: Rates) -> Window:
    """Return the last step with other rates.

    Raises
    ------
    TypeError
        If tensor groups of the run were teams, as with slow chips.
    """
    if isinstance(run.folding, Contraction):
        raise TypeError("only a run of folded ranks can be run again")
    again = _run(scenario, machine, replace(run.spec, rates=rates), run.folding)
    return last_step([member.cohort for member in again.members])


class _Played(NamedTuple):
    """What a run needed, and the cohorts at its end."""

    events: int
    processes: int
    members: Members
    repeated: int


def _play(
    scenario: Scenario, machine: Machine, spec: StepSpec, contraction: Contraction, bodies: Bodies
) -> _Played | None:
    """Run teams and tails; return nothing if replicas were still at work when their gradients had been reduced."""
    engine, known = _new_engine(scenario, machine), (bodies.events, bodies.repeated)
    teams = contraction.play(engine, spec, bodies)
    events = engine.events + bodies.events - known[0]
    return _Played(events, teams.cohorts, teams.members, bodies.repeated - known[1]) if teams.holds else None


def _run(scenario: Scenario, machine: Machine, spec: StepSpec, folding: Folding) -> _Played:
    engine = _new_engine(scenario, machine)
    steady = Steady(engine) if spec.folding and engine.holds_groups_together else None
    members = populate(engine, spec, folding, steady)
    engine.run()
    if steady is not None:
        steady.settle()
    return _Played(engine.events, len(members), members, steady.turns if steady else 0)


def _new_bodies(scenario: Scenario, machine: Machine) -> Bodies:
    shared, replays = scenario.run.fidelity == "flow", scenario.run.engine != "events"
    return Bodies(lambda: _new_engine(scenario, machine), links_are_shared=shared, replays=replays)


def _new_engine(scenario: Scenario, machine: Machine) -> Engine:
    """Return an engine of the fidelity that a scenario asks for."""
    if machine.chunk is not None:
        from trnsim.engine.message_engine import MessageEngine

        return MessageEngine(machine.chunk.latencies_ps, machine.chunk.exchanges)
    return Engine(links_are_shared=scenario.run.fidelity == "flow")


def _simulated(
    played: _Played,
    spec: StepSpec,
    communication: Communication,
    folding: Folding | Contraction,
    bodies: Bodies | None = None,
) -> Simulated:
    window = last_step([member.cohort for member in played.members])
    found = account(window.last, window)
    return Simulated(
        played.events,
        played.processes,
        spec,
        communication,
        folding,
        played.members,
        window,
        found,
        played.repeated,
        bodies,
    )
