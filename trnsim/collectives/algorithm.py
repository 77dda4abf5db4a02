"""An algorithm: the operations that it knows, and how their phases are made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsim.collectives.program import mirrored
from trnsim.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from trnsim.collectives.arrangement import Arrangement
    from trnsim.collectives.program import Phase

    Builder = Callable[[Arrangement], tuple[Phase, ...]]

__all__ = ["Algorithm", "nothing", "reduce_and_broadcast", "scatter_and_gather", "with_few_members"]

_FEW = 16_384


def nothing(_arrangement: Arrangement) -> str:
    """Return that nothing is lacking."""
    return ""


def with_few_members(arrangement: Arrangement) -> str:
    """Return that a large group lacks being small: for algorithms of which every step is a phase of its own."""
    return f"a group of at most {_FEW:,} members" if arrangement.ranks > _FEW else ""


class Algorithm(Record):
    """An algorithm: for each operation that it knows, how its phases are made.

    Parameters
    ----------
    name
        As users write it.
    builders
        Operation to function from arrangement to phases. They are called for groups of two and more that lack nothing.
    lacks
        Function from arrangement to what it lacks for this algorithm, as words that follow "needs"; empty if nothing.
    pipelined
        Whether the number of pieces makes a difference.
    aliases
        Other names.
    compose
        For an algorithm that is made of others: from what stands after a colon behind its name, and a function that
        finds algorithms by their names, to the algorithm that is meant.
    """

    name: str
    builders: Mapping[str, Builder]
    lacks: Callable[[Arrangement], str] = nothing
    pipelined: bool = False
    aliases: tuple[str, ...] = ()
    compose: Callable[[str, Callable[[str], Algorithm]], Algorithm] | None = None


def scatter_and_gather(reduce_scatter: Builder) -> dict[str, Builder]:
    """Return the three operations that follow from a reduce-scatter.

    Its mirror image, backward and every transfer the other way, is an all-gather; one after the other they are an
    all-reduce.
    """

    def all_gather(arrangement: Arrangement) -> tuple[Phase, ...]:
        return mirrored(reduce_scatter(arrangement))

    def all_reduce(arrangement: Arrangement) -> tuple[Phase, ...]:
        return reduce_scatter(arrangement) + all_gather(arrangement)

    return {"all-reduce": all_reduce, "all-gather": all_gather, "reduce-scatter": reduce_scatter}


def reduce_and_broadcast(broadcast: Builder) -> dict[str, Builder]:
    """Return the two operations that follow from a broadcast from member 0: its mirror image is a reduce to member 0."""

    def reduce(arrangement: Arrangement) -> tuple[Phase, ...]:
        return mirrored(broadcast(arrangement))

    return {"broadcast": broadcast, "reduce": reduce}
