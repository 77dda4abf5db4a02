r"""Hierarchical: an algorithm for each level of the machine, so that what goes far is least.

A reduce-scatter inside each server leaves a member 1 / inner of the buffer; with that it takes part in the exchange
between servers, in which all NICs of a server work at once; an all-gather inside each server follows. Further levels
do the same once more. An all-to-all first brings every block to the member of its own server that has the
destination's place, then to the destination. By default rings inside servers, where links are fast and neighbours near,
and recursive halving and doubling between them, where a step is dear; blocks are sent directly on both levels.

Other algorithms are named after a colon, the nearest level first: ``hierarchical:torus/ring`` for server and fabric,
four names for chip, server, rack and fabric, or any levels by name: ``hierarchical:chip=direct/server=torus/fabric=ring``.

References
----------
AWS Neuron SDK documentation, Inter-node collective communications, read 2026-11-30
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from trnsim.collectives.algorithm import Algorithm
from trnsim.collectives.algorithms import direct, recursive_halving_doubling, ring
from trnsim.collectives.arrangement import LEVELS
from trnsim.collectives.program import spread
from trnsim.documents import canonical, refuse_unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from trnsim.collectives.arrangement import Arrangement
    from trnsim.collectives.program import Phase

    Parts = tuple[tuple[str, Algorithm], ...]

__all__ = ["ALGORITHM"]

_FORMS = {2: ("server", "fabric"), 4: LEVELS}
"""Levels that are meant when none are named, by the number of algorithms."""


def compose(text: str, find: Callable[[str], Algorithm]) -> Algorithm:
    """Return the hierarchical algorithm of given parts.

    Parameters
    ----------
    text
        What stands after the colon.
    find
        How an algorithm is found by its name.

    Raises
    ------
    ValueError
        If a level is unknown or out of order, the last is not the fabric, levels are missing, or the parts have no
        operation in common.
    """
    named = [part.rpartition("=") for part in text.split("/")]
    if any(level for level, _, _ in named):
        levels = tuple(_level(level) for level, _, _ in named)
    else:
        levels = _FORMS.get(len(named), ())
    in_order = [level for level in LEVELS if level in levels]
    if list(levels) != in_order or levels[-1:] != ("fabric",):
        raise ValueError(
            f'"{text}" does not name the levels of a hierarchical algorithm: two algorithms for server/fabric, four for '
            "chip/server/rack/fabric, or level=algorithm from the nearest level to the fabric"
        )
    parts = tuple((level, find(name)) for level, (_, _, name) in zip(levels, named, strict=True))
    if any(part.compose for _, part in parts):
        raise ValueError(f'"{text}": a hierarchical algorithm cannot be a level of another')
    return _of(f"hierarchical:{_written(parts)}", parts)


def _level(word: str) -> str:
    if canonical(word) not in LEVELS:
        raise ValueError(refuse_unknown("level of a hierarchical algorithm", word, LEVELS))
    return canonical(word)


def _written(parts: Parts) -> str:
    plain = tuple(level for level, _ in parts) in _FORMS.values()
    return "/".join(part.name if plain else f"{level}={part.name}" for level, part in parts)


def _of(name: str, parts: Parts) -> Algorithm:
    """Return the algorithm with a builder for each operation that its parts know."""
    inner, outer = [part.builders for _, part in parts[:-1]], parts[-1][1].builders
    reducing = all({"all-reduce", "reduce-scatter", "all-gather"} <= builders.keys() for builders in inner)
    builders = {
        op: partial(build, parts)
        for op, build in _BUILDERS.items()
        if op in outer and (reducing if op != "all-to-all" else all(op in each for each in inner))
    }
    if not builders:
        raise ValueError(f"the parts of {name} have no operation in common")
    return Algorithm(name, builders, lacks=partial(_lacks, parts), pipelined=any(part.pipelined for _, part in parts))


def _circles(parts: Parts, arrangement: Arrangement) -> Iterator[tuple[Algorithm, Arrangement, int]]:
    """Yield the parts that have something to do: algorithm, arrangement of a circle, distance of its members."""
    below, sizes = 1, arrangement.level_sizes
    for level, part in parts:
        if sizes[level] > below:
            yield part, arrangement.between(below, sizes[level]), below
            below = sizes[level]


def _in_turn(op: str, parts: Parts, arrangement: Arrangement) -> tuple[Phase, ...]:
    """Return the phases of one level after the other, the nearest first."""
    levels = (spread(part.builders[op](circle), below) for part, circle, below in _circles(parts, arrangement))
    return tuple(phase for phases in levels for phase in phases)


def _reduce_scatter(parts: Parts, arrangement: Arrangement) -> tuple[Phase, ...]:
    return _in_turn("reduce-scatter", parts, arrangement)


def _all_to_all(parts: Parts, arrangement: Arrangement) -> tuple[Phase, ...]:
    return _in_turn("all-to-all", parts, arrangement)


def _all_gather(parts: Parts, arrangement: Arrangement) -> tuple[Phase, ...]:
    levels = reversed(list(_circles(parts, arrangement)))
    return tuple(
        phase for part, circle, below in levels for phase in spread(part.builders["all-gather"](circle), below)
    )


def _all_reduce(parts: Parts, arrangement: Arrangement) -> tuple[Phase, ...]:
    """Return the halves of an all-reduce on all levels but the farthest, and between them a whole one on that."""
    *_, (part, circle, below) = _circles(parts, arrangement)
    farthest = spread(part.builders["all-reduce"](circle), below)
    if below == 1:
        return farthest
    nearer = arrangement.between(1, below)
    return (*_reduce_scatter(parts, nearer), *farthest, *_all_gather(parts, nearer))


def _lacks(parts: Parts, arrangement: Arrangement) -> str:
    for part, circle, _ in _circles(parts, arrangement):
        if lacking := part.lacks(circle):
            return f"{lacking} (for {part.name})"
    return ""


_BUILDERS = {
    "all-reduce": _all_reduce,
    "all-gather": _all_gather,
    "reduce-scatter": _reduce_scatter,
    "all-to-all": _all_to_all,
}

_REDUCING = _of("hierarchical", (("server", ring.ALGORITHM), ("fabric", recursive_halving_doubling.ALGORITHM)))
_BLOCKS = _of("hierarchical", (("server", direct.ALGORITHM), ("fabric", direct.ALGORITHM)))

ALGORITHM = Algorithm(
    "hierarchical", {**_REDUCING.builders, "all-to-all": _BLOCKS.builders["all-to-all"]}, compose=compose
)
