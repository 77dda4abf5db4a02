"""Fitting the few numbers of a software family to measured steps."""

from __future__ import annotations

from math import log, sqrt
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from trnsim.documents import refuse_unknown
from trnsim.errors import InputError, Problem
from trnsim.hardware import Sourced, load_family
from trnsim.hardware.software import FITTABLE
from trnsim.record import Record
from trnsim.study.measured import read_measured
from trnsim.study.validation.groups import fill_blanks, groups
from trnsim.study.validation.measurements import measurements
from trnsim.study.validation.predictions import Prediction, predict, tasks_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from trnsim.hardware import SoftwareFamily
    from trnsim.scenario import Scenario
    from trnsim.study.validation.measurements import Skipped
    from trnsim.study.validation.predictions import Task

    Watch = Callable[[str], None]

__all__ = [
    "SHARES",
    "Calibration",
    "Fitted",
    "Judged",
    "Solver",
    "WithNumbers",
    "calibrate",
    "calibration_tasks",
    "softened",
    "weights_of",
]

OUTLIER_ERROR: Final = 0.05
"""From about this relative error on a row pulls in proportion to its error, not to its square (soft L1)."""
MOST_FITTED: Final = 5
FEWEST_ROWS_TO_JUDGE: Final = 3
MOST_ROWS_LEFT_OUT_IN_TURN: Final = 20
_STEP: Final = 0.02
SHARES: Final = frozenset({"gemm_efficiency", "memory_efficiency", "interference_fraction", "scale_skew_fraction"})
"""Numbers that are at most 1."""


class Fitted(Record):
    """A fitted number: its value, in SI units, and one standard deviation; None where as many numbers as steps were fitted."""

    value: float
    deviation: float | None


class Judged(Record):
    """How far off steps of one regime are: mean absolute error, of how many rows, and of which."""

    error: float
    rows: int
    of: str


class Calibration(Record):
    """What a fit found.

    Parameters
    ----------
    family
        The family that it started from.
    numbers
        By key of the family's file.
    rows
        Identifiers of the rows that were fitted.
    sets
        How many of them are of each set.
    errors
        By regime, where there are rows enough to judge it.
    """

    family: str
    numbers: Mapping[str, Fitted]
    rows: tuple[str, ...]
    sets: Mapping[str, int]
    errors: Mapping[str, Judged]


class WithNumbers(Record):
    """Changes a scenario: its software family has these numbers, by key of the family's file."""

    numbers: Mapping[str, float]

    def __call__(self, scenario: Scenario) -> Scenario:
        """Return the scenario with another family."""
        family = scenario.cluster.software
        fields = {
            FITTABLE[key]: Sourced(value, "inferred", "a fit in progress", "") for key, value in self.numbers.items()
        }
        return replace(scenario, cluster=replace(scenario.cluster, software=replace(family, **fields)))


def calibrate(
    tables: Sequence[Path], family: str, keys: Sequence[str] = (), *, jobs: int = -1, watch: Watch = lambda _: None
) -> Calibration:
    r"""Fit numbers of a software family to the calibration rows of measured tables.

    Minimizes, with every set of the same weight, the soft L1 norm of :math:`\ln(T_{predicted} / T_{measured})`.

    Parameters
    ----------
    tables
        CSV files. Rows whose `split` is ``test`` are not read for the fit; a table without that column is fitted whole, but
        for what `trnsim validate` skips.
    family
        Name of the family; rows are those that would be simulated with it.
    keys
        Keys of its file to fit; by default those that it says were fitted, or, with fewer than three rows for each of
        them, the GEMM efficiency alone.
    jobs
        Processes to use; -1 for as many as there are cores.
    watch
        Is told what goes on.

    Raises
    ------
    InputError
        If a table cannot be read, the family or a key is unknown, or no calibration row is of it.
    """
    start = load_family(family)
    unknown = [Problem("fit", refuse_unknown("number", key, FITTABLE)) for key in keys if key not in FITTABLE]
    if unknown or len(keys) > MOST_FITTED:
        raise InputError(unknown or [Problem("fit", f"at most {MOST_FITTED} numbers, not {len(keys)}")], file=family)
    asked = [task for table in tables for task in calibration_tasks(table, family)]
    outcomes = predict(asked, jobs=jobs)
    tasks = [task for task, outcome in zip(asked, outcomes, strict=True) if isinstance(outcome, Prediction)]
    fitting = [task for task in tasks if task.measurement.row.split == "calibration" and len(task.documents) == 1]
    if not fitting:
        message = f"no row for a fit is simulated with {family}; `trnsim validate` says what each row is"
        raise InputError([Problem("", message)], file=str(tables[0]))
    chosen = tuple(keys) or _default_keys(start, len(fitting))
    solver = Solver(start, chosen, jobs, watch)
    numbers = solver.fit(fitting)
    errors = _errors(solver, numbers, tasks, fitting)
    sets: dict[str, int] = {}
    for task in fitting:
        sets[task.measurement.row.group] = sets.get(task.measurement.row.group, 0) + 1
    return Calibration(family, numbers, tuple(task.measurement.row.id for task in fitting), sets, errors)


def calibration_tasks(table: Path, family: str) -> tuple[Task, ...]:
    """Return the steps of a table that are simulated with a family; without a column `split` all are for a fit."""
    known = groups()

    def fill(cells: dict[str, str]) -> Mapping[str, str]:
        return fill_blanks({"split": "calibration", **cells}, known)

    found, _ = measurements(read_measured(table, fill), known)
    tasks, _ = tasks_of(found, known)
    return tuple(task for task in tasks if "/" not in task.measurement.row.group and _software(task) == family)


