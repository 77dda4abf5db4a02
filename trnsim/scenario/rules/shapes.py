"""The model cut to pieces: heads, widths and sequence by the degrees of the layout."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsim.scenario.rules.rule import Rule, divisors_near, one_of

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
        choice = divisors_near(model.attention_heads, tp)
        yield draft.document.problem(
            "layout.tp", f"{model.attention_heads} attention heads cannot be split {tp} ways; {choice}"
        )
    elif model.ffn_size % tp:
        choice = divisors_near(model.ffn_size, tp)
        yield draft.document.problem(
            "layout.tp", f"the MLP's width {model.ffn_size} cannot be split {tp} ways; {choice}"
        )


def kv_heads_divide(draft: Draft) -> Iterator[Problem]:
    """Rule 7: key and value heads are a multiple of tp; fewer than tp are copied until they are, which always works."""
    tp, model = draft.file.layout.tp, draft.model
    if model is not None and model.kv_heads >= tp and model.kv_heads % tp and model.attention_heads % tp == 0:
        choice = divisors_near(model.kv_heads, tp)
        message = f"{model.kv_heads} key and value heads cannot be split {tp} ways; {choice}"
        yield draft.document.problem("layout.tp", message)


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


RULES = (
    Rule(("layout.tp", "model"), heads_divide),
    Rule(("layout.tp", "model"), kv_heads_divide),
    Rule(("layout.tp", "layout.sequence_parallel", "training.sequence_length"), sequence_divides),
)
