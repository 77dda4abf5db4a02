"""Programs run on arrays: who holds, in which cell, whose contribution how often."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from trnsim.collectives import Program, Transfer

    Held = np.ndarray[tuple[int, int, int], np.dtype[np.int8]]
    """By member, cell and contributor."""


RUBBISH = 50
"""What is in cells that an operation has to write before anybody reads them."""


def execute(steps: Iterable[list[Transfer]], held: Held) -> Held:
    """Run the steps of a program: what is sent in a step is what was held before it."""
    held = held.copy()
    switches: dict[int, Held] = {}

    def at(place: int) -> Held:
        return held[place] if place >= 0 else switches.setdefault(place, np.zeros_like(held[0]))

    for step in steps:
        carried = [np.array(transfer.cells, dtype=np.intp) for transfer in step]
        messages = [at(transfer.source)[cells] for transfer, cells in zip(step, carried, strict=True)]
        for transfer, cells, message in zip(step, carried, messages, strict=True):
            if transfer.reduces:
                at(transfer.target)[cells] += message
            else:
                at(transfer.target)[cells] = message
    return held


def filled(plan: Program, *, contributors: int = 1, with_: int = RUBBISH) -> Held:
    return np.full((plan.ranks, plan.ranks * plan.parts, contributors), with_, dtype=np.int8)


def own_contributions(plan: Program) -> Held:
    """Each member has its own contribution to every cell."""
    held = filled(plan, contributors=plan.ranks, with_=0)
    for member in range(plan.ranks):
        held[member, :, member] = 1
    return held


def own_chunks(plan: Program) -> Held:
    """Each member has its own chunk; elsewhere may be what a reduction left there."""
    held = filled(plan)
    for member in range(plan.ranks):
        held[member, chunk_of(plan, member)] = 1
    return held


def all_at_root(plan: Program) -> Held:
    held = filled(plan)
    held[0] = 1
    return held


def own_blocks(plan: Program) -> Held:
    """Each member has a block for everyone: of each chunk the part with its number."""
    held = filled(plan)
    for member in range(plan.ranks):
        held[member, member :: plan.ranks] = 1
    return held


def chunk_of(plan: Program, member: int) -> slice:
    return slice(member * plan.parts, (member + 1) * plan.parts)


def everywhere(_plan: Program, held: Held) -> bool:
    return bool((held == 1).all())


def in_own_chunks(plan: Program, held: Held) -> bool:
    return all((held[member, chunk_of(plan, member)] == 1).all() for member in range(plan.ranks))


def in_next_chunks(plan: Program, held: Held) -> bool:
    return all((held[member, chunk_of(plan, (member - 1) % plan.ranks)] == 1).all() for member in range(plan.ranks))


def at_root(_plan: Program, held: Held) -> bool:
    return bool((held[0] == 1).all())


MEANINGS: dict[str, tuple[Callable[[Program], Held], Callable[[Program, Held], bool]]] = {
    "all-gather": (own_chunks, everywhere),
    "all-reduce": (own_contributions, everywhere),
    "all-to-all": (own_blocks, in_own_chunks),
    "all-to-all-v": (own_blocks, in_own_chunks),
    "broadcast": (all_at_root, everywhere),
    "reduce": (own_contributions, at_root),
    "reduce-scatter": (own_contributions, in_own_chunks),
    "send-recv": (own_chunks, in_next_chunks),
}
"""What is there before an operation, and what has to be there after it."""


def heard_of(steps: Iterable[list[Transfer]], ranks: int) -> list[set[int]]:
    """Return of which members each one knows, after steps of signals, that they have come."""
    known: dict[int, set[int]] = {member: {member} for member in range(ranks)}
    for step in steps:
        told = [(transfer.target, set(known.get(transfer.source, set()))) for transfer in step]
        for target, news in told:
            known.setdefault(target, set()).update(news)
    return [known[member] for member in range(ranks)]
