"""The rules that the values of a scenario keep together; each is one function, tried where all it needs can be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsim.scenario.rules import batch, fidelity, machine, perturbations, pipeline, ranks, scale, shapes, sharing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnsim.errors import Problem
    from trnsim.scenario.draft import Draft

__all__ = ["broken_rules"]

_RULES = (
    *machine.RULES,
    *ranks.RULES,
    *shapes.RULES,
    *pipeline.RULES,
    *batch.RULES,
    *sharing.RULES,
    *scale.RULES,
    *perturbations.RULES,
    *fidelity.RULES,
)


def broken_rules(draft: Draft) -> Iterator[Problem]:
    """Yield a problem for every rule that a draft breaks; rules that need a faulty key are left out."""
    for rule in _RULES:
        if draft.stands(rule.needs):
            yield from rule.check(draft)
