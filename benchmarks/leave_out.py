"""How a fit of Megatron-LM on A100 does on what it has not seen: without a set, without a regime, without a term.

    python benchmarks/leave_out.py

Each line is a fit of its own, to at most forty calibration rows of each set. The table of docs/accuracy.md is its output.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import field

from trnsim.hardware import SoftwareFamily, load_family
from trnsim.record import Record
from trnsim.study.calibration import Solver, calibration_tasks
from trnsim.study.measured import shipped
from trnsim.study.validation.predictions import Prediction

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnsim.study.validation.predictions import Task

FAMILY = "megatron-a100"
MOST_ROWS = 40
SETS = ("vtrain-single", "vtrain-multi", "korthikanti22", "megatron-sc21", "megascale")
TERMS = {
    "host launch": ("host_layer", "host_pass"),
    "collective skew": ("collective_skew",),
    "scale skew": ("scale_skew_fraction",),
}


def main() -> None:
    """Fit and print."""
    family = load_family(FAMILY)
    tasks = [task for task in calibration_tasks(shipped("training"), FAMILY) if len(task.documents) == 1]
    regimes = regimes_of(family, tasks)
    print(f"| fit | {' | '.join(SETS)} |\n|{' --- |' * (1 + len(SETS))}", flush=True)
    Line("all", family.fitted, tasks).show(family, tasks)
    for name in SETS:
        seen = [task for task in tasks if task.measurement.row.group != name]
        Line(f"without {name}", family.fitted, seen).show(family, tasks)
    for regime in sorted(set(regimes.values())):
        seen = [task for task in tasks if regimes.get(task.measurement.row.id) != regime]
        Line(f"without what is {regime}", family.fitted, seen).show(family, tasks)
    for name, keys in TERMS.items():
        kept = tuple(key for key in family.fitted if key not in keys)
        Line(f"no {name}", kept, tasks, dict.fromkeys(keys, 0.0)).show(family, tasks)


class Line(Record):
    """A fit of its own: its name, what it fits, the rows that it may see, and what is fixed in it."""

    name: str
    keys: tuple[str, ...]
    seen: Sequence[Task]
    fixed: dict[str, float] = field(default_factory=dict)

    def show(self, family: SoftwareFamily, tasks: Sequence[Task]) -> None:
        """Fit, and print the mean error of all rows of each set."""
        solver = Solver(family, self.keys, -1, lambda _: None)
        fitting = thinned([task for task in self.seen if task.measurement.row.split == "calibration"])
        numbers = {key: number.value for key, number in solver.fit(fitting, self.fixed).items()}
        outcomes = [one for one in solver.predict(tasks, {**numbers, **self.fixed}) if isinstance(one, Prediction)]
        cells = []
        for group in SETS:
            errors = [abs(one.error) for one in outcomes if one.measurement.row.group == group]
            cells.append(f"{100 * sum(errors) / len(errors):.1f}")
        print(f"| {self.name} | {' | '.join(cells)} |", flush=True)


def regimes_of(family: SoftwareFamily, tasks: Sequence[Task]) -> dict[str, str]:
    """Return the regime of each row."""
    outcomes = Solver(family, (), -1, lambda _: None).predict(tasks, {})
    return {one.measurement.row.id: one.regime for one in outcomes if isinstance(one, Prediction)}


def thinned(tasks: Sequence[Task]) -> list[Task]:
    """Keep at most `MOST_ROWS` of each set, spread over it."""
    kept: list[Task] = []
    for group in SETS:
        rows = [task for task in tasks if task.measurement.row.group == group]
        kept += rows[:: -(-len(rows) // MOST_ROWS)] if rows else []
    return kept


if __name__ == "__main__":
    main()
