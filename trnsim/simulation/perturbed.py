"""What perturbations do to a step: what each costs, who sets the pace, and why so many cohorts were simulated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from trnsim.results import PerturbationCost
from trnsim.simulation.machine import build_machine
from trnsim.simulation.simulated import last_step_s
from trnsim.training import Contraction
from trnsim.units import format_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trnsim.fabric import Price
    from trnsim.parallel import Mesh
    from trnsim.scenario import Scenario
    from trnsim.simulation.machine import Machine
    from trnsim.simulation.simulated import Simulated
    from trnsim.training import Folding, Member, Node, RankPrices

__all__ = ["cohort_notes", "cohorts_of", "perturbation_costs"]


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


def cohort_notes(machine: Machine, run: Simulated) -> dict[str, str]:
    """Say how many cohorts stand for the ranks of a perturbed run and why, and what sets the pace."""
    if not run.spec.impairments.chips and not run.spec.impairments.of_links:
        return {}
    return {"pace": _pace(machine, run), "cohorts": _why(run)}


def _why(run: Simulated) -> str:
    stages, ranks = len(run.folding.stages), run.spec.mesh.ranks
    found = f"{run.processes:,} for {ranks:,} ranks"
    if isinstance(run.folding, Contraction):
        teams = run.processes - len(run.folding.tails.slowest)
        return (
            f"{found} = {teams:,} teams of {stages} stages ({len(run.folding.sorts):,} sorts of replicas, by slow chips and "
            f"links) + {len(run.folding.tails.slowest):,} tails (by price and slowest chip)"
        )
    return f"{found}: {stages} stages, told apart by slow chips, prices of transfers and whom they meet"


def _pace(machine: Machine, run: Simulated) -> str:
    """Name the ranks that need most time for a microbatch."""
    slowest = max(run.members, key=_passes_s)
    node = slowest.node
    slot = machine.placement.slot(node.first_rank)
    speed = f", a slow chip with {node.speed:.4g} of its speed" if node.speed < 1 else ""
    group = f", in a tensor group at {node.pace:.4g} of the speed" if node.pace < node.speed else ""
    return (
        f"stage {node.stage.number} takes most, {format_time(_passes_s(slowest))} for a microbatch, first on server "
        f"{slot.server}/chip {slot.chip}{speed}{group}"
    )


def _passes_s(member: Member) -> float:
    return sum(each.forward.duration_s + each.backward.duration_s for each in member.plan.passes.values())


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
