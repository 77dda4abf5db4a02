"""How many messages a step has, where they are followed one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsim.errors import InputError
from trnsim.simulation.traffic import sent_by

if TYPE_CHECKING:
    from trnsim.fabric import Task
    from trnsim.fabric.chunk import ChunkFabric
    from trnsim.parallel import Mesh
    from trnsim.scenario import Scenario
    from trnsim.simulation.traffic import Use
    from trnsim.training import Folding, StepSpec

__all__ = ["refuse_many_messages"]


def refuse_many_messages(scenario: Scenario, chunk: ChunkFabric, spec: StepSpec, folding: Folding) -> None:
    """Refuse a run whose messages are too many to be followed.

    Raises
    ------
    InputError
        With an estimate of the events.
    """
    from trnsim.fabric.chunk import MOST_EVENTS

    try:
        a_step = _events_of_a_step(chunk, spec, folding)
    except InputError as error:
        raise _refusal(scenario, error.problems[0].message) from None
    if a_step * spec.steps > MOST_EVENTS:
        raise _refusal(
            scenario,
            f"about {a_step:,} events of messages a step x {spec.steps:,} steps = {a_step * spec.steps:,}, and "
            f"{MOST_EVENTS:,} is the most that is simulated; use flow, {_fewer(scenario, a_step, MOST_EVENTS)}",
        )


def _fewer(scenario: Scenario, a_step: int, most: int) -> str:
    if a_step <= most:
        return f"or at most {most // a_step:,} steps"
    return f"or fewer of the {scenario.microbatches:,} microbatches, the {scenario.model.layers:,} layers, the {scenario.ranks:,} ranks"


def _refusal(scenario: Scenario, message: str) -> InputError:
    return scenario.refusal("run.fidelity", message, value="chunk")


def _events_of_a_step(chunk: ChunkFabric, spec: StepSpec, folding: Folding) -> int:
    """Add up what all ranks send; groups of one axis are taken to be like the first that carries out a task."""
    alike: dict[tuple[str, Task], float] = {}
    total = 0.0
    for node in folding.nodes:
        for use in sent_by(spec, node):
            key = (use.axis, use.price.task)
            if key not in alike:
                group = _group(spec.mesh, use, node.first_rank)
                alike[key] = chunk.events(group, use.price.task) / use.payers
            total += use.count * alike[key]
    return round(total)


def _group(mesh: Mesh, use: Use, rank: int) -> tuple[int, ...]:
    """Return the ranks of a group; of those of a pipeline, two neighbours for a message, both ends for what these share."""
    members = tuple(mesh.group(use.axis, rank).members())
    if use.axis != "pp":
        return members
    return members[:2] if use.is_message else (members[0], members[-1])
