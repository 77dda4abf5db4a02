"""The choice of collective algorithms: by operation, and by whether a group leaves its server."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from trnsim.collectives import algorithm, algorithm_names
from trnsim.documents import canonical, refuse_unknown

__all__ = ["TIERS", "AlgorithmTable", "read_algorithms"]

TIERS: Final = ("server", "cluster")
"""A group lies inside one ``server``, or across servers of the ``cluster``."""

OPS: Final = ("all-gather", "all-reduce", "reduce-scatter")
"""Collectives of a training step that have a choice."""

AlgorithmTable = dict[str, dict[str, str]]
"""Operation, then tier, then ``auto`` or the name of an algorithm; complete."""


def read_algorithms(value: Any) -> AlgorithmTable:
    """Read what a scenario says about algorithms.

    Parameters
    ----------
    value
        ``auto``, the name of an algorithm for everything that knows it, or a table from operations to one of these or
        to a table from tiers. What is not mentioned is ``auto``. Names are read without regard to case and dashes.

    Raises
    ------
    ValueError
        If an operation, tier or algorithm is unknown or named twice, or an algorithm does not know an operation for
        which it is named.

    Examples
    --------
    >>> table = read_algorithms({"AllReduce": "ring", "all-gather": {"cluster": "hierarchical"}})
    >>> table["all-reduce"], table["all-gather"]
    ({'server': 'ring', 'cluster': 'ring'}, {'server': 'auto', 'cluster': 'hierarchical'})
    """
    if isinstance(value, str):
        if not any(_serves(value, op) for op in OPS):
            raise ValueError(refuse_unknown("algorithm", value, ("auto", *algorithm_names("all-reduce"))))
        return {op: dict.fromkeys(TIERS, _named(value, op) if _serves(value, op) else "auto") for op in OPS}
    table: AlgorithmTable = {op: dict.fromkeys(TIERS, "auto") for op in OPS}
    for op, choice in _items(value, "collective", OPS, "auto, an algorithm, or a table of operations"):
        if isinstance(choice, str):
            table[op] = dict.fromkeys(TIERS, _named(choice, op))
            continue
        for tier, name in _items(choice, "tier", TIERS, "an algorithm, or a table of server and cluster,"):
            table[op][tier] = _named(name, op)
    return table


def _items(value: Any, kind: str, candidates: tuple[str, ...], due: str) -> list[tuple[str, Any]]:
    """Return the items of a table with their keys as they are kept."""
    if not isinstance(value, dict):
        raise ValueError(f"{due} is due")  # noqa: TRY004 - pydantic reports a ValueError as a problem of the file
    items = [(_known(kind, str(word), candidates), choice) for word, choice in value.items()]
    for name, times in Counter(name for name, _ in items).items():
        if times > 1:
            raise ValueError(f"{kind} {name} stands there twice, in two spellings")
    return items


def _serves(name: str, op: str) -> bool:
    try:
        _named(name, op)
    except ValueError:
        return False
    return True


def _named(name: Any, op: str) -> str:
    if not isinstance(name, str):
        raise ValueError(f"the name of an algorithm of {op} is due")  # noqa: TRY004
    return "auto" if canonical(name) == "auto" else algorithm(op, name).name


def _known(kind: str, word: str, candidates: tuple[str, ...]) -> str:
    found = next((name for name in candidates if canonical(name) == canonical(word)), None)
    if found is None:
        raise ValueError(refuse_unknown(kind, word, candidates))
    return found
