"""One run of the engine on a scenario, with everything that the facts about it are read from."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from trnsim.engine import Engine, account, last_step
from trnsim.simulation.machine import build_rates, build_step
from trnsim.simulation.messages import refuse_many_messages
from trnsim.training import (
    Bodies,
    Communication,
    Contraction,
    Steady,
    contract,
    fold,
    like_the_first,
    populate,
    sharing_groups,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from trnsim.engine import Account, Cohort, Window
    from trnsim.scenario import Scenario
    from trnsim.simulation.machine import Bound, Machine
    from trnsim.training import Folding, Member, StepSpec, Teams

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
    verified
        Operations of ranks that were found the same in a run of every rank by itself.
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
    verified: int = 0

    @property
    def cohorts(self) -> list[Cohort]:
        """The engine's side of the members."""
        return [member.cohort for member in self.members]

    @property
    def last(self) -> Member:
        """The member that finishes last."""
        return next(member for member in self.members if member.cohort is self.window.last)

    def members_by_rank(self) -> Callable[[int], Member]:
        """Return what finds the member that stands for a rank."""
        folding, members = self.folding, self.members
        if not isinstance(folding, Contraction):
            return lambda rank: members[folding.colouring.colours[folding.node_of(rank)]]
        by_key = {member.cohort.key: member for member in members}  # type: ignore[attr-defined]  # a view has one
        return lambda rank: by_key[folding.key_of(rank)]


def run_engine(scenario: Scenario, machine: Machine, *, folding: bool, must_replay: bool = False) -> Simulated:
    """Run the engine with the best numbers of the software family.

    Parameters
    ----------
    scenario, machine
        What is run.
    folding
        Whether ranks that behave alike are simulated once.
    must_replay
        Whether it is wrong to run what cannot be replayed.
    """
    spec, communication = _prepared(scenario, machine, folding=folding)
    bodies = _new_bodies(scenario, machine)
    if teams := _teams(_contracted(scenario, machine, spec, communication), bodies):
        events = teams.events + bodies.events
        played = _Played(events, teams.cohorts, teams.found, teams.members, bodies.repeated, bodies)
        return _simulated(played, spec, communication)
    if must_replay:
        message = (
            "no ranks of this step can be simulated as teams, and nothing else is replayed; auto goes by events then"
        )
        raise scenario.refusal("run.engine", message, value=scenario.run.engine)
    folded = fold(spec, communication, sharing_groups(spec, machine.meeting_tier, machine.blocks))
    if machine.chunk is not None:
        refuse_many_messages(scenario, machine.chunk, spec, folded)
    return _simulated(_by_ranks(scenario, machine, spec, folded), spec, communication)


def last_step_s(scenario: Scenario, machine: Machine, *, folding: bool, like: Simulated) -> float:
    """Return how long the last step takes of what differs from another run in its perturbations alone."""
    spec, communication = _prepared(scenario, machine, folding=folding)
    if like.communication.fabric is machine.fabric:
        communication = like.communication
    bodies = like.bodies or _new_bodies(scenario, machine)
    if teams := _teams(_contracted(scenario, machine, spec, communication), bodies):
        return teams.last_step_s
    folded = fold(spec, communication, sharing_groups(spec, machine.meeting_tier, machine.blocks))
    return _by_ranks(scenario, machine, spec, folded).last_step_s


def sort_ranks(scenario: Scenario, machine: Machine) -> Folding | Contraction:
    """Sort the ranks as a run does before it begins; a run that finds teams not to hold sorts them anew."""
    spec, communication = _prepared(scenario, machine, folding=scenario.run.folding != "off")
    sorted_out = _contracted(scenario, machine, spec, communication)
    return sorted_out or fold(spec, communication, sharing_groups(spec, machine.meeting_tier, machine.blocks))


def _prepared(scenario: Scenario, machine: Machine, *, folding: bool) -> tuple[StepSpec, Communication]:
    spec = build_step(scenario, machine, build_rates(scenario), folding=folding)
    return spec, Communication(machine.fabric, spec, scenario.collectives.algorithm_for)


def _teams(sorted_out: Contraction | None, bodies: Bodies) -> Teams | None:
    """Play a step by teams and tails, if its ranks could be sorted into such and were right to be."""
    teams = sorted_out and sorted_out.play(bodies)
    return teams if teams and teams.holds else None


def _contracted(
    scenario: Scenario, machine: Machine, spec: StepSpec, communication: Communication, *, like_first: bool = False
) -> Contraction | None:
    shared, fabric = scenario.run.fidelity == "flow", (machine.meeting_tier, machine.blocks)
    if machine.chunk is not None:
        return None
    return contract(spec, communication, *fabric, links_are_shared=shared, like_the_first=like_first)


def like_the_first_s(
    scenario: Scenario, machine: Machine, bounds: Iterable[Bound], known: Bodies | None
) -> list[float]:
    """Return how long the last step is with other numbers of the software family, if all replicas sit like the first.

    `known` is what another run has found.
    """
    spec, communication = _prepared(scenario, machine, folding=True)
    sorted_out = _contracted(scenario, machine, spec, communication, like_first=True)
    bodies, found = known or _new_bodies(scenario, machine), []
    for bound in bounds:
        again = replace(spec, rates=build_rates(scenario, bound))
        teams = _teams(sorted_out and sorted_out.at(again.rates), bodies)
        played = teams or _by_ranks(scenario, machine, again, fold(again, communication, like_the_first(again)))
        found.append(played.last_step_s)
    return found


class _Played(NamedTuple):
    """What a run needed, its ranks and the cohorts at its end; bodies if it was played by teams."""

    events: int
    processes: int
    folding: Folding | Contraction
    members: Members
    repeated: int
    bodies: Bodies | None = None

    @property
    def last_step_s(self) -> float:
        """How long the last step took."""
        return last_step([member.cohort for member in self.members]).duration_s


def _by_ranks(scenario: Scenario, machine: Machine, spec: StepSpec, folding: Folding) -> _Played:
    """Simulate each kind of ranks."""
    engine = _new_engine(scenario, machine)
    steady = Steady(engine) if spec.folding and engine.holds_groups_together else None
    members = populate(engine, spec, folding, steady)
    engine.run()
    if steady is not None:
        steady.settle()
    return _Played(engine.events, len(members), folding, members, steady.turns if steady else 0)


def _new_bodies(scenario: Scenario, machine: Machine) -> Bodies:
    shared, replays = scenario.run.fidelity == "flow", scenario.run.engine != "events"
    return Bodies(lambda start_ps: _new_engine(scenario, machine, start_ps), links_are_shared=shared, replays=replays)


def _new_engine(scenario: Scenario, machine: Machine, start_ps: int = 0) -> Engine:
    """Return an engine of the fidelity that a scenario asks for, whose clock begins at a time."""
    if machine.chunk is not None:
        from trnsim.engine.message_engine import MessageEngine

        return MessageEngine(machine.chunk.latencies_ps, machine.chunk.exchanges)
    return Engine(links_are_shared=scenario.run.fidelity == "flow", start_ps=start_ps)


def _simulated(played: _Played, spec: StepSpec, communication: Communication) -> Simulated:
    window = last_step([member.cohort for member in played.members])
    found = account(window.last, window)
    return Simulated(
        played.events,
        played.processes,
        spec,
        communication,
        played.folding,
        played.members,
        window,
        found,
        played.repeated,
        played.bodies,
    )
