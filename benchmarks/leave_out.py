"""How fits do on what they have not seen: Megatron-LM on A100 without a set, a regime, a term; FSDP without kinds of rows.

    python benchmarks/leave_out.py

Each line is a fit of its own to the calibration rows that it may see. The logarithms of predicted times are taken as linear in
those of the numbers, about the numbers of the family, which saves all but a few simulations of each row; the errors are of
real simulations with what is found. The tables of docs/accuracy.md are the output.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import least_squares

from trnsim.hardware import load_family
from trnsim.hardware.software import FITTABLE
from trnsim.record import Record
from trnsim.study.calibration import SHARES, Solver, calibration_tasks, softened, weights_of
from trnsim.study.measured import shipped
from trnsim.study.validation.predictions import Prediction

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from trnsim.study.measured import MeasuredRow
    from trnsim.study.validation.predictions import Task

FAMILY = "megatron-a100"
SETS = ("vtrain-single", "vtrain-multi", "korthikanti22", "megatron-sc21", "megascale")
TERMS = {
    "host launch": ("host_layer", "host_pass"),
    "collective skew": ("collective_skew",),
    "scale skew": ("scale_skew_fraction",),
}
STEP = 0.03

FSDP_FAMILIES = ("fsdp-h100", "fsdp-a100", "fsdp-a100-40gb")
KINDS: dict[str, Callable[[MeasuredRow], str]] = {
    "all seen": lambda _: "",
    "without its size": lambda row: row.model,
    "without its recompute mode": lambda row: row.recompute,
}


def main() -> None:
    """Fit and print."""
    of_megatron()
    print(f"\n| family | backward kernels | {' | '.join(KINDS)} |\n|{' --- |' * (2 + len(KINDS))}", flush=True)
    for name in FSDP_FAMILIES:
        of_fsdp(name)


def of_megatron() -> None:
    """Print a line for each fit of the whole family."""
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


def of_fsdp(name: str) -> None:
    """Print mean errors of calibration rows, seen by the fit and by fits without all rows of their kind."""
    known = calibration_tasks(shipped("training"), name)
    tasks = tuple(task for task in known if task.measurement.row.split == "calibration")
    family = load_family(name)
    values = {key: getattr(family, FITTABLE[key]).value for key in (*family.fitted, "attention_backward_ratio")}
    solver = Solver(family, family.fitted, -1, lambda _: None)
    for label, ratio in (("slower", values["attention_backward_ratio"]), ("as fast", 1.0)):
        start = Linear.about(solver, tasks, {**values, "attention_backward_ratio": ratio}, family.fitted)
        linear = Linear.about(solver, tasks, start.fitted(range(len(tasks))), family.fitted)
        errors = [left_out(linear, [kind(task.measurement.row) for task in tasks]) for kind in KINDS.values()]
        print(f"| `{name}` | {label} | {' | '.join(f'{error:.1f}' for error in errors)} |", flush=True)


def left_out(linear: Linear, kinds: Sequence[str]) -> float:
    """Return the mean error in percent of rows by fits to those of all other kinds; of a single kind, by the fit to it."""
    several, errors = len(set(kinds)) > 1, []
    for kind in dict.fromkeys(kinds):
        numbers = linear.fitted([place for place, other in enumerate(kinds) if other != kind or not several])
        tasks = [task for task, its in zip(linear.tasks, kinds, strict=True) if its == kind]
        errors += [abs(one.error) for one in linear.solver.predict(tasks, numbers) if isinstance(one, Prediction)]
    return 100 * sum(errors) / len(errors)


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
        upper = [min(2.0, np.log(1 / self.numbers[key])) if key in SHARES else 2.0 for key in self.keys]
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
