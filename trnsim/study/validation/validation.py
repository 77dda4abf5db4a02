"""Measured tables against the simulator."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import to_builtins

from trnsim import __version__
from trnsim.record import Record
from trnsim.results import Column
from trnsim.results.tables import frame_of
from trnsim.study.measured import read_measured, shipped
from trnsim.study.validation.groups import fill_blanks, groups, of_its_own
from trnsim.study.validation.measurements import Skipped, measurements, set_of
from trnsim.study.validation.predictions import Prediction, ideal_times, predict, tasks_of
from trnsim.study.validation.releases import releases
from trnsim.study.validation.scores import Baseline, score

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    import pandas as pd

    from trnsim.scenario import Scenario
    from trnsim.study.measured import MeasuredRow
    from trnsim.study.validation.groups import GroupFile
    from trnsim.study.validation.measurements import Measurement
    from trnsim.study.validation.predictions import Ideal, Task, Watch
    from trnsim.study.validation.releases import Releases
    from trnsim.study.validation.scores import Score

__all__ = ["SHIPPED_TABLES", "VALIDATION_COLUMNS", "Validation", "validate"]

SHIPPED_TABLES = ("training", "trainium-training")
"""Tables that come with trnsim."""

VALIDATION_COLUMNS = (
    Column("id", "string", "", "name of the row of the measured table"),
    Column("group", "string", "", "set that it is in"),
    Column("split", "string", "", "calibration if a fit may see it, else test"),
    Column("measured_s", "float64", "s", "measured time of the step"),
    Column("predicted_s", "float64", "s", "simulated time of the step"),
    Column("error_fraction", "float64", "fraction", "predicted over measured, less 1"),
    Column("regime", "string", "", "kind of step, by which errors differ"),
    Column("band_fraction", "float64", "fraction", "mean error that the software family states for the regime, if any"),
)
"""Columns of the table of a validation."""


class Validation(Record):
    """Predictions beside measurements.

    Parameters
    ----------
    predictions
        What was simulated, in the order of the tables.
    skipped
        What was not, and why.
    known
        What is known and assumed of each set.
    baseline
        The trivial baseline.
    """

    predictions: tuple[Prediction, ...]
    skipped: tuple[Skipped, ...]
    known: Mapping[str, GroupFile]
    baseline: Baseline

    def sets(self) -> dict[str, Score]:
        """Return the score of each set, and of the parts that some are shown in; in the order of the tables."""
        names: dict[str, None] = {}
        for row in self._rows():
            names |= dict.fromkeys(self._sets_of(row))
        return {name: self._score(name) for name in names}

    def other_rows(self) -> dict[str, int]:
        """Return how many rows were no step at all, by reason."""
        found: dict[str, int] = {}
        for one in self.skipped:
            if not one.is_step:
                found[one.reason] = found.get(one.reason, 0) + 1
        return found

    def assumed(self) -> dict[str, tuple[str, ...]]:
        """Return what was assumed of each set that has rows."""
        found: dict[str, tuple[str, ...]] = {}
        for row in self._rows():
            group = self.known.get(set_of(row)) or of_its_own(row)
            if group is not None:
                found.setdefault(set_of(row), tuple(group.assumed))
        return found

    def releases(self) -> tuple[Releases, ...]:
        """Return how far older releases of a software are from the newest, which counts."""
        newest = [row for row in self._rows() if row.group in self.known and self.known[row.group].newest_of]
        older = [row for row in self._rows() if row.group.endswith("/older")]
        return tuple(releases(newest, older, self.known))

    def frame(self) -> pd.DataFrame:
        """Return the steps that were simulated with the columns of :data:`VALIDATION_COLUMNS`."""
        return frame_of([_cells(one) for one in self.predictions], VALIDATION_COLUMNS)

    def to_dict(self, *, rows: bool = False) -> dict[str, Any]:
        """Return the JSON document.

        Parameters
        ----------
        rows
            Whether to list each step.
        """
        document: dict[str, Any] = {
            "trnsim": __version__,
            "sets": {name: found.to_dict() for name, found in self.sets().items()},
            "other_rows": self.other_rows(),
            "assumed": {name: list(texts) for name, texts in self.assumed().items()},
            "releases": [to_builtins(each) for each in self.releases()],
        }
        if rows:
            document["rows"] = [_cells(one) for one in self.predictions]
        return document

    def _rows(self) -> Iterator[MeasuredRow]:
        yield from (one.measurement.row for one in self.predictions)
        yield from (one.row for one in self.skipped if one.is_step)

    def _sets_of(self, row: MeasuredRow) -> tuple[str, ...]:
        group = self.known.get(row.group)
        if group is None or group.parts is None:
            return (row.group,)
        return (row.group, f"{row.group}/{getattr(row, group.parts)}")

    def _score(self, name: str) -> Score:
        return score(
            [one for one in self.predictions if name in self._sets_of(one.measurement.row)],
            [one.reason for one in self.skipped if one.is_step and name in self._sets_of(one.row)],
            self.baseline,
        )


def validate(
    tables: Sequence[Path | str] = (),
    *,
    jobs: int = -1,
    change: Callable[[Scenario], Scenario] | None = None,
    watch: Watch = lambda found, _: found,
) -> Validation:
    """Simulate the steps of measured tables.

    Parameters
    ----------
    tables
        CSV files; by default those that come with trnsim.
    jobs
        Processes to use; -1 for as many as there are cores.
    change
        Returns another scenario to simulate in place of the one that stands for a row.
    watch
        Wraps an iterable of known length, to show progress.

    Raises
    ------
    InputError
        If a table cannot be read, has no rows, or lacks a column.
    """
    known = groups()
    tasks, unclear = _tasks(_read(tables or _own_tables(), known), known)
    outcomes = predict(tasks, jobs=jobs, change=change, watch=watch)
    predictions = tuple(one for one in outcomes if isinstance(one, Prediction))
    refused = tuple(one for one in outcomes if isinstance(one, Skipped))
    return Validation(predictions, (*unclear, *refused), known, _baseline(predictions, known, own=not tables))


def _own_tables() -> list[Path | str]:
    return [shipped(name) for name in SHIPPED_TABLES]


def _read(tables: Sequence[Path | str], known: Mapping[str, GroupFile]) -> Iterator[MeasuredRow]:
    """Yield the rows of tables, with what is known of their sets in place."""
    for table in tables:
        yield from read_measured(table, partial(fill_blanks, known=known))


def _tasks(rows: Iterable[MeasuredRow], known: Mapping[str, GroupFile]) -> tuple[tuple[Task, ...], tuple[Skipped, ...]]:
    """Return what can be simulated of measured rows, and what cannot."""
    found, skipped = measurements(rows, known)
    tasks, unclear = tasks_of(found, known)
    return tasks, (*skipped, *unclear)


def _baseline(predictions: Sequence[Prediction], known: Mapping[str, GroupFile], *, own: bool) -> Baseline:
    """Fit the baseline to the calibration rows of the tables that come with trnsim, and of sets that are not in them."""
    given = [(one.measurement, one.ideal) for one in predictions]
    if own:
        return Baseline.fitted(given)
    sets = {step.row.group for step, _ in given}
    rows = [row for row in _read(_own_tables(), known) if row.split == "calibration"]
    further = [one for one in given if one[0].row.group not in {row.group for row in rows}]
    of_these = Baseline.fitted([*_ideal([row for row in rows if row.group in sets], known), *further])
    if all(of_these.is_its_own(name) for name in sets):
        return of_these
    return Baseline.fitted([*_ideal(rows, known), *further])


def _ideal(rows: Iterable[MeasuredRow], known: Mapping[str, GroupFile]) -> Iterator[tuple[Measurement, Ideal]]:
    return ideal_times(_tasks(rows, known)[0])


def _cells(one: Prediction) -> dict[str, Any]:
    row = one.measurement.row
    return {
        "id": row.id,
        "group": row.group,
        "split": row.split,
        "measured_s": one.measurement.time_s,
        "predicted_s": one.time_s,
        "error_fraction": one.error,
        "regime": one.regime,
        "band_fraction": one.band,
    }
