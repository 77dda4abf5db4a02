"""The model cut to pieces: heads, widths, layers and sequence by the degrees of the layout."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsim.scenario.rules.rule import Rule, divisors, near, one_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnsim.errors import Problem
    from trnsim.scenario.draft import Draft

__all__ = ["RULES"]


def heads_divide(draft: Draft) -> Iterator[Problem]:
    """Rule 7: query heads, and the width of the MLP, are a multiple of tp."""
    tp, model = draft.file.layout.tp, draft.model
    if model is None:
        return
    if model.attention_heads % tp:
        choice = _divisors_near(model.attention_heads, tp)
        yield draft.document.problem(
            "layout.tp", f"{model.attention_heads} attention heads cannot be split {tp} ways; {choice}"
        )
    elif model.ffn_size % tp:
        choice = _divisors_near(model.ffn_size, tp)
        yield draft.document.problem(
            "layout.tp", f"the MLP's width {model.ffn_size} cannot be split {tp} ways; {choice}"
        )


def kv_heads_divide(draft: Draft) -> Iterator[Problem]:
    """Rule 7: key and value heads are a multiple of tp; fewer than tp are copied until they are, which always works."""
    tp, model = draft.file.layout.tp, draft.model
    if model is not None and model.kv_heads >= tp and model.kv_heads % tp and model.attention_heads % tp == 0:
        choice = _divisors_near(model.kv_heads, tp)
        message = f"{model.kv_heads} key and value heads cannot be split {tp} ways; {choice}"
        yield draft.document.problem("layout.tp", message)


def layers_fill_stages(draft: Draft) -> Iterator[Problem]:
    """Rule 4: no more stages than layers; Megatron's rules want them equal."""
    layout, model = draft.file.layout, draft.model
    if model is None:
        return
    if layout.pp > model.layers:
        yield draft.document.problem(
            "layout.pp", f"{model.layers} layers cannot fill {layout.pp} stages; at most {model.layers}"
        )
    elif layout.stages is None and layout.rules == "megatron" and model.layers % layout.pp:
        choice = _divisors_near(model.layers, layout.pp)
        message = (
            f"{model.layers} layers cannot be split into {layout.pp} equal stages, as layout.rules: megatron has it; {choice}; "
            "rules: nxd gives the last stages one more, layout.stages states a split"
        )
        yield draft.document.problem("layout.pp", message)


def stages_add_up(draft: Draft) -> Iterator[Problem]:
    """Rule 4: a stated split has pp stages and all layers."""
    stages, pp, model = draft.file.layout.stages, draft.file.layout.pp, draft.model
    if stages is None:
        return
    if len(stages) != pp:
        listed = "1 stage is" if len(stages) == 1 else f"{len(stages)} stages are"
        yield draft.document.problem("layout.stages", f"{listed} listed, and pp is {pp}")
    if model is not None and sum(stages) != model.layers:
        total, missing = " + ".join(map(str, stages)), model.layers - sum(stages)
        verdict = f"{missing} too few" if missing > 0 else f"{-missing} too many"
        message = f"{total} = {sum(stages)} layers, and {model.name} has {model.layers}: {verdict}"
        yield draft.document.problem("layout.stages", message)


def sequence_divides(draft: Draft) -> Iterator[Problem]:
    """Rule 9: sequence parallelism splits a sequence tp ways."""
    layout, length = draft.file.layout, draft.file.training.sequence_length
    if layout.tp == 1 or layout.sequence_parallel is False or length % layout.tp == 0:
        return
    below = length - length % layout.tp
    lengths = [length for length in (below, below + layout.tp) if length]
    nearest = f"lengths are {one_of(lengths, 'and')}" if len(lengths) > 1 else f"length is {one_of(lengths)}"
    message = (
        f"sequence parallelism splits a sequence tp {layout.tp} ways, and {length:,} mod {layout.tp} = {length % layout.tp}; "
        f"the nearest {nearest}"
    )
    yield draft.document.problem("training.sequence_length", message)


def _divisors_near(number: int, degree: int) -> str:
    found = near(degree, divisors(number))
    return (
        f"the divisor{'s' if len(found) > 1 else ''} near it {'are' if len(found) > 1 else 'is'} {one_of(found, 'and')}"
    )


RULES = (
    Rule(("layout.tp", "model"), heads_divide),
    Rule(("layout.tp", "model"), kv_heads_divide),
    Rule(("layout.pp", "layout.stages", "layout.rules", "model"), layers_fill_stages),
    Rule(("layout.pp", "layout.stages"), stages_add_up),
    Rule(("layout.tp", "layout.sequence_parallel", "training.sequence_length"), sequence_divides),
)
