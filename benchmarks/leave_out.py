"""How a fit of Megatron-LM on A100 does on what it has not seen: without a set, without a regime, without a term.

    python benchmarks/leave_out.py

Each line is a fit of its own to the calibration rows that it may see. The logarithms of predicted times are taken as linear in
those of the numbers, about the numbers of the family, which saves all but a few simulations of each row; the errors are of
real simulations with what is found. The table of docs/accuracy.md is the output.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import least_squares

from trnsim.hardware import load_family
from trnsim.hardware.software import FITTABLE
from trnsim.record import Record
from trnsim.study.calibration import Solver, calibration_tasks, softened, weights_of
from trnsim.study.measured import shipped
from trnsim.study.validation.predictions import Prediction

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from trnsim.study.validation.predictions import Task

FAMILY = "megatron-a100"
SETS = ("vtrain-single", "vtrain-multi", "korthikanti22", "megatron-sc21", "megascale")
TERMS = {
    "host launch": ("host_layer", "host_pass"),
    "collective skew": ("collective_skew",),
    "scale skew": ("scale_skew_fraction",),
}
STEP = 0.03


def main() -> None:
    """Fit and print."""
    tasks = tuple(task for task in calibration_tasks(shipped("training"), FAMILY) if len(task.documents) == 1)
    family = load_family(FAMILY)
    values = {key: getattr(family, FITTABLE[key]).value for key in family.fitted}
    solver = Solver(family, family.fitted, -1, lambda _: None)
    outcomes = solver.predict(tasks, values)
    regimes = [one.regime if isinstance(one, Prediction) else "" for one in outcomes]
    whole = Linear.about(solver, tasks, values, family.fitted)
    print(f"| fit | {' | '.join(SETS)} |\n|{' --- |' * (1 + len(SETS))}", flush=True)
    show("all", whole, lambda _: True)
    for name in SETS:
        show(f"without {name}", whole, lambda place, name=name: tasks[place].measurement.row.group != name)  # type: ignore[misc]
    for regime in sorted(set(regimes)):
        show(f"without what is {regime}", whole, lambda place, regime=regime: regimes[place] != regime)  # type: ignore[misc]
    for name, gone in TERMS.items():
        kept = tuple(key for key in family.fitted if key not in gone)
        show(f"no {name}", Linear.about(solver, tasks, {**values, **dict.fromkeys(gone, 0.0)}, kept), lambda _: True)


class Linear(Record):
    """Logarithms of predicted over measured times, linear about some numbers."""

    solver: Solver
    tasks: tuple[Task, ...]
    numbers: dict[str, float]
    keys: tuple[str, ...]
    at: NDArray[np.float64]
    slopes: NDArray[np.float64]

    @classmethod
    def about(cls, solver: Solver, tasks: tuple[Task, ...], numbers: dict[str, float], keys: tuple[str, ...]) -> Linear:
        """Simulate at the numbers, and with each of the keys a little smaller."""
        at = solver.log_ratios(tasks, numbers)
        moved = [solver.log_ratios(tasks, {**numbers, key: numbers[key] * (1 - STEP)}) for key in keys]
        slopes = np.stack([(at - ratios) / -np.log(1 - STEP) for ratios in moved], axis=1)
        return cls(solver, tasks, numbers, keys, at, slopes)

    def fitted(self, places: Sequence[int]) -> dict[str, float]:
        """Return the numbers that describe some of the steps best."""
        weights = weights_of([self.tasks[place] for place in places])
        at, slopes = self.at[list(places)], self.slopes[list(places)]
        upper = [np.log(1 / self.numbers[key]) if key == "gemm_efficiency" else 2.0 for key in self.keys]
        found = least_squares(
            lambda change: softened(at + slopes @ change) * weights, np.zeros(len(self.keys)), bounds=(-2.0, upper)
        )
        moved = {key: self.numbers[key] * float(np.exp(change)) for key, change in zip(self.keys, found.x, strict=True)}
        return {**self.numbers, **moved}


def show(name: str, linear: Linear, sees: Callable[[int], bool]) -> None:
    """Fit to the calibration rows that a fit may see, and print the mean errors of all rows of each set."""
    splits = [task.measurement.row.split for task in linear.tasks]
    numbers = linear.fitted([place for place, split in enumerate(splits) if split == "calibration" and sees(place)])
    outcomes = [one for one in linear.solver.predict(linear.tasks, numbers) if isinstance(one, Prediction)]
    cells = []
    for group in SETS:
        errors = [abs(one.error) for one in outcomes if one.measurement.row.group == group]
        cells.append(f"{100 * sum(errors) / len(errors):.1f}")
    print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
