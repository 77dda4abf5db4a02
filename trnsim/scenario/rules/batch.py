"""The batch: whole microbatches on every replica."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsim.scenario.rules.ranks import RANK_KEYS, ranks_of
from trnsim.scenario.rules.rule import Rule, one_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnsim.errors import Problem
    from trnsim.scenario.draft import Draft

__all__ = ["RULES"]


def batch_divides(draft: Draft) -> Iterator[Problem]:
    """Rule 3: the global batch is a multiple of micro_batch x dp."""
    ranks, training = ranks_of(draft), draft.file.training
    if ranks is None or ranks.dp is None:
        return
    unit = training.micro_batch * ranks.dp
    rest = training.global_batch % unit
    if rest == 0:
        return
    below = training.global_batch - rest
    batches = [batch for batch in (below, below + unit) if batch]
    message = (
        f"{training.global_batch:,} sequences are no multiple of micro_batch {training.micro_batch:,} x dp {ranks.dp:,} = "
        f"{unit:,}; the nearest batch{'es are' if len(batches) > 1 else ' is'} {one_of(batches, 'and')}"
    )
    yield draft.document.problem("training.global_batch", message)


RULES = (Rule(("training.global_batch", "training.micro_batch", *RANK_KEYS), batch_divides),)
