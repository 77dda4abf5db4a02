"""Fit the collective families to the calibration rows of benchmarks/data/collectives.csv: least squares of log errors."""

from __future__ import annotations

import argparse
import runpy
from itertools import groupby
from math import exp, log
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from trnsim.hardware import names
from trnsim.hardware.collective_family import AlgorithmCost, CollectiveFamily, load_collective_family
from trnsim.simulation.choice import Chooser
from trnsim.simulation.fitted import Fabrics
from trnsim.simulation.question import Place
from trnsim.simulation.sites import find_site

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trnsim.hardware.sourced import Sourced

BENCHMARK = runpy.run_path(str(Path(__file__).with_name("collectives.py")))
Values = dict[tuple[str, ...], float]
OF_FAMILY = ("bandwidth_share", "core_link_share")
OF_ALGORITHM = ("launch_s", "doubling_s", "step_s", "bandwidth_share")


def values_of(family: CollectiveFamily) -> Values:
    """Return the fitted numbers of a family by name: of the family, or of one algorithm."""
    found: dict[tuple[str, ...], Sourced[float] | None] = {(name,): getattr(family, name) for name in OF_FAMILY}
    for algorithm, cost in family.algorithms.items():
        found |= {(algorithm, name): getattr(cost, name) for name in OF_ALGORITHM}
    return {key: sourced.value for key, sourced in found.items() if sourced is not None}


def with_values(family: CollectiveFamily, values: Values) -> CollectiveFamily:
    """Return the family with other numbers."""

    def changed(sourced: Sourced[float] | None, *key: str) -> Sourced[float] | None:
        return None if sourced is None else replace(sourced, value=values[key])

    algorithms = {
        algorithm: AlgorithmCost(*(changed(getattr(cost, name), algorithm, name) for name in OF_ALGORITHM))
        for algorithm, cost in family.algorithms.items()
    }
    shares = [changed(getattr(family, name), name) for name in OF_FAMILY]
    return replace(family, bandwidth_share=shares[0], core_link_share=shares[1], algorithms=algorithms)


def squares(family: CollectiveFamily, every: Sequence[Any]) -> float:
    """Return the sum of the squared log errors of rows; step by step in closed form, which flows agree with here."""
    total = 0.0
    for (network, ranks), group in groupby(every, key=lambda row: (row.network, row.ranks)):
        is_server = network.startswith("trn")
        place = Place(network, "server", rank="logical_core") if is_server else Place(network, "network")
        site = find_site(place, None)
        arrangement = site.arrange(ranks)
        spans_chips = ranks > arrangement.per_chip
        fabrics = Fabrics.of_family(site.network, np.arange(ranks), family, spans_chips=spans_chips)
        chooser = Chooser(fabrics, "all-reduce", arrangement, "closed_form", fabrics.without_numbers("all-reduce"))
        total += sum(log(chooser.fastest(row.bytes).time_s / row.measured_s) ** 2 for row in group)
    return total


def fit(family: CollectiveFamily, every: Sequence[Any], sweeps: int) -> Values:
    """Return the numbers with least squares: one number after the other by steps that shrink, from those of the file."""
    values = values_of(family)

    def cost(trial: Values) -> float:
        return squares(with_values(family, trial), every)

    best, step = cost(values), 0.08
    for _ in range(sweeps):
        before = best
        for key in values:
            values, best = _better(cost, values, best, key, step)
        if best > before * (1 - 1e-4):
            step /= 2
    return values


def _better(
    cost: Callable[[Values], float], values: Values, best: float, key: tuple[str, ...], step: float
) -> tuple[Values, float]:
    """Return the values with one of them moved up or down while that helps."""
    for factor in (exp(step), exp(-step)):
        trial = {**values, key: values[key] * factor}
        if (found := cost(trial)) < best:
            return trial, found
    return values, best


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("families", nargs="*", default=names("collective-families"))
    parser.add_argument("--sweeps", type=int, default=40)
    arguments = parser.parse_args()
    for name in arguments.families:
        start = load_collective_family(name)
        fitted = [row for row in BENCHMARK["rows"]() if row.family == name and row.calibration]
        print(f"{name}: {len(fitted)} calibration rows, root mean square of log errors, before and after:")
        after = fit(start, fitted, arguments.sweeps)
        for values in (values_of(start), after):
            print(f"  {(squares(with_values(start, values), fitted) / len(fitted)) ** 0.5:.4f}")
            for key, value in values.items():
                print(f"    {'.'.join(key)}: {value:.4g}")
