"""Groups to try programs on: for each number of members every algorithm in every arrangement that divides them."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from trnsim.collectives import Arrangement, algorithm, algorithm_names, disjoint_cycles, op_names, program

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnsim.collectives import Program

LARGEST = 33
PIECES = (1, 2, 5)
LEVELS = ("ring", "unidirectional-ring", "recursive-halving-doubling", "direct", "in-network")
"""Algorithms that are tried on each level of a hierarchical one."""


class Case(NamedTuple):
    """A program and the arrangement for which it was made."""

    plan: Program
    arrangement: Arrangement


def divisors(number: int) -> list[int]:
    return [each for each in range(1, number + 1) if number % each == 0]


def shapes(number: int) -> Iterator[tuple[int, ...]]:
    """Yield the ways to write a number as an ordered product of one to three factors above 1."""
    for first in divisors(number)[1:]:
        if first == number:
            yield (first,)
        for second in divisors(number // first)[1:]:
            third = number // first // second
            yield (first, second, third) if third > 1 else (first, second)


def tours(ranks: int, per_chip: int) -> tuple[tuple[int, ...], ...]:
    """Return the two cycles of a square of chips, each chip's members in a row."""
    side = math.isqrt(ranks // per_chip)
    if side < 3 or side**2 * per_chip != ranks:
        return ()
    return tuple(
        tuple(chip * per_chip + core for chip in cycle for core in range(per_chip)) for cycle in disjoint_cycles(side)
    )


@cache
def cases(ranks: int) -> tuple[Case, ...]:
    """Return every operation by every algorithm for a group; of equal programs one."""
    found: dict[object, Case] = {}
    for name, arrangement in _arrangements(ranks):
        for op in op_names():
            if _knows(op, name):
                plan = program(op, name, arrangement)
                found.setdefault((op, plan.phases), Case(plan, arrangement))
    return tuple(found.values())


@cache
def _knows(op: str, name: str) -> bool:
    try:
        algorithm(op, name)
    except ValueError:
        return False
    return True


def _arrangements(ranks: int) -> Iterator[tuple[str, Arrangement]]:
    plain = set(algorithm_names()) - {"hierarchical", "torus", "kangaring"}
    for name in sorted(plain):
        pieces = PIECES if _pipelined(name) else (1,)
        yield from ((name, Arrangement(ranks, reducing_switch=True, pieces=each)) for each in pieces)
    for per_chip in divisors(ranks):
        yield from _one_server(ranks, per_chip)
    for inner in divisors(ranks):
        yield from _servers(ranks, inner)
        for per_chip in divisors(inner):
            yield from _chips(ranks, inner, per_chip)


def _one_server(ranks: int, per_chip: int) -> Iterator[tuple[str, Arrangement]]:
    """Yield what goes along the links between chips."""
    visits = tours(ranks, per_chip)
    if per_chip % 2 == 0:
        yield "kangaring", Arrangement(ranks, per_chip=per_chip)
        yield "kangaring", Arrangement(ranks, ranks, visits, per_chip)
    if visits:
        yield "ring", Arrangement(ranks, ranks, visits, per_chip)
        yield "unidirectional-ring", Arrangement(ranks, ranks, visits, per_chip)
    for shape in shapes(ranks // per_chip) if per_chip <= 2 else ():
        yield "torus", Arrangement(ranks, ranks, (), per_chip, shape)


def _servers(ranks: int, inner: int) -> Iterator[tuple[str, Arrangement]]:
    """Yield every algorithm inside servers and between them."""
    yield "hierarchical", Arrangement(ranks, inner, tours(inner, 1))
    yield "rail-ring", Arrangement(ranks, inner)
    for level in LEVELS:
        known = Arrangement(ranks, inner, reducing_switch=True, pieces=2)
        yield f"hierarchical:{level}/recursive-halving-doubling", known
        yield f"hierarchical:direct/{level}", known
    yield "hierarchical:ring/double-binary-tree", Arrangement(ranks, inner, pieces=2)
    yield "hierarchical:pairwise/direct", Arrangement(ranks, inner)
    yield "hierarchical:direct/pairwise", Arrangement(ranks, inner)


def _chips(ranks: int, inner: int, per_chip: int) -> Iterator[tuple[str, Arrangement]]:
    """Yield what tells apart chips of a server, and racks."""
    known = Arrangement(ranks, inner, tours(inner, per_chip), per_chip)
    if per_chip % 2 == 0:
        yield "hierarchical:kangaring/ring", known
    for shape in shapes(inner // per_chip) if inner < ranks else ():
        name = "hierarchical:chip=direct/server=torus/fabric=ring" if per_chip > 1 else "hierarchical:torus/ring"
        yield name, replace(known, shape=shape)
    for rack in [rack for rack in divisors(ranks) if rack % inner == 0 and inner > per_chip][1:2]:
        yield "hierarchical:direct/ring/rhd/ring", replace(known, rack=rack)
        yield "hierarchical:direct/pairwise/direct/pairwise", replace(known, rack=rack)


def _pipelined(name: str) -> bool:
    return any(algorithm(op, name).pipelined for op in op_names() if _knows(op, name))
