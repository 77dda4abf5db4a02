"""Finding algorithms by name, and making the program of an operation on a group."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from trnsim.collectives import algorithms
from trnsim.collectives.program import Program
from trnsim.documents import canonical, refuse_unknown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trnsim.collectives.algorithm import Algorithm
    from trnsim.collectives.arrangement import Arrangement

__all__ = ["algorithm", "algorithm_names", "op_names", "program"]


@cache
def algorithm_names(op: str | None = None, arrangement: Arrangement | None = None) -> tuple[str, ...]:
    """Return the names of the algorithms.

    Parameters
    ----------
    op
        If given, of those that know this operation.
    arrangement
        If given, of those that lack nothing in this group.

    Raises
    ------
    ValueError
        If no algorithm knows the operation; the message lists those that are known.

    Examples
    --------
    >>> algorithm_names("broadcast")
    ('binary-tree', 'binomial-tree', 'chain', 'double-binary-tree', 'in-network', 'scatter-all-gather')
    >>> algorithm_names("Send_Recv")
    ('direct',)
    """
    found: Iterable[Algorithm] = _found().values()
    if op is not None:
        op = _known("collective", op, op_names())
        found = (each for each in found if op in each.builders)
    return tuple(each.name for each in found if arrangement is None or not each.lacks(arrangement))


@cache
def op_names() -> tuple[str, ...]:
    """Return the names of all operations that some algorithm knows.

    Examples
    --------
    >>> ", ".join(op_names())
    'all-gather, all-reduce, all-to-all, all-to-all-v, barrier, broadcast, reduce, reduce-scatter, send-recv'
    """
    return tuple(sorted({op for each in _found().values() for op in each.builders}))


@cache
def algorithm(op: str, name: str) -> Algorithm:
    """Return an algorithm for an operation.

    Parameters
    ----------
    op, name
        Read without regard to case, dashes and underscores. After ``hierarchical`` and a colon the algorithms of its
        levels may follow, the nearest first, with slashes between them.

    Raises
    ------
    ValueError
        If a name is unknown, or the algorithm does not know the operation; the message lists what there is.

    Examples
    --------
    >>> algorithm("AllReduce", "Hierarchical:Ring/RHD").name
    'hierarchical:ring/recursive-halving-doubling'
    """
    op = _known("collective", op, op_names())
    head, colon, parts = name.partition(":")
    chosen = _by_name(f"algorithm of {op}", head, algorithm_names(op))
    if not colon:
        return chosen
    if chosen.compose is None:
        raise ValueError(f'{chosen.name} is not made of other algorithms, so ":{parts}" cannot follow it')
    composed = chosen.compose(parts, lambda part: _by_name("algorithm", part, algorithm_names()))
    if op not in composed.builders:
        raise ValueError(f"{composed.name} knows {', '.join(sorted(composed.builders))}, not {op}")
    return composed


def program(op: str, algorithm_name: str, arrangement: Arrangement) -> Program:
    """Return the program of a collective operation on a group.

    Parameters
    ----------
    op, algorithm_name
        As for `algorithm`.
    arrangement
        The group.

    Returns
    -------
    Program
        Without phases for a group of one.

    Raises
    ------
    ValueError
        If a name is unknown, or the algorithm does not know the operation; the message lists what there is. If the
        group lacks what the algorithm needs.

    Examples
    --------
    >>> from trnsim.collectives import Arrangement
    >>> ring = program("AllReduce", "ring", Arrangement(ranks=1_000_000))
    >>> [(phase.steps, len(phase.moves)) for phase in ring.phases]
    [(999999, 2), (999999, 2)]
    """
    chosen = algorithm(op, algorithm_name)
    op = _known("collective", op, op_names())
    if arrangement.ranks == 1:
        return Program(op, chosen.name, 1, ())
    if lacking := chosen.lacks(arrangement):
        raise ValueError(f"{chosen.name} needs {lacking}")
    return Program(op, chosen.name, arrangement.ranks, chosen.builders[op](arrangement))


@cache
def _found() -> dict[str, Algorithm]:
    paths = sorted(f"{algorithms.__name__}.{module.name}" for module in pkgutil.iter_modules(algorithms.__path__))
    every = (import_module(path).ALGORITHM for path in paths)
    return {each.name: each for each in every}


def _by_name(kind: str, name: str, names: Iterable[str]) -> Algorithm:
    """Return the algorithm of a name or alias; those that may be meant are given by their names."""
    candidates = [_found()[each] for each in names]
    aliases = {canonical(alias): each.name for each in candidates for alias in each.aliases}
    return _found()[_known(kind, aliases.get(canonical(name), name), [each.name for each in candidates])]


def _known(kind: str, name: str, candidates: Iterable[str]) -> str:
    names = {canonical(candidate): candidate for candidate in candidates}
    if canonical(name) not in names:
        raise ValueError(refuse_unknown(kind, name, names.values()))
    return names[canonical(name)]
