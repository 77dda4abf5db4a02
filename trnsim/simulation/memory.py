"""Whether a scenario fits in memory, rank by rank."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trnsim.record import Record
from trnsim.schedules import schedule_kind
from trnsim.simulation.machine import build_shard, build_sharding
from trnsim.training import gradient_buckets
from trnsim.training.passes import bucket_size
from trnsim.units import format_bytes
from trnsim.workload import STATES, MemoryTerms, PassMemory, RankMemory, pass_memory, stage_blocks

if TYPE_CHECKING:
    from trnsim.parallel import Sharding
    from trnsim.scenario import Scenario

NEARLY_FULL_FRACTION = 0.9


class StageMemory(NamedTuple):
    """Memory of one rank of a pipeline stage, and the microbatches it holds at most."""

    stage: int
    in_flight: int
    terms: MemoryTerms


def memory_limit_bytes(scenario: Scenario) -> int:
    """Bytes that one rank may use: its share of the HBM times the usable fraction."""
    chip = scenario.cluster.server.chip
    return int(chip.memory_bytes.value * chip.usable_memory_fraction.value / scenario.ranks_per_chip)


def stage_memories(scenario: Scenario) -> list[StageMemory]:
    """Count the memory of one rank of every stage, at the pass that needs most."""
    kind, pipeline, counter = schedule_kind(scenario.schedule.kind), scenario.pipeline, Counter(scenario, {})
    found = []
    for stage in range(pipeline.stages):
        peak = counter.rank(stage).peak(kind.order(stage, pipeline))
        found.append(StageMemory(stage, kind.in_flight(stage, pipeline), peak))
    return found


class Counter(Record):
    """Counts ranks; virtual stages that are alike are counted once."""

    scenario: Scenario
    counted: dict[tuple[int, bool, bool], PassMemory]

    def rank(self, stage: int) -> RankMemory:
        """Return what a rank of a stage holds."""
        scenario, sharding = self.scenario, build_sharding(self.scenario)
        passes = {place: self._passes(place, sharding) for place in scenario.pipeline.virtual_stages_of(stage)}
        training = scenario.training
        return RankMemory(passes, sharding, STATES[training.states], training.fused_update, training.optimizer_offload)

    def _passes(self, place: int, sharding: Sharding) -> PassMemory:
        scenario, split = self.scenario, self.scenario.layout.stages
        alike = (split[place], place == 0, place == len(split) - 1)
        if alike not in self.counted:
            shard = build_shard(scenario)
            blocks = stage_blocks(scenario.model, shard, place, split)
            full = bucket_size(sharding, scenario.training.bucket_parameters)
            buckets = [bucket.blocks for bucket in gradient_buckets(blocks, full)]
            self.counted[alike] = pass_memory(
                scenario.model,
                shard,
                place,
                split,
                buckets=buckets,
                sharding=sharding,
                cross_entropy=scenario.training.cross_entropy,
            )
        return self.counted[alike]


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
        raise scenario.refusal("layout", message, capacity=True)
    return memories


def memory_warning(scenario: Scenario, most: StageMemory) -> str | None:
    """Warn about a rank that is nearly full."""
    return nearly_full(most.stage, most.terms.total, memory_limit_bytes(scenario))


def nearly_full(stage: int, size_bytes: int, limit_bytes: int) -> str | None:
    """Warn from 90 % of the limit on: measured runs near it are slower than any model says."""
    share = size_bytes / limit_bytes
    if share <= NEARLY_FULL_FRACTION:
        return None
    return f"memory of stage {stage} is {share:.0%} of its limit; measured runs this full are 20 to 45 % slow"


def _terms(terms: MemoryTerms) -> str:
    sizes = {name: getattr(terms, name) for name in terms.__struct_fields__}
    return ", ".join(f"{name} {format_bytes(size)}" for name, size in sizes.items() if size)


def _advice(scenario: Scenario, most: StageMemory) -> str:
    layout, training, terms = scenario.layout, scenario.training, most.terms
    advice = []
    if terms.activations > terms.weights and training.recompute != "full":
        advice.append("training.recompute: full")
    if layout.zero < 3 and layout.dp > 1:
        advice.append(f"layout.zero: {layout.zero + 1}")
    if layout.tp > 1 and not layout.sequence_parallel:
        advice.append("layout.sequence_parallel: true")
    if training.micro_batch > 1:
        advice.append("a smaller training.micro_batch")
    if scenario.schedule.kind == "gpipe" and layout.pp > 1:
        advice.append("schedule.kind: 1f1b")
    advice.append("a larger layout.tp or layout.pp")
    return "try " + ", ".join(advice)