def _software(task: Task) -> object:
    return task.documents[0].value_of("cluster.software") if task.documents else None


def _default_keys(family: SoftwareFamily, rows: int) -> tuple[str, ...]:
    return family.fitted if family.fitted and rows >= 3 * len(family.fitted) else ("gemm_efficiency",)


class Solver(Record):
    """Fits the same keys of the same family to different rows.

    Parameters
    ----------
    start
        The family.
    keys
        Keys of its file.
    jobs
        Processes to use.
    watch
        Is told what goes on.
    """

    start: SoftwareFamily
    keys: tuple[str, ...]
    jobs: int
    watch: Watch

    def fit(self, tasks: Sequence[Task]) -> dict[str, Fitted]:
        """Return the numbers that describe measured steps best."""
        import numpy as np
        from scipy.optimize import least_squares

        first = np.array([self._first(key) for key in self.keys])
        upper = np.array([1 / value if key in SHARES else np.inf for key, value in zip(self.keys, first, strict=True)])
        weights = weights_of(tasks)

        def residuals(ratios: NDArray[np.float64]) -> NDArray[np.float64]:
            numbers = dict(zip(self.keys, map(float, ratios * first), strict=True))
            found = softened(self.log_ratios(tasks, numbers)) * weights
            self.watch(", ".join(f"{key} {value:.4g}" for key, value in numbers.items()))
            return found

        begin = np.minimum(np.ones(len(first)), upper * (1 - 2 * _STEP))
        best = least_squares(residuals, begin, bounds=(0, upper), diff_step=_STEP, xtol=1e-3, ftol=1e-4, max_nfev=12)
        values = dict(zip(self.keys, map(float, best.x * first), strict=True))
        freedom = len(tasks) - len(self.keys)
        if freedom <= 0:
            return {key: Fitted(value, None) for key, value in values.items()}
        covariance = np.linalg.pinv(best.jac.T @ best.jac) * 2 * best.cost / freedom
        deviations = map(float, np.sqrt(np.diag(covariance)) * first)
        return {key: Fitted(values[key], deviation) for key, deviation in zip(self.keys, deviations, strict=True)}

    def log_ratios(self, tasks: Sequence[Task], numbers: Mapping[str, float]) -> NDArray[np.float64]:
        """Return the logarithms of predicted over measured times."""
        import numpy as np

        outcomes = self.predict(tasks, numbers)
        return np.array([log(one.time_s / one.measurement.time_s) for one in outcomes if isinstance(one, Prediction)])

    def predict(self, tasks: Sequence[Task], numbers: Mapping[str, float]) -> list[Prediction | Skipped]:
        """Simulate measured steps with other numbers."""
        return list(predict(tasks, jobs=self.jobs, change=WithNumbers(numbers)))

    def _first(self, key: str) -> float:
        written: Sourced[float] | None = getattr(self.start, FITTABLE[key])
        if written is None or written.value <= 0:
            message = f"{self.start.name} has no {key} above 0 to start a fit from"
            raise InputError([Problem(key, message)], file=self.start.name)
        return written.value


def weights_of(tasks: Sequence[Task]) -> NDArray[np.float64]:
    """Return the weight of each row: sets weigh the same, and rows one on average."""
    import numpy as np

    names = [task.measurement.row.group for task in tasks]
    sizes = {name: names.count(name) for name in names}
    return np.array([sqrt(len(names) / (len(sizes) * sizes[name])) for name in names])


def softened(errors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what squares to the soft L1 norm of errors."""
    import numpy as np

    scaled = errors / OUTLIER_ERROR
    softened: NDArray[np.float64] = OUTLIER_ERROR * np.sign(scaled) * np.sqrt(2 * (np.sqrt(1 + scaled**2) - 1))
    return softened


def _errors(
    solver: Solver, numbers: Mapping[str, Fitted], tasks: Sequence[Task], fitting: Sequence[Task]
) -> dict[str, Judged]:
    """Judge a fit: on rows that it did not see; where they are few, on its own with them, each left out in turn if those are few too."""
    values = {key: number.value for key, number in numbers.items()}
    sets = {task.measurement.row.group for task in fitting}
    unseen = [task for task in tasks if task not in fitting and task.measurement.row.group in sets]
    found = _by_regime(solver.predict(unseen, values), "that the fit did not see")
    if not unseen and len(solver.keys) + 1 < len(fitting) <= MOST_ROWS_LEFT_OUT_IN_TURN:
        return _by_regime(_each_left_out(solver, fitting), "left out of the fit one by one")
    together = _by_regime(solver.predict([*unseen, *fitting], values), "of which the fit saw some")
    return {regime: found.get(regime, judged) for regime, judged in together.items()}


def _each_left_out(solver: Solver, fitting: Sequence[Task]) -> list[Prediction | Skipped]:
    outcomes: list[Prediction | Skipped] = []
    for number, task in enumerate(fitting):
        others = [*fitting[:number], *fitting[number + 1 :]]
        found = solver.fit(others)
        outcomes += solver.predict([task], {key: one.value for key, one in found.items()})
    return outcomes


def _by_regime(outcomes: Sequence[Prediction | Skipped], of: str) -> dict[str, Judged]:
    """Return the errors of the regimes that have rows enough."""
    found: dict[str, list[float]] = {}
    for one in outcomes:
        if isinstance(one, Prediction):
            found.setdefault(one.regime, []).append(abs(one.error))
    return {
        regime: Judged(sum(errors) / len(errors), len(errors), of)
        for regime, errors in sorted(found.items())
        if len(errors) >= FEWEST_ROWS_TO_JUDGE
    }
