"""The pipeline: layers on stages and virtual stages, and the shapes that a schedule can have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsim.scenario.rules.ranks import RANK_KEYS, ranks_of
from trnsim.scenario.rules.rule import Rule, divisors, divisors_near, near, one_of
from trnsim.schedules import Pipeline, broken_rules, schedule_kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnsim.errors import Problem
    from trnsim.scenario.draft import Draft
    from trnsim.schedules import BrokenRule

__all__ = ["RULES", "SCHEDULE_KEYS", "virtual_stages_of"]

SCHEDULE_KEYS = ("schedule.kind", "schedule.virtual_stages", "layout.pp")
"""Keys that decide how many virtual stages there are."""


def virtual_stages_of(draft: Draft) -> int:
    """Return how many virtual stages each stage has: 1 where the schedule has no use for more."""
    schedule = draft.file.schedule
    return schedule.virtual_stages if schedule_kind(schedule.kind).interleaves and draft.file.layout.pp > 1 else 1


def schedule_has_the_shape(draft: Draft) -> Iterator[Problem]:
    """Rule 5: several virtual stages need a pipeline, and interleaved 1F1B whole rounds of microbatches."""
    table, pp, training, ranks = draft.file.schedule, draft.file.layout.pp, draft.file.training, ranks_of(draft)
    kind = schedule_kind(table.kind)
    if pp == 1 and not kind.interleaves:
        return
    unit = training.micro_batch * (0 if ranks is None or ranks.dp is None else ranks.dp)
    is_whole = unit > 0 and training.global_batch % unit == 0
    microbatches = training.global_batch // unit if is_whole else pp  # a batch that does not divide breaks rule 3
    keys = {
        "stages": "layout.pp",
        "virtual_stages": "schedule.virtual_stages",
        "microbatches": "training.global_batch",
    }
    for broken in broken_rules(kind, Pipeline(pp, microbatches, table.virtual_stages)):
        key = keys[broken.number]
        table_name, _, name = key.partition(".")
        value = getattr(getattr(draft.file, table_name), name)
        yield draft.document.problem(key, _in_sequences(broken, unit), value=value)


def _in_sequences(broken: BrokenRule, unit: int) -> str:
    """Write a broken rule; its nearest numbers of microbatches as batches."""
    if not broken.nearest:
        return broken.message
    batches = one_of([near * unit for near in broken.nearest], "and")
    return f"{broken.message} microbatches; the nearest batch{'es are' if len(broken.nearest) > 1 else ' is'} {batches}"


def layers_fill_stages(draft: Draft) -> Iterator[Problem]:
    """Rule 4: no more stages than layers; Megatron's rules want them equal."""
    layout, model = draft.file.layout, draft.model
    if model is None or layout.stages is not None:
        return
    if layout.pp > model.layers:
        yield draft.document.problem(
            "layout.pp", f"{model.layers} layers cannot fill {layout.pp} stages; at most {model.layers}"
        )
    elif layout.rules == "megatron" and model.layers % layout.pp and virtual_stages_of(draft) == 1:
        message = (
            f"{model.layers} layers cannot be split into {layout.pp} equal stages, as layout.rules: megatron has it; "
            f"{divisors_near(model.layers, layout.pp)}; "
            "rules: nxd gives the last stages one more, layout.stages states a split"
        )
        yield draft.document.problem("layout.pp", message)


def layers_fill_virtual_stages(draft: Draft) -> Iterator[Problem]:
    """Rule 5: layers are a multiple of pp x virtual_stages, unless a split is stated."""
    layout, model, virtual_stages = draft.file.layout, draft.model, virtual_stages_of(draft)
    if model is None or layout.stages is not None or virtual_stages == 1 or layout.pp > model.layers:
        return
    if model.layers % (layout.pp * virtual_stages) == 0:
        return
    if model.layers % layout.pp:
        choice = f"pp {layout.pp} does not divide them: {divisors_near(model.layers, layout.pp)}"
    else:
        found = near(virtual_stages, [each for each in divisors(model.layers // layout.pp) if each > 1])
        does = "that divide are" if len(found) > 1 else "that divides is"
        choice = f"the nearest virtual_stages {does} {one_of(found, 'and')}" if found else "a stage has one layer"
    message = (
        f"{model.layers} layers are no multiple of pp {layout.pp} x {virtual_stages} virtual stages = "
        f"{layout.pp * virtual_stages}; {choice}; layout.stages states a split"
    )
    yield draft.document.problem("schedule.virtual_stages", message, value=virtual_stages)


def stages_add_up(draft: Draft) -> Iterator[Problem]:
    """Rule 4: a stated split has every stage and all layers; only where embedding or head is may a stage have none."""
    stages, pp, model = draft.file.layout.stages, draft.file.layout.pp, draft.model
    if stages is None:
        return
    virtual_stages = virtual_stages_of(draft)
    if len(stages) != pp * virtual_stages:
        listed = "1 stage is" if len(stages) == 1 else f"{len(stages)} stages are"
        due = (
            f"pp is {pp}"
            if virtual_stages == 1
            else f"pp {pp} x {virtual_stages} virtual stages = {pp * virtual_stages}"
        )
        yield draft.document.problem("layout.stages", f"{listed} listed, and {due}")
    empty = [number for number, layers in enumerate(stages) if layers == 0 and 0 < number < len(stages) - 1]
    if empty or stages == [0]:
        message = f"stage {(empty or [0])[0]} has no layers; only the first and the last of several may have none"
        yield draft.document.problem("layout.stages", message)
    if model is not None and sum(stages) != model.layers:
        total, missing = " + ".join(map(str, stages)), model.layers - sum(stages)
        verdict = f"{missing} too few" if missing > 0 else f"{-missing} too many"
        message = f"{total} = {sum(stages)} layers, and {model.name} has {model.layers}: {verdict}"
        yield draft.document.problem("layout.stages", message)


RULES = (
    Rule(("layout.stages", "layout.rules", "model", *SCHEDULE_KEYS), layers_fill_stages),
    Rule(("layout.stages", "model", *SCHEDULE_KEYS), layers_fill_virtual_stages),
    Rule(("layout.stages", *SCHEDULE_KEYS), stages_add_up),
    Rule(("training.global_batch", "training.micro_batch", *SCHEDULE_KEYS, *RANK_KEYS), schedule_has_the_shape),
)
