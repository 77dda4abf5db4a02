"""What perturbations do to a step: what each costs, who sets the pace, and why so many cohorts were simulated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from trnsim.results import PerturbationCost
from trnsim.simulation.machine import build_machine
from trnsim.simulation.pace import pace_note
from trnsim.simulation.simulated import last_step_s
from trnsim.topology.perturbations import impair
from trnsim.training import Contraction
from trnsim.units import format_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trnsim.fabric import Price
    from trnsim.parallel import Mesh
    from trnsim.scenario import Scenario
    from trnsim.simulation.machine import Machine
    from trnsim.simulation.simulated import Simulated
    from trnsim.training import Folding, Node, RankPrices

__all__ = ["cohort_notes", "cohorts_of", "idle_warnings", "perturbation_costs"]


def perturbation_costs(scenario: Scenario, machine: Machine, run: Simulated) -> tuple[PerturbationCost, ...]:
    """Run a scenario without each of its perturbations in turn: what the step gains is what it costs.

    Costs need not add up: where two chips are as slow, taking away one gains nothing.
    """
    return tuple(_cost(scenario, machine, run, perturbation.name) for perturbation in scenario.perturbations)


def _cost(scenario: Scenario, machine: Machine, run: Simulated, name: str) -> PerturbationCost:
    others = tuple(each for each in scenario.perturbations if each.name != name)
    without = replace(scenario, perturbations=others)
    folds = scenario.run.folding != "off"
    time_s = last_step_s(without, build_machine(without, machine), folding=folds, like=run)
    hits = machine.hits[name]
    return PerturbationCost(name, hits.struck, hits.places, time_s, run.window.duration_s - time_s)


def idle_warnings(scenario: Scenario, machine: Machine) -> Iterator[str]:
    """Warn about perturbations that strike nothing but chips without a rank, or their links."""
    chips = -(-scenario.ranks // scenario.ranks_per_chip)
    if chips == scenario.cluster.chips:
        return
    for perturbation in scenario.perturbations:
        found, _ = impair([perturbation], machine.places, scenario.run.seed)
        struck = [*found.chips, *found.nics, *(server * machine.placement.chips for server in found.cables)]
        if not found.trunks and all(machine.placement.ranks_on(chip)[0] >= scenario.ranks for chip in struck):
            yield f"perturbation {perturbation.name} has no effect: it strikes chips that no rank is on"


def cohort_notes(machine: Machine, run: Simulated) -> dict[str, str]:
    """Say how many cohorts stand for the ranks of a perturbed run and why, and what sets the pace."""
    if not run.spec.impairments.chips and not run.spec.impairments.of_links:
        return {}
    return {"pace": pace_note(machine, run), "cohorts": _why(run)}


def _why(run: Simulated) -> str:
    stages, ranks = len(run.folding.stages), run.spec.mesh.ranks
    found = f"{run.processes:,} for {ranks:,} ranks"
    if isinstance(run.folding, Contraction):
        teams = run.processes - len(run.folding.tails.slowest)
        return (
            f"{found} = {_counted(teams, 'team')} of {_counted(stages, 'stage')} ({_counted(len(run.folding.sorts), 'sort')} of "
            f"replicas, by slow chips and links) + {_counted(len(run.folding.tails.slowest), 'tail')} (by price and slowest chip)"
        )
    return f"{found}: {_counted(stages, 'stage')}, told apart by slow chips, prices of transfers and whom they meet"


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def cohorts_of(folding: Folding | Contraction, mesh: Mesh) -> Iterator[tuple[str, str]]:
    """Yield for each kind of ranks its first, and how many they are and what makes them different from others of their stage."""
    firsts: dict[int, Node] = {}
    for node in folding.alike:
        first = firsts.setdefault(node.stage.number, node)
        speed = "" if node.speed == 1 else f", chips at {node.speed:.4g} of their speed"
        group = "" if node.pace == node.speed else f", waits for chips at {node.pace:.4g}"
        ranks = f"{node.ranks:,} rank{'s' if node.ranks > 1 else ''}"
        unlike = "" if node is first else f"; {_unlike(node, first, mesh.label(first.first_rank))}"
        yield mesh.label(node.first_rank), f"stage {node.stage.number}, {ranks}{speed}{group}{unlike}"


def _unlike(node: Node, first: Node, label: str) -> str:
    """Say what ranks pay that others do not, or that they only meet others."""
    mine, theirs = _paid(node.prices), _paid(first.prices)
    found = [
        f"{name} {_total(paid)} ({_total(theirs[name])})" for name, paid in mine.items() if _differ(paid, theirs[name])
    ]
    return f"unlike {label} in {', '.join(found)}" if found else f"pays what {label} pays, but meets others"


def _paid(prices: RankPrices) -> dict[str, tuple[Price | None, ...]]:
    return {
        "tensor collectives": tuple(prices.tensor.values()),
        "activations": (prices.send_activation,),
        "gradients": (prices.send_gradient,),
        "reductions": (*prices.reduce, *prices.merge),
        "gathers": prices.gather,
        "tied embedding": (prices.tied,),
    }


def _differ(paid: Sequence[Price | None], other: Sequence[Price | None]) -> bool:
    return [price and price.spent for price in paid] != [price and price.spent for price in other]


def _total(paid: Sequence[Price | None]) -> str:
    return format_time(sum(price.time_s for price in paid if price))
