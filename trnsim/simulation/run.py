"""Run a scenario: the one place where all parts are wired."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec.structs import replace

from trnsim import __version__
from trnsim.engine import fingerprint, seconds
from trnsim.results import EngineFacts, ErrorBand, Provenance, Result
from trnsim.scenario import sha256
from trnsim.simulation import facts, traffic
from trnsim.simulation.assumptions import assumptions
from trnsim.simulation.machine import build_machine
from trnsim.simulation.memory import check_memory, memory_warning, worst
from trnsim.simulation.perturbed import cohort_notes, idle_warnings, perturbation_costs
from trnsim.simulation.regime import regime
from trnsim.simulation.simulated import like_the_first_s, run_engine
from trnsim.simulation.verify import verify
from trnsim.training import UnservedGroupError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnsim.scenario import Scenario
    from trnsim.simulation.machine import Bound, Machine
    from trnsim.simulation.memory import StageMemory
    from trnsim.simulation.simulated import Simulated
    from trnsim.training import Bodies

SKEW_MEASURED_UP_TO = 12_288
"""Accelerators of the largest run behind the skew with scale: MegaScale, arXiv:2402.15627."""

_BOUNDS: tuple[Bound, ...] = ("value", "low", "high")


def simulate(scenario: Scenario) -> Result:
    """Simulate the training step of a scenario.

    Parameters
    ----------
    scenario
        A resolved scenario, as `trnsim.load` returns it.

    Returns
    -------
    Result
        What was found.

    Raises
    ------
    InputError
        If the machine is too small for it: its fabric (exit code 2), the memory of its ranks (3).
    SimulationStalledError
        If a rank waits for what never comes.

    Examples
    --------
    >>> import trnsim
    >>> result = trnsim.simulate(trnsim.load("trn3-ultraserver"))
    >>> result.cluster.chips, result.engine.events < 20_000
    (144, True)
    """
    memories = check_memory(scenario)
    machine = build_machine(scenario)
    run = run_scenario(scenario, machine)
    with _within_the_clock(scenario):
        costs = perturbation_costs(scenario, machine, run)
        band = error_band(scenario, machine, run, worst(memories).terms.total)
    sent = traffic.all_sent(run)
    return Result(
        name=scenario.name,
        provenance=Provenance(__version__, sha256(scenario), scenario.run.seed, fingerprint(run.cohorts)),
        cluster=facts.cluster_facts(scenario),
        step=facts.step_facts(scenario, run, band),
        memory=facts.memory_facts(scenario, machine, memories),
        collectives=traffic.collective_facts(run),
        links=traffic.link_facts(machine, run, sent),
        engine=_engine_facts(scenario, run),
        model=facts.model_facts(scenario),
        stages=facts.stage_facts(run, memories),
        tiers=traffic.tier_facts(run.spec.mesh, sent),
        waterfall=facts.waterfall_facts(scenario, run),
        assumptions=assumptions(scenario),
        derived={
            **cohort_notes(machine, run),
            **_verified_notes(run),
            **traffic.derived_algorithms(sent),
            **scenario.derived,
            **_steady_notes(run),
        },
        defaults=scenario.defaults,
        warnings=(*scenario.warnings, *idle_warnings(scenario, machine), *_warnings(scenario, run, memories)),
        perturbations=costs,
        timeline=facts.timeline(scenario, run),
    )


def run_scenario(scenario: Scenario, machine: Machine) -> Simulated:
    """Run the engine on a scenario.

    Raises
    ------
    InputError
        If a group lacks what its algorithm needs, the run is longer than the clock, or nothing of it can be replayed.
    FoldingError
        If folding is to be verified and changes something.
    """
    try:
        with _within_the_clock(scenario):
            must_replay = scenario.run.engine == "replay"
            run = run_engine(scenario, machine, folding=scenario.run.folding != "off", must_replay=must_replay)
            if scenario.run.folding == "verify":
                run = run._replace(verified=verify(run, run_engine(scenario, machine, folding=False)))
    except UnservedGroupError as error:
        raise scenario.refusal("collectives.algorithm", str(error), value=error.algorithm) from None
    return run


@contextmanager
def _within_the_clock(scenario: Scenario) -> Iterator[None]:
    """Refuse a scenario whose run is longer than what clocks count."""
    try:
        yield
    except OverflowError:
        message = f"the run is longer than {seconds(2**63):.3g} s (2^63 ps), which no clock here counts"
        if scenario.run.steps == 1 and scenario.perturbations:
            raise scenario.refusal(
                "perturbations", f"{message}; leave more of what they strike, or call it failed"
            ) from None
        raise scenario.refusal("run.steps", f"{message}; simulate fewer", value=scenario.run.steps) from None


def _verified_notes(run: Simulated) -> dict[str, str]:
    """Say how much was simulated twice, and found the same."""
    if not run.verified:
        return {}
    return {"verified": f"{run.verified:,} operations of {run.spec.mesh.ranks:,} ranks are the same without folding"}


def _steady_notes(run: Simulated) -> dict[str, str]:
    """Say how much was not simulated because it repeats itself."""
    if not run.repeated:
        return {}
    return {"steady state": f"{run.repeated:,} passes repeat earlier ones and were not simulated"}


def _warnings(scenario: Scenario, run: Simulated, memories: list[StageMemory]) -> Iterator[str]:
    """Say what only a run knows to deserve a look."""
    nearly_full = memory_warning(scenario, worst(memories))
    if nearly_full:
        yield nearly_full
    chips = -(-scenario.ranks // scenario.ranks_per_chip)
    if run.spec.rates.scale_skew_fraction and chips > SKEW_MEASURED_UP_TO:
        yield f"skew with scale is extrapolated: {chips:,} chips, measured up to {SKEW_MEASURED_UP_TO:,} accelerators"


def error_band(scenario: Scenario, machine: Machine, run: Simulated, memory_bytes: int) -> ErrorBand:
    """Say how far the step time may be off: the error measured in its regime, or the range that the family's parameters allow."""
    family, time_s = scenario.cluster.software, run.window.duration_s
    found = regime(scenario, run, memory_bytes)
    if found in family.errors:
        error = family.errors[found]
        source = f"mean error of {family.name} where steps are {found}{_fitted_otherwise(scenario)}: {error.source}"
        return ErrorBand("measured", time_s * (1 - error.value), time_s * (1 + error.value), source)
    like_first = dict(zip(_BOUNDS, _like_the_first_s(scenario, machine, run.bodies), strict=True))
    share = time_s / like_first["value"]
    rows = "1 measured row" if family.measured_rows == 1 else f"{family.measured_rows} measured rows"
    where = f", none of them {found}" if family.errors else ""
    source = f"the range of the parameters of {family.name}, {rows}{where}{_fitted_otherwise(scenario)}"
    if share != 1:
        source += ", in proportion to unperturbed replicas like the first"
    return ErrorBand("no measurement", like_first["high"] * share, like_first["low"] * share, source)


