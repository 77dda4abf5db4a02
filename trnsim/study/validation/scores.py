"""Errors of predictions, set by set, beside a trivial baseline."""

from __future__ import annotations

from collections import Counter
from statistics import mean, median
from typing import TYPE_CHECKING, Any

from trnsim.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from trnsim.study.validation.measurements import Measurement
    from trnsim.study.validation.predictions import Prediction

__all__ = ["Baseline", "Errors", "Score", "score"]


class Errors(Record):
    """Errors of step time, predicted over measured less 1, as fractions.

    Parameters
    ----------
    mean, median, largest
        Of their absolute values.
    bias
        The median error, with its sign.
    """

    mean: float
    median: float
    largest: float
    bias: float

    @classmethod
    def of(cls, errors: Sequence[float]) -> Errors | None:
        """Sum up errors; None of no errors.

        Examples
        --------
        >>> Errors.of([0.1, -0.3, 0.2])
        Errors(mean=0.2, median=0.2, largest=0.3, bias=0.1)
        """
        if not errors:
            return None
        sizes = [abs(error) for error in errors]
        return cls(mean(sizes), median(sizes), max(sizes), median(errors))


class Baseline(Record):
    """One constant efficiency for each set, fitted where its error is least, with the bubble of the pipeline.

    Parameters
    ----------
    efficiency
        Share of the peak, by set.
    """

    efficiency: Mapping[str, float]

    @classmethod
    def fitted(cls, steps: Iterable[tuple[Measurement, float]]) -> Baseline:
        """Fit it to measured steps and their ideal times: the median of what the calibration rows of a set reach.

        A set without calibration rows is fitted to all of its rows, which is in favour of the baseline.
        """
        reached: dict[str, list[float]] = {}
        calibration: dict[str, list[float]] = {}
        for step, ideal_s in steps:
            reached.setdefault(step.row.group, []).append(ideal_s / step.time_s)
            if step.row.split == "calibration":
                calibration.setdefault(step.row.group, []).append(ideal_s / step.time_s)
        return cls({group: median(calibration.get(group, shares)) for group, shares in reached.items()})

    def errors(self, rows: Iterable[Prediction]) -> list[float]:
        """Return its errors on rows of sets that it was fitted to."""
        return [
            one.ideal_s / (self.efficiency[one.measurement.row.group] * one.measurement.time_s) - 1
            for one in rows
            if one.measurement.row.group in self.efficiency
        ]


class Score(Record):
    """One set of measured steps.

    Parameters
    ----------
    rows, simulated
        Measured steps, and those of them that were simulated.
    skipped
        Those that were not, by reason.
    errors, baseline
        Errors of what was simulated, and of the baseline on the same steps; None where there is nothing to compare.
    regimes
        Errors by regime.
    """

    rows: int
    simulated: int
    skipped: Mapping[str, int]
    errors: Errors | None
    baseline: Errors | None
    regimes: Mapping[str, tuple[int, Errors]]

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers under the names of the JSON document; errors in percent, None where there are none."""
        return {
            "rows": self.rows,
            "simulated": self.simulated,
            "skipped": dict(self.skipped),
            **{f"{name}_percent": _percent(self.errors, read) for name, read in _READ.items()},
            "baseline_mape_percent": _percent(self.baseline, _READ["mape"]),
        }


_READ: dict[str, Callable[[Errors], float]] = {
    "mape": lambda errors: errors.mean,
    "median": lambda errors: errors.median,
    "max": lambda errors: errors.largest,
    "bias": lambda errors: errors.bias,
}


def _percent(errors: Errors | None, read: Callable[[Errors], float]) -> float | None:
    return None if errors is None else round(100 * read(errors), 4)


def score(predictions: Sequence[Prediction], reasons: Iterable[str], baseline: Baseline) -> Score:
    """Sum up one set.

    Parameters
    ----------
    predictions
        Its steps that were simulated.
    reasons
        Why others were not.
    baseline
        What to stand beside.
    """
    skipped = Counter(reasons)
    by_regime: dict[str, list[float]] = {}
    for one in predictions:
        by_regime.setdefault(one.regime, []).append(one.error)
    return Score(
        rows=len(predictions) + skipped.total(),
        simulated=len(predictions),
        skipped=dict(sorted(skipped.items())),
        errors=Errors.of([one.error for one in predictions]),
        baseline=Errors.of(baseline.errors(predictions)),
        regimes={
            regime: (len(errors), found)
            for regime, errors in sorted(by_regime.items())
            if (found := Errors.of(errors)) is not None
        },
    )
