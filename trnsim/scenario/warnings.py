"""What is legal and probably not meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsim.scenario.rules.ranks import cores_on_last_host
from trnsim.schedules import schedule_kind
from trnsim.units import format_count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnsim.scenario.draft import Draft
    from trnsim.scenario.spec import Scenario

__all__ = ["warnings_of", "without_effect"]

MANY_TOKENS = 100_000_000


def warnings_of(draft: Draft, scenario: Scenario) -> Iterator[str]:
    """Yield one sentence for everything in a valid scenario that is probably not meant."""
    yield from _pipeline(scenario)
    yield from _batch(scenario)
    yield from _machine(draft, scenario)
    for key, because in (*without_effect(scenario), *_without_folding(scenario)):
        if draft.written(key):
            yield f"{key} has no effect: {because}"


def _pipeline(scenario: Scenario) -> Iterator[str]:
    stages, microbatches, virtual_stages = scenario.pipeline
    if microbatches < stages:
        works = microbatches * virtual_stages
        idles = schedule_kind(scenario.schedule.kind).bubble_slots(scenario.pipeline)
        yield (
            f"{microbatches} microbatches are fewer than {stages} stages: of the {works} + {idles} = {works + idles} slots of "
            f"a step each stage works in {works}"
        )


def _batch(scenario: Scenario) -> Iterator[str]:
    positions, length = scenario.model.learned_positions, scenario.training.sequence_length
    if 0 < positions < length:
        yield f"a sequence of {length:,} tokens is longer than the {positions:,} positions that {scenario.model.name} learns"
    if scenario.tokens > MANY_TOKENS:
        training = scenario.training
        yield (
            f"one step has {training.global_batch:,} x {training.sequence_length:,} = {format_count(scenario.tokens)} tokens; "
            f"few trainings go beyond {format_count(MANY_TOKENS)}"
        )


def _machine(draft: Draft, scenario: Scenario) -> Iterator[str]:
    server, family = scenario.cluster.server, scenario.cluster.software
    use, count = server.instance_use, cores_on_last_host(draft)
    if use is not None and count is not None and count not in use.allowed:
        unit = "chips" if use.unit == "chip" else "NeuronCores"
        yield f"{count} {unit} on one instance of {server.name} are reported to work and not documented"
    chip = server.chip.name.partition("@")[0]
    if chip not in family.chips and draft.written("cluster.software"):
        yield f"software family {family.name} describes {', '.join(family.chips)}, not {chip}"


def without_effect(scenario: Scenario) -> Iterator[tuple[str, str]]:
    """Yield the keys that change nothing in this scenario, and why."""
    layout, cluster, training = scenario.layout, scenario.cluster, scenario.training
    if training.precision == "bf16":
        yield from ((key, "precision is bf16") for key in ("training.fp8_matmuls", "training.fp8_operands"))
    if layout.pp == 1:
        of_the_pipeline = ("schedule.kind", "schedule.virtual_stages", "schedule.sends", "layout.stages")
        yield from ((key, "there is one pipeline stage") for key in of_the_pipeline)
    if layout.tp == 1 and layout.sequence_parallel:
        yield "layout.sequence_parallel", "tp is 1, so there is nothing to split"
    if layout.dp == 1:
        keys = ("layout.zero", "layout.zero_group", "training.bucket_parameters", "training.data_parallel_overlap")
        yield from ((key, "there is one data-parallel replica") for key in keys)
        if layout.tp == 1:
            yield from ((key, "no group has two members") for key in ("collectives.algorithm", "collectives.policy"))
    if not layout.sequence_parallel or layout.tp == 1:
        yield "training.tensor_parallel_overlap", "no sequence is split over tensor-parallel ranks"
    yield from _without_choice(scenario)
    yield from _without_sharing(scenario)
    if cluster.servers == 1:
        yield "cluster.fabric", "there is one server"
    if cluster.allow_idle and scenario.ranks == cluster.chips * scenario.ranks_per_chip:
        yield "cluster.allow_idle", "every chip is used"


def _without_choice(scenario: Scenario) -> Iterator[tuple[str, str]]:
    """Yield the keys that choose where there is nothing to choose."""
    recompute = scenario.training.recompute
    if recompute in ("none", "selective"):
        yield "training.recompute_early_stop", f"training.recompute is {recompute}, which has no end to leave out"
    named = {name for tiers in scenario.collectives.algorithm.values() for name in tiers.values()}
    if "auto" not in named:
        yield "collectives.policy", "every algorithm is named"


def _without_folding(scenario: Scenario) -> Iterator[tuple[str, str]]:
    """Yield the key of the fold where there is none."""
    if scenario.run.fidelity == "chunk":
        yield "run.folding", "chunk follows every rank by itself"


def _without_sharing(scenario: Scenario) -> Iterator[tuple[str, str]]:
    """Yield the keys of a kind of sharing that the layout does not have."""
    zero, overlap = scenario.layout.zero, scenario.training.data_parallel_overlap
    if zero == 0:
        yield "layout.zero_group", "ZeRO-0 shares nothing"
    if zero < 3:
        yield "layout.reshard_after_forward", f"ZeRO-{zero} gathers no weights for a pass"
        yield "training.prefetch", f"ZeRO-{zero} gathers no weights for a pass"
    else:
        yield "training.bucket_parameters", "ZeRO-3 exchanges block by block"
        if overlap != "prefetch":
            yield "training.prefetch", f"training.data_parallel_overlap is {overlap}"