def _fitted_otherwise(scenario: Scenario) -> str:
    """Say so when the family was fitted under another recompute mode than the run has."""
    fitted, used = scenario.cluster.software.recompute_fitted, scenario.training.recompute
    return "" if used == fitted else f", fitted under {fitted} recompute"


def _like_the_first_s(scenario: Scenario, machine: Machine, known: Bodies | None) -> list[float]:
    """Return how long a step takes with the family's numbers, and at the slow end of their ranges and the fast one.

    The step is one without perturbations and single messages, whose ranks are folded and whose replicas all sit like the
    first; by what it is longer or shorter any other is.
    """
    plain = scenario
    if scenario.perturbations or scenario.run.folding == "off":
        fidelity = "flow" if scenario.run.fidelity == "chunk" else scenario.run.fidelity
        plain = replace(scenario, perturbations=(), run=replace(scenario.run, folding="auto", fidelity=fidelity))
        machine = build_machine(plain, machine)
    return like_the_first_s(plain, machine, _BOUNDS, known)


def _engine_facts(scenario: Scenario, run: Simulated) -> EngineFacts:
    return EngineFacts(
        ranks=run.spec.mesh.ranks,
        cohorts=run.processes,
        processes=run.processes,
        events=run.events,
        folding=scenario.run.folding,
        engine="replay" if run.bodies is not None and run.bodies.replays else "events",
    )
