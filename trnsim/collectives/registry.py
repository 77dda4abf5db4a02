"""Finding algorithms by name, and making the program of an operation on a group."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from trnsim.collectives import algorithms
from trnsim.collectives.program import Algorithm, Arrangement, Program
from trnsim.documents import canonical, refuse_unknown

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["algorithm_names", "op_names", "program"]


@cache
def algorithm_names(op: str | None = None) -> tuple[str, ...]:
    """Return the names of the algorithms, of those that know the operation `op` if it is given.

    Raises
    ------
    ValueError
        If no algorithm knows the operation; the message lists those that are known.

    Examples
    --------
    >>> algorithm_names("all-reduce")
    ('direct', 'hierarchical', 'recursive-halving-doubling', 'ring')
    >>> algorithm_names("Send_Recv")
    ('direct',)
    """
    found = _found()
    if op is None:
        return tuple(found)
    op = _known("collective", op, op_names())
    return tuple(name for name, algorithm in found.items() if op in algorithm.builders)


@cache
def op_names() -> tuple[str, ...]:
    """Return the names of all operations that some algorithm knows.

    Examples
    --------
    >>> op_names()
    ('all-gather', 'all-reduce', 'reduce-scatter', 'send-recv')
    """
    return tuple(sorted({op for algorithm in _found().values() for op in algorithm.builders}))


@cache
def program(op: str, algorithm: str, arrangement: Arrangement) -> Program:
    """Return the program of a collective operation on a group.

    Parameters
    ----------
    op, algorithm
        Names, read without regard to case, dashes and underscores.
    arrangement
        The group.

    Returns
    -------
    Program
        Without phases for a group of one.

    Raises
    ------
    ValueError
        If a name is unknown, or the algorithm does not know the operation; the message lists what there is.

    Examples
    --------
    >>> ring = program("AllReduce", "ring", Arrangement(ranks=1_000_000))
    >>> [(phase.steps, phase.reduces) for phase in ring.phases]
    [(999999, True), (999999, False)]
    """
    op = _known("collective", op, op_names())
    chosen = _found()[_known(f"algorithm of {op}", algorithm, algorithm_names(op))]
    return Program(op, chosen.name, arrangement.ranks, chosen.builders[op](arrangement))


@cache
def _found() -> dict[str, Algorithm]:
    paths = sorted(f"{algorithms.__name__}.{module.name}" for module in pkgutil.iter_modules(algorithms.__path__))
    every = (import_module(path).ALGORITHM for path in paths)
    return {algorithm.name: algorithm for algorithm in every}


def _known(kind: str, name: str, candidates: Iterable[str]) -> str:
    names = {canonical(candidate): candidate for candidate in candidates}
    if canonical(name) not in names:
        raise ValueError(refuse_unknown(kind, name, names.values()))
    return names[canonical(name)]
