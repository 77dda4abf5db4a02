"""Simulate the measured collectives of benchmarks/data/collectives.csv, and print how far off trnsim is, beside a baseline."""

from __future__ import annotations

import csv
from collections import Counter
from itertools import groupby
from math import exp, log
from pathlib import Path
from statistics import mean, median
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import trnsim

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

DATA = Path(__file__).parent / "data" / "collectives.csv"
BASELINE = "single alpha-beta ring: a (N - 1) + 2 (N - 1)/N S/B, two numbers for each family"


class Row(NamedTuple):
    """A measured collective; a row of a family was in its fit or was held out."""

    name: str
    network: str
    family: str
    algorithm: str
    ranks: int
    bytes: int
    measured_s: float
    calibration: bool


class Checked(NamedTuple):
    """What trnsim and the baseline say of it; errors are predicted/measured - 1."""

    row: Row
    simulated_s: float
    error: float
    baseline_error: float | None


def rows() -> list[Row]:
    """Return the rows that can be simulated, by network and ranks, by ascending size."""
    found = [
        Row(
            line["id"],
            line["network"],
            line["family"],
            line["algorithm"],
            int(line["ranks"]),
            int(line["bytes"]),
            float(line["time_us"]) / 1e6,
            line["calibration"] == "yes",
        )
        for line in _lines()
        if not line["skipped"]
    ]
    return sorted(found, key=lambda row: (row.network, row.ranks, row.bytes))


def skipped() -> Counter[str]:
    """Return why rows are left out, with how many."""
    return Counter(line["skipped"] for line in _lines() if line["skipped"])


def held_out_by_rule(every: Sequence[Row]) -> set[str]:
    """Return the rows of families that are no calibration rows: of each network and ranks the second by size, the fifth, ..."""
    held_out: set[str] = set()
    for _, group in groupby([row for row in every if row.family], key=lambda row: (row.network, row.ranks)):
        held_out |= {row.name for row in list(group)[1::3]}
    return held_out


def check(every: Sequence[Row]) -> list[Checked]:
    """Simulate rows."""
    simulated: dict[tuple[str, int, str, int], float] = {}
    for (network, ranks, algorithm), group in groupby(every, key=lambda row: (row.network, row.ranks, row.algorithm)):
        sizes = {row.bytes: row for row in group}
        rank = "logical_core" if network.startswith("trn") else "chip"
        times = trnsim.collective(
            "all-reduce", on=network, ranks=ranks, rank=rank, sizes=sorted(sizes), algorithm=algorithm
        )
        simulated |= {(network, ranks, algorithm, row.bytes): row.time_s for row in times.rows}
    baselines = baseline(every)
    return [
        Checked(
            row,
            time_s := simulated[row.network, row.ranks, row.algorithm, row.bytes],
            time_s / row.measured_s - 1,
            baselines[row.name] / row.measured_s - 1 if row.name in baselines else None,
        )
        for row in every
    ]


def baseline(every: Sequence[Row]) -> dict[str, float]:
    """Return the times of the baseline, its two numbers fitted to the calibration rows of each family."""
    found: dict[str, float] = {}
    for family in {row.family for row in every if row.family}:
        of_family = [row for row in every if row.family == family]
        fitted = [row for row in of_family if row.calibration]
        alpha, beta = _least_squares(fitted)
        found |= {row.name: _ring_s(row, alpha, beta) for row in of_family}
    return found


def _ring_s(row: Row, alpha: float, beta: float) -> float:
    return alpha * (row.ranks - 1) + beta * row.bytes * 2 * (row.ranks - 1) / row.ranks


def _least_squares(fitted: Sequence[Row]) -> tuple[float, float]:
    """Fit both numbers by least squares of log errors, on a grid that is refined six times."""
    low, high = np.log([1e-8, 1e-14]), np.log([1e-4, 1e-9])
    best = (0.0, 0.0)
    for _ in range(6):
        axes = [np.linspace(low[axis], high[axis], 25) for axis in (0, 1)]
        best = min(
            ((float(a), float(b)) for a in axes[0] for b in axes[1]),
            key=lambda point: sum(
                log(_ring_s(row, exp(point[0]), exp(point[1])) / row.measured_s) ** 2 for row in fitted
            ),
        )
        width = (high - low) / 8
        low, high = np.array(best) - width, np.array(best) + width
    return exp(best[0]), exp(best[1])


def summary(every: Sequence[Checked]) -> str:
    """Write the table: a line for each network and number of ranks."""
    lines = [
        "| network | ranks | rows | in the fit | median error | mean error | median, held out | median, baseline |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for (network, family), of_network in groupby(every, key=lambda each: (each.row.network, each.row.family)):
        listed = list(of_network)
        by_ranks = [(str(ranks), list(group)) for ranks, group in groupby(listed, key=lambda each: each.row.ranks)]
        if len(by_ranks) > 1:
            by_ranks.append(("all", listed))
        lines += [_line(f"{network} ({family or 'unfitted'})", ranks, group) for ranks, group in by_ranks]
    return "\n".join(lines) + "\n"


def _line(name: str, ranks: str, group: Sequence[Checked]) -> str:
    held_out = [each.error for each in group if each.row.family and not each.row.calibration]
    baselines = [each.baseline_error for each in group if each.baseline_error is not None]
    cells = [
        name,
        ranks,
        str(len(group)),
        str(sum(each.row.calibration for each in group)),
        median_error(each.error for each in group),
        f"{100 * mean(abs(each.error) for each in group):.1f} %",
        median_error(held_out),
        median_error(baselines),
    ]
    return f"| {' | '.join(cells)} |"


def median_error(errors: Iterable[float]) -> str:
    """Write the median error without sign."""
    listed = [abs(error) for error in errors]
    return f"{100 * median(listed):.1f} %" if listed else "-"


def details(every: Sequence[Checked]) -> Iterator[str]:
    """Yield a line for each row; those of a fit are marked with a star."""
    for row, simulated_s, error, _ in every:
        mark = "*" if row.calibration else " "
        times = (
            f"measured {row.measured_s * 1e6:10.2f} us, simulated {simulated_s * 1e6:10.2f} us, {100 * error:+6.1f} %"
        )
        yield f"{mark} {row.name:6} {row.network:14} {row.ranks:3} ranks {row.bytes:11} bytes: {times}"


def _lines() -> list[dict[str, str]]:
    with DATA.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


if __name__ == "__main__":
    checked = check(rows())
    print(*details(checked), "", summary(checked), f"baseline: {BASELINE}", "* in the fit", "", sep="\n")
    for reason, count in skipped().most_common():
        print(f"skipped {count} rows: {reason}")
