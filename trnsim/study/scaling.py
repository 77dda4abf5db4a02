"""Curves: the same training on clusters of many sizes, as one tidy frame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trnsim import scenario, simulation
from trnsim.errors import InputError
from trnsim.record import Record
from trnsim.results import PART_NAMES, Column, frame_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    import pandas as pd

    from trnsim.results import Result

__all__ = ["SCALING_COLUMNS", "Scaling", "scaling"]

SCALING_COLUMNS = (
    Column("scenario", "string", "", "name of the scenario"),
    Column("model", "string", "", "name of the model"),
    Column("server", "string", "", "catalog name of the server"),
    Column("servers", "int64", "", "servers of the cluster"),
    Column("chips", "int64", "", "chips reserved"),
    Column("tokens", "int64", "", "tokens of one step over the whole cluster"),
    Column("time_s", "float64", "s", "step time"),
    Column("tokens_per_s", "float64", "1/s", "throughput of the whole cluster"),
    Column("tokens_per_s_per_chip", "float64", "1/s", "throughput over chips reserved"),
    Column("efficiency", "float64", "fraction", "tokens_per_s_per_chip over that of the smallest cluster of the curve"),
    Column("mfu", "float64", "fraction", "model FLOPs utilization"),
    *(
        Column(f"{part}_s", "float64", "s", f"{name} of the rank that finishes last")
        for part, name in PART_NAMES.items()
    ),
)
"""Columns of the frame of :func:`scaling`. A curve is the rows of one model on one server."""


class Scaling(Record):
    """Curves over cluster sizes.

    Parameters
    ----------
    frame
        One row per run, with :data:`SCALING_COLUMNS`.
    skipped
        Why runs have no row: the report of each input that was refused (too large a model, too small a batch, ...).
    """

    frame: pd.DataFrame
    skipped: tuple[str, ...]


def scaling(runs: Iterable[tuple[str | Path, Sequence[str]]]) -> Scaling:
    """Simulate a scenario at many sizes.

    A run that its cluster cannot hold, or whose degrees do not divide, does not stop the others: it is skipped, with its reason.

    Parameters
    ----------
    runs
        Pairs of a scenario (name or path) and its overrides, such as ``("trn2-cluster", ["cluster.servers=16"])``.
    """
    results, skipped = [], []
    for source, overrides in runs:
        try:
            results.append(simulation.simulate(scenario.load(source, overrides)))
        except InputError as error:
            skipped.append(f"{' '.join(overrides)}: {error}")
    return Scaling(frame_of(_rows(results), SCALING_COLUMNS), tuple(skipped))


def _rows(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Return one row per result; the efficiency is relative to the smallest cluster with the same server and model."""
    smallest: dict[tuple[str, str], Result] = {}
    for result in sorted(results, key=lambda r: r.cluster.chips):
        smallest.setdefault(_curve(result), result)
    return [_row(result, _per_chip(smallest[_curve(result)])) for result in results]


def _row(result: Result, first_per_chip: float) -> dict[str, Any]:
    return {
        "scenario": result.name,
        "model": result.model.name,
        "server": result.cluster.server,
        "servers": result.cluster.servers,
        "chips": result.cluster.chips,
        "tokens": result.step.tokens,
        "time_s": result.step.time_s,
        "tokens_per_s": result.step.tokens_per_s,
        "tokens_per_s_per_chip": _per_chip(result),
        "efficiency": _per_chip(result) / first_per_chip,
        "mfu": result.step.mfu,
        **{f"{part}_s": time_s for part, time_s in result.step.breakdown_s.parts().items()},
    }


def _curve(result: Result) -> tuple[str, str]:
    return result.cluster.server, result.model.name


def _per_chip(result: Result) -> float:
    return result.step.tokens_per_s / result.cluster.chips
