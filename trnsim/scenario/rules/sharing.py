"""Hybrid sharding: groups of data-parallel ranks that share what they hold."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from trnsim.scenario.rules.ranks import RANK_KEYS, ranks_of
from trnsim.scenario.rules.rule import Rule, divisors, near, one_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnsim.errors import Problem
    from trnsim.scenario.draft import Draft
    from trnsim.scenario.rules.ranks import Ranks

__all__ = ["RULES", "sharing_ranks"]


def sharing_ranks(draft: Draft) -> int | None:
    """Return how many data-parallel ranks share what they hold; ``None`` where that is not known."""
    ranks, group = ranks_of(draft), draft.file.layout.zero_group
    if ranks is None or ranks.dp is None or group == "all":
        return None if ranks is None else ranks.dp
    return min(ranks.dp, _replicas_in_a_server(draft, ranks)) if group == "server" else group


def groups_divide(draft: Draft) -> Iterator[Problem]:
    """Rule 1: the groups that share fill the data-parallel ranks; those of one server lie in it."""
    ranks, layout, group = ranks_of(draft), draft.file.layout, sharing_ranks(draft)
    if ranks is None or ranks.dp is None or group is None or ranks.dp == 1:
        return
    if group > 1 and ranks.dp % group == 0:
        return
    if layout.zero_group == "server":
        stride, seats = _stride(draft, ranks), ranks.chips * ranks.per_chip
        message = (
            f"{seats:,} ranks of a server hold {seats / stride:.3g} neighbours along dp, {stride:,} ranks apart, and dp is "
            f"{ranks.dp:,}; a whole number of them, at least 2, that divides dp is due"
        )
    else:
        choice = one_of(near(group, [divisor for divisor in divisors(ranks.dp) if divisor > 1]))
        message = (
            f"dp {ranks.dp:,} is no multiple of {group:,} ranks that share; the nearest that divide it are {choice}"
        )
    yield draft.document.problem("layout.zero_group", message, value=layout.zero_group)


def _replicas_in_a_server(draft: Draft, ranks: Ranks) -> int:
    """Return how many neighbours along dp every server holds; 1 if servers cut them unevenly."""
    neighbours, rest = divmod(ranks.chips * ranks.per_chip, _stride(draft, ranks))
    return 1 if rest else max(neighbours, 1)


def _stride(draft: Draft, ranks: Ranks) -> int:
    order = draft.file.layout.order
    inner = order[: order.index("dp")] if "dp" in order else ()
    return math.prod({"tp": ranks.tp, "cp": ranks.cp, "pp": ranks.pp}.get(axis, 1) for axis in inner)


RULES = (Rule(("layout.zero_group", "layout.order", *RANK_KEYS), groups_divide),)
