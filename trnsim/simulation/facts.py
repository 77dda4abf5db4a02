"""What a finished run says: the records of a result, read off the engine, the prices and the scenario."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from trnsim.engine import stream_stretches, stretches
from trnsim.record import Record
from trnsim.results import (
    Breakdown,
    ClusterFacts,
    Memory,
    MemoryTerms,
    ModelFacts,
    Slice,
    StageFacts,
    Step,
    Timeline,
    Track,
    WaterfallLine,
    waterfall,
)
from trnsim.simulation.memory import memory_limit_bytes, worst
from trnsim.workload import Work, flops_per_token

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from trnsim.engine import Log, Stretch
    from trnsim.results import ErrorBand
    from trnsim.scenario import Scenario
    from trnsim.simulation.machine import Machine
    from trnsim.simulation.memory import StageMemory
    from trnsim.simulation.simulated import Simulated
    from trnsim.training import Member
    from trnsim.workload import Block, Item
    from trnsim.workload import MemoryTerms as StageTerms

FLOPS_RULE = "PaLM: 6 x matmul parameters + 12 x layers x heads x head_dim x sequence per token, recompute not counted"


def cluster_facts(scenario: Scenario) -> ClusterFacts:
    """Describe the machine."""
    cluster = scenario.cluster
    used = -(-scenario.ranks // scenario.ranks_per_chip)
    return ClusterFacts(
        server=cluster.server.name,
        servers=cluster.servers,
        chips=cluster.chips,
        ranks=scenario.ranks,
        chip=cluster.server.chip.name,
        fabric=cluster.fabric.name if cluster.fabric else None,
        software=cluster.software.name,
        lnc=cluster.lnc,
        ranks_per_chip=scenario.ranks_per_chip,
        hosts=cluster.hosts,
        idle_chips=cluster.chips - used,
    )


def model_facts(scenario: Scenario) -> ModelFacts:
    """Describe the model."""
    model = scenario.model
    return ModelFacts(model.name, model.parameters, model.active_parameters)


def step_facts(scenario: Scenario, run: Simulated, band: ErrorBand) -> Step:
    """Describe the step: time, throughput, utilization, parts."""
    time_s, tokens = run.window.duration_s, scenario.tokens
    return Step(
        time_s=time_s,
        first_step_time_s=run.window.first_step_s,
        tokens=tokens,
        tokens_per_s=tokens / time_s,
        sequences_per_s=scenario.training.global_batch / time_s,
        mfu=_model_flops(scenario, causal=False) / _capacity_flops(scenario, run),
        mfu_causal=_model_flops(scenario, causal=True) / _capacity_flops(scenario, run),
        hfu=_executed_flops(run) / _capacity_flops(scenario, run),
        peak_flops_per_s_per_chip=_peak_flops_per_s(scenario),
        peak=_peak_name(scenario),
        flops_rule=FLOPS_RULE,
        error_band=band,
        breakdown_rank=run.last.node.first_rank,
        breakdown_s=Breakdown(**run.account.by_heading()),
    )


def _model_flops(scenario: Scenario, *, causal: bool) -> float:
    """Model FLOPs of a step by PaLM's rule."""
    return flops_per_token(scenario.model, scenario.training.sequence_length, causal=causal) * scenario.tokens


def _capacity_flops(scenario: Scenario, run: Simulated) -> float:
    """FLOPs that all chips could do in the time of a step."""
    return run.window.duration_s * scenario.cluster.chips * _peak_flops_per_s(scenario)


def _peak_flops_per_s(scenario: Scenario) -> float:
    chip = scenario.cluster.server.chip
    peaks = chip.peak_flops_per_s if scenario.run.mfu_peak == "chip" else chip.tensor_engine_flops_per_s
    return peaks[scenario.training.precision].value


def _peak_name(scenario: Scenario) -> str:
    dtype, chip = scenario.training.precision, scenario.cluster.server.chip
    if scenario.run.mfu_peak == "chip":
        return f"dense {dtype} peak of {chip.name} as {chip.maker} prints it"
    return f"dense {dtype} peak of the tensor engines of {chip.name}"


def memory_facts(scenario: Scenario, machine: Machine, memories: list[StageMemory]) -> Memory:
    """Describe the memory of the rank that needs most."""
    most = worst(memories)
    return Memory(
        limit_bytes=memory_limit_bytes(scenario),
        worst_rank=machine.mesh.rank({"pp": most.stage}),
        worst_stage=most.stage,
        bytes=most.terms.total,
        by_term_bytes=memory_terms(most.terms),
    )


def stage_facts(run: Simulated, memories: list[StageMemory]) -> tuple[StageFacts, ...]:
    """Describe the stages, each by its first cohort."""
    first = {member.node.stage.number: member for member in reversed(run.members)}
    return tuple(_stage_facts(run, first[memory.stage], memory) for memory in memories)


def _stage_facts(run: Simulated, member: Member, memory: StageMemory) -> StageFacts:
    passes = member.plan.passes
    return StageFacts(
        stage=memory.stage,
        layers=sum(run.spec.split[place] for place in passes),
        parameters=member.node.stage.parameters,
        forward_s=math.fsum(work.forward.duration_s for work in passes.values()),
        backward_s=math.fsum(work.backward.duration_s for work in passes.values()),
        in_flight=memory.in_flight,
        memory_bytes=memory_terms(memory.terms),
    )


def waterfall_facts(scenario: Scenario, run: Simulated) -> tuple[WaterfallLine, ...]:
    """Explain the distance between peak and model FLOPs utilization."""
    return waterfall(
        parts=Breakdown(**run.account.by_heading()),
        gemm_efficiency=run.spec.rates.matmul_flops_per_s * scenario.ranks_per_chip / _peak_flops_per_s(scenario),
        mfu=_model_flops(scenario, causal=False) / _capacity_flops(scenario, run),
    )


class _Slices(Record):
    """The slices of one track, made when a trace asks for them: a run without a trace pays nothing."""

    log: Log
    read: Callable[[Log], Iterator[Stretch]]

    def __iter__(self) -> Iterator[Slice]:
        return (Slice(s.name, s.heading, s.start_s, s.end_s, s.depth) for s in self.read(self.log))


def timeline(scenario: Scenario, run: Simulated) -> Timeline:
    """Lay out the tracks of a trace: two streams of the first rank of each cohort, up to the cap."""
    tracks = []
    for cohort in run.cohorts[: scenario.run.trace_ranks]:
        tracks.append(Track(str(cohort), "compute", _Slices(cohort.log, stretches)))
        if len(cohort.stream):
            tracks.append(Track(str(cohort), "launched transfers", _Slices(cohort.stream, stream_stretches)))
    return Timeline(tuple(tracks), scenario.run.trace_ranks)


def memory_terms(terms: StageTerms) -> MemoryTerms:
    """Return counted terms as a record of a result."""
    return MemoryTerms(
        terms.weights, terms.gradients, terms.optimizer, terms.activations, terms.communication, terms.buffers
    )


def _executed_flops(run: Simulated) -> float:
    """FLOPs that all ranks execute in a step, recompute and replicated heads included."""
    per_rank = [
        sum(item.flops for block in stage.blocks for item in _items(block) if isinstance(item, Work))
        for stage in run.folding.stages
    ]
    return sum(node.ranks * per_rank[node.stage.number] for node in run.folding.nodes) * float(run.spec.microbatches)


def _items(block: Block) -> tuple[Item, ...]:
    return (*block.forward, *block.recompute, *block.backward)
