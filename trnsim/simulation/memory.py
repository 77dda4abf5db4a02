"""Whether a scenario fits in memory, rank by rank."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trnsim.errors import InputError, Problem
from trnsim.schedules import held_at_peak, schedule_kind
from trnsim.simulation.machine import build_shard
from trnsim.units import format_bytes
from trnsim.workload import MemoryTerms, memory_terms, saved_bytes, stage_blocks

if TYPE_CHECKING:
    from trnsim.scenario import Scenario

NEARLY_FULL_FRACTION = 0.9


class StageMemory(NamedTuple):
    """Memory of one rank of a pipeline stage, and the most passes whose activations it holds."""

    stage: int
    in_flight: int
    terms: MemoryTerms


def memory_limit_bytes(scenario: Scenario) -> int:
    """Bytes that one rank may use: its share of the HBM times the usable fraction."""
    chip = scenario.cluster.server.chip
    return int(chip.memory_bytes.value * chip.usable_memory_fraction.value / scenario.ranks_per_chip)


def stage_memories(scenario: Scenario) -> list[StageMemory]:
    """Count the memory of one rank of every stage."""
    layout, shard = scenario.layout, build_shard(scenario)
    found = []
    for stage in range(layout.pp):
        held = _held(scenario, stage)
        terms = memory_terms(
            scenario.model,
            shard,
            held,
            layout.stages,
            optimizer_shards=layout.dp if layout.zero else 1,
            gradient_dtype=scenario.training.gradient_dtype,
        )
        found.append(StageMemory(stage, sum(held.values()), terms))
    return found


def _held(scenario: Scenario, stage: int) -> dict[int, int]:
    """Return what a stage holds in flight, by virtual stage, when its activations are largest."""
    kind, pipeline, shard = schedule_kind(scenario.schedule.kind), scenario.pipeline, build_shard(scenario)
    sizes = {
        place: saved_bytes(stage_blocks(scenario.model, shard, place, scenario.layout.stages))
        for place in pipeline.virtual_stages_of(stage)
    }
    if len(sizes) == 1:
        return {stage: kind.in_flight(stage, pipeline)}
    return held_at_peak(kind.order(stage, pipeline), sizes)


def worst(memories: list[StageMemory]) -> StageMemory:
    """Return the stage whose ranks need most; of several, the first."""
    return max(memories, key=lambda memory: memory.terms.total)


def check_memory(scenario: Scenario) -> list[StageMemory]:
    """Count the memory of every stage and refuse what does not fit.

    Raises
    ------
    InputError
        If a rank needs more than its limit; exit code 3. The message says what to change.
    """
    memories, limit = stage_memories(scenario), memory_limit_bytes(scenario)
    most = worst(memories)
    if most.terms.total > limit:
        message = (
            f"a rank of stage {most.stage} needs {format_bytes(most.terms.total)} ({_terms(most.terms)}) "
            f"and may use {format_bytes(limit)}; {_advice(scenario, most)}"
        )
        raise InputError([Problem("layout", message, capacity=True)], file=str(scenario.source))
    return memories


def memory_warning(scenario: Scenario, most: StageMemory) -> str | None:
    """Warn about a rank that is nearly full: measured runs near the limit are slower than any model says."""
    share = most.terms.total / memory_limit_bytes(scenario)
    if share <= NEARLY_FULL_FRACTION:
        return None
    return f"memory of stage {most.stage} is {share:.0%} of its limit; measured runs this full are 20 to 45 % slow"


def _terms(terms: MemoryTerms) -> str:
    names = ("weights", "gradients", "optimizer", "activations", "buffers")
    return ", ".join(f"{name} {format_bytes(getattr(terms, name))}" for name in names)


def _advice(scenario: Scenario, most: StageMemory) -> str:
    layout, training, terms = scenario.layout, scenario.training, most.terms
    advice = []
    if terms.activations > terms.weights and training.recompute != "full":
        advice.append("training.recompute: full")
    if layout.zero == 0 and layout.dp > 1:
        advice.append("layout.zero: 1")
    if layout.tp > 1 and not layout.sequence_parallel:
        advice.append("layout.sequence_parallel: true")
    if training.micro_batch > 1:
        advice.append("a smaller training.micro_batch")
    if scenario.schedule.kind != "1f1b":
        advice.append("schedule.kind: 1f1b")
    advice.append("a larger layout.tp or layout.pp")
    return "try " + ", ".join(advice)
