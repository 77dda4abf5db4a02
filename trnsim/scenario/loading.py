"""From a file to a resolved scenario, or to the report of everything that is wrong with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from trnsim.documents import locate, read_document, with_overrides
from trnsim.errors import InputError, Problem
from trnsim.parallel import split_layers
from trnsim.scenario.derived import defaults_of, derived_of
from trnsim.scenario.draft import read_draft
from trnsim.scenario.rules import broken_rules
from trnsim.scenario.rules.perturbations import perturbations_of, places_of
from trnsim.scenario.rules.pipeline import virtual_stages_of
from trnsim.scenario.rules.ranks import ranks_of
from trnsim.scenario.rules.sharing import sharing_ranks
from trnsim.scenario.spec import Cluster, Collectives, Layout, Run, Scenario, ScheduleSpec, Training
from trnsim.scenario.warnings import warnings_of
from trnsim.schedules import schedule_kind
from trnsim.workload import is_huggingface, kv_replication, padded_vocabulary, recomputed_operators

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from trnsim.documents import Document
    from trnsim.scenario.draft import Draft
    from trnsim.topology.perturbations import Perturbation
    from trnsim.workload import Transformer

__all__ = ["load", "resolve"]


def load(path_or_name: str | Path, overrides: Sequence[str] = ()) -> Scenario:
    """Read, check and resolve a scenario.

    Parameters
    ----------
    path_or_name
        A file, or the name of a scenario that comes with trnsim; an existing path beats a name.
    overrides
        ``key=value`` each, as of ``--set``; applied before anything is checked. Paths in them are relative to the
        working directory, and those in a file to the file.

    Raises
    ------
    InputError
        With every problem that was found. Its exit code is 3 if the scenario is legal and only the cluster too small.
        Memory is not checked here.

    Examples
    --------
    >>> from trnsim import scenario
    >>> loaded = scenario.load("llama3.1-405b-trn3", ["training.global_batch=1152"])
    >>> loaded.layout.dp, loaded.microbatches
    (32, 36)
    """
    return resolve(with_overrides(read_document(locate("scenarios", str(path_or_name))), overrides))


def resolve(document: Document) -> Scenario:
    """Check and resolve a scenario that has been read, or was made as a document with a path.

    Raises
    ------
    InputError
        As :func:`load`.
    """
    _refuse_other_kinds(document)
    draft, problems = read_draft(document)
    problems.extend(broken_rules(draft))
    if problems:
        raise InputError(problems, file=document.name)
    return _resolved(draft)


def _refuse_other_kinds(document: Document) -> None:
    if "schema" not in document.data and is_huggingface(document.data):
        message = (
            'this is a model, and a scenario is due (it starts with "schema: 1"); a scenario names a model in "model:"'
        )
        raise InputError([Problem("", message)], file=document.name)


def _resolved(draft: Draft) -> Scenario:
    """Fill in what the file leaves out; the draft has no problems."""
    ranks, model, path = ranks_of(draft), draft.model, draft.document.path
    if ranks is None or ranks.dp is None or model is None or path is None:
        raise ValueError("a draft with problems cannot be resolved")
    file = draft.file
    scenario = Scenario(
        name=file.name or path.stem,
        document=draft.document,
        cluster=_cluster(draft),
        model=model,
        training=_training(draft, ranks.dp),
        layout=_layout(draft, model, ranks.dp),
        schedule=_schedule(draft),
        collectives=Collectives(file.collectives.algorithm, file.collectives.policy),
        run=_run(draft),
        perturbations=_perturbations(draft),
        derived={},
        defaults={},
        warnings=(),
    )
    return replace(
        scenario,
        derived=derived_of(draft, scenario, ranks),
        defaults=defaults_of(draft, scenario),
        warnings=tuple(warnings_of(draft, scenario)),
    )


def _perturbations(draft: Draft) -> tuple[Perturbation, ...]:
    places = places_of(draft)
    return () if places is None else perturbations_of(draft, places)


def _cluster(draft: Draft) -> Cluster:
    table, server, family = draft.file.cluster, draft.server, draft.family
    if server is None or family is None:
        raise ValueError("a draft with problems cannot be resolved")
    fabric = draft.fabric if table.servers > 1 else None
    return Cluster(server, table.servers, fabric, draft.lnc, table.allow_idle, family)


def _run(draft: Draft) -> Run:
    table = draft.file.run
    folding = "off" if table.fidelity == "chunk" else table.folding
    return Run(**table.model_dump() | {"skew": table.skew == "on", "folding": folding})


def _training(draft: Draft, dp: int) -> Training:
    table, family = draft.file.training, draft.family
    overlap = table.data_parallel_overlap or (family.data_parallel_overlap if family else "none")
    if table.data_parallel_overlap is None and draft.file.layout.zero == 3 and overlap == "buckets":
        overlap = "prefetch"
    bucket = max(40_000_000, 1_000_000 * dp) if table.bucket_parameters == "auto" else table.bucket_parameters
    recompute = table.recompute if isinstance(table.recompute, str) else recomputed_operators(table.recompute)
    return Training(
        sequence_length=table.sequence_length,
        global_batch=table.global_batch,
        micro_batch=table.micro_batch,
        precision=table.precision,
        fp8_matmuls=table.fp8_matmuls,
        fp8_operands=table.fp8_operands,
        attention=table.attention,
        gradient_dtype=table.gradient_dtype,
        states=table.states,
        fused_update=table.fused_update,
        optimizer_offload=table.optimizer_offload,
        cross_entropy=table.cross_entropy,
        reduce_dtype=table.reduce_dtype or table.gradient_dtype,
        recompute=recompute,
        recompute_early_stop=table.recompute_early_stop,
        bucket_parameters=bucket,
        data_parallel_overlap=overlap,
        tensor_parallel_overlap=table.tensor_parallel_overlap,
        prefetch=table.prefetch,
    )


def _schedule(draft: Draft) -> ScheduleSpec:
    """Return the schedule; with one pipeline stage all schedules do the same, and the plainest stands for them."""
    table = draft.file.schedule
    kind = schedule_kind(table.kind if draft.file.layout.pp > 1 else "1f1b")
    return ScheduleSpec(kind.name, virtual_stages_of(draft), table.sends or kind.sends)


def _layout(draft: Draft, model: Transformer, dp: int) -> Layout:
    table = draft.file.layout
    split = table.sequence_parallel if table.sequence_parallel is not None else table.tp > 1
    return Layout(
        rank=table.rank,
        order=tuple(table.order),
        tp=table.tp,
        cp=table.cp,
        pp=table.pp,
        ep=table.ep,
        dp=dp,
        zero=table.zero,
        zero_group=(sharing_ranks(draft) or dp) if table.zero else dp,
        reshard_after_forward=table.reshard_after_forward,
        sequence_parallel=split,
        stages=tuple(table.stages) if table.stages else split_layers(model.layers, table.pp * virtual_stages_of(draft)),
        rules=table.rules,
        kv_replication=kv_replication(model.kv_heads, table.tp),
        vocabulary=padded_vocabulary(model.vocabulary, table.tp, table.rules),
    )
