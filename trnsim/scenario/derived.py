"""What a scenario leaves out: the values that follow from the others, and the defaults."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from trnsim.scenario.warnings import without_effect
from trnsim.units import format_count
from trnsim.workload import model_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trnsim.scenario.draft import Draft
    from trnsim.scenario.rules.ranks import Ranks
    from trnsim.scenario.spec import Scenario

__all__ = ["defaults_of", "derived_of"]


def derived_of(draft: Draft, scenario: Scenario, ranks: Ranks) -> dict[str, str]:
    """Return what follows from a scenario, in words with its arithmetic, in the order in which one reads it."""
    return dict((*_of_ranks(draft, scenario, ranks), *_of_batch(draft, scenario), *_of_model(draft, scenario)))


def defaults_of(draft: Draft, scenario: Scenario) -> dict[str, str]:
    """Return the keys that the user did not write and that have an effect, with the values they have."""
    resolved: dict[str, Any] = {
        "name": scenario.name,
        "cluster.lnc": scenario.cluster.lnc,
        "cluster.software": scenario.cluster.software.name,
        "training.data_parallel_overlap": scenario.training.data_parallel_overlap,
        "training.reduce_dtype": None,  # that of gradient_dtype, which is shown
        "layout.cp": None,  # 1 is the only degree
        "layout.ep": None,
        "run.engine": None,  # with one result
        "layout.sequence_parallel": scenario.layout.sequence_parallel,
        "schedule.sends": scenario.schedule.sends,
        "collectives.algorithm": "auto",
    }
    idle = {key for key, _ in without_effect(scenario)}
    found = {
        key: resolved.get(key, value)
        for key, value in _leaves(draft.file, "")
        if not draft.written(key) and key not in idle
    }
    return {key: _text(value) for key, value in found.items() if value is not None}


def _of_ranks(draft: Draft, scenario: Scenario, ranks: Ranks) -> Iterator[tuple[str, str]]:
    layout, cluster = scenario.layout, scenario.cluster
    yield "ranks", f"{scenario.ranks:,} = {ranks.replica_text} x dp {layout.dp:,}"
    if draft.file.layout.dp == "auto":
        yield "dp", f"{layout.dp:,} = {ranks.available:,} ranks / ({ranks.replica_text})"
    if layout.zero_group < layout.dp:
        copies = layout.dp // layout.zero_group
        yield "hybrid sharding", f"{copies:,} groups of {layout.zero_group:,} ranks that share = dp {layout.dp:,}"
    idle = ranks.available - scenario.ranks
    if idle:
        yield "idle ranks", f"{idle:,} of {ranks.available:,}; numbers per chip divide by all {cluster.chips:,} chips"
    if scenario.run.fidelity == "chunk":
        yield "folding", "off: chunk follows the messages of every rank"
    if layout.rank == "chip" and cluster.lnc is not None:
        cores = cluster.server.chip.logical_cores(cluster.lnc)
        yield "logical cores", f"{cluster.chips * cores:,} = {cluster.chips:,} chips x {cores} at LNC {cluster.lnc}"


def _of_batch(draft: Draft, scenario: Scenario) -> Iterator[tuple[str, str]]:
    training, dp = scenario.training, scenario.layout.dp
    yield (
        "microbatches",
        f"{scenario.microbatches:,} = {training.global_batch:,} sequences / (micro_batch {training.micro_batch:,} x dp {dp:,})",
    )
    yield (
        "tokens per step",
        f"{format_count(scenario.tokens)} = {training.global_batch:,} x {training.sequence_length:,}",
    )
    if draft.file.training.bucket_parameters == "auto" and scenario.layout.zero < 3:
        yield "bucket_parameters", f"{training.bucket_parameters:,} = max(40e6, 1e6 x dp {dp:,})"


def _of_model(draft: Draft, scenario: Scenario) -> Iterator[tuple[str, str]]:
    layout, model = scenario.layout, scenario.model
    if layout.pp > 1:
        yield "stages", f"{_runs(layout.stages)} layers{_dealt_out(scenario)}"
    padding = layout.vocabulary - model.vocabulary
    padded = f" = {model.vocabulary:,} padded by {padding:,} ({layout.rules} rules)" if padding else ", not padded"
    yield "vocabulary", f"{layout.vocabulary:,}{padded}"
    if layout.kv_replication > 1:
        yield "kv heads", f"{model.kv_heads} x {layout.kv_replication} copies for tp {layout.tp}"
    if model.notes and draft.file.model not in model_names():
        yield "model", "; ".join(model.notes)
    if isinstance(scenario.training.recompute, frozenset):
        yield "recompute", ", ".join(sorted(scenario.training.recompute))


def _dealt_out(scenario: Scenario) -> str:
    """Say where virtual stages are."""
    stages, virtual_stages = scenario.layout.pp, scenario.schedule.virtual_stages
    if virtual_stages == 1:
        return ""
    return f" on {stages * virtual_stages} virtual stages, number k on stage k mod {stages}: {virtual_stages} on each"


def _runs(stages: Sequence[int]) -> str:
    """Write a split as runs of equal stages: ``2 x 3 + 30 x 4``."""
    return " + ".join(f"{len(list(run))} x {layers}" for layers, run in groupby(stages))


def _leaves(table: BaseModel, path: str) -> Iterator[tuple[str, Any]]:
    for name, field in type(table).model_fields.items():
        key, value = f"{path}{field.alias or name}", getattr(table, name)
        if isinstance(value, BaseModel):
            yield from _leaves(value, f"{key}.")
        else:
            yield key, value


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"[{', '.join(map(str, value))}]" if isinstance(value, list) else str(value)
