"""Errors of predictions, set by set, beside a trivial baseline."""

from __future__ import annotations

from collections import Counter
from statistics import mean, median
from typing import TYPE_CHECKING, Any, Final

from trnsim.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from trnsim.study.validation.measurements import Measurement
    from trnsim.study.validation.predictions import Ideal, Prediction

__all__ = ["Baseline", "Errors", "Reached", "Score", "score"]

FEWEST_ROWS_OF_ITS_OWN: Final = 2
"""Calibration rows from which on a set has a baseline of its own."""


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


class Reached(Record):
    """The share of the peak that a calibration row reaches, and what it is a row of."""

    group: str
    chip: str
    maker: str
    share: float


class Baseline(Record):
    """One constant efficiency, with the bubble of the pipeline, fitted to calibration rows.

    The constant is the median of what the calibration rows of the set reach. A set with fewer than
    `FEWEST_ROWS_OF_ITS_OWN` of them, which would be judged on what it was fitted to, takes the median of what other sets
    reach, each by its own median: those with its chip; where there are none, those with chips of the same maker; else all.

    Parameters
    ----------
    reached
        What calibration rows reach.
    """

    reached: tuple[Reached, ...]

    @classmethod
    def fitted(cls, steps: Iterable[tuple[Measurement, Ideal]]) -> Baseline:
        """Fit it to the calibration rows among measured steps."""
        return cls(
            tuple(
                Reached(step.row.group, ideal.chip, ideal.maker, ideal.time_s / step.time_s)
                for step, ideal in steps
                if step.row.split == "calibration"
            )
        )

    def is_its_own(self, group: str) -> bool:
        """Say whether a set has calibration rows enough for a constant of its own."""
        return len(self._shares(group)) >= FEWEST_ROWS_OF_ITS_OWN

    def efficiency(self, group: str, ideal: Ideal) -> float | None:
        """Return the constant for a step of a set; None where there is no calibration row at all.

        Examples
        --------
        >>> from trnsim.study.validation.predictions import Ideal
        >>> rows = [Reached("a", "x", "X", 0.5), Reached("b", "x", "X", 0.3), Reached("b", "x", "X", 0.4)]
        >>> of = Baseline(tuple(rows)).efficiency
        >>> [round(of(group, Ideal(1.0, "x", "X")), 3) for group in ("a", "b", "c")]
        [0.35, 0.35, 0.425]
        """
        if self.is_its_own(group):
            return median(self._shares(group))
        others = [one for one in self.reached if one.group != group]
        of_chip = [one for one in others if one.chip == ideal.chip]
        of_maker = [one for one in others if one.maker == ideal.maker]
        alike = of_chip or of_maker or others
        return median(median(self._shares(name, alike)) for name in {one.group for one in alike}) if alike else None

    def errors(self, rows: Iterable[Prediction]) -> list[float]:
        """Return its errors on rows."""
        constants: dict[tuple[str, str], float | None] = {}
        found = []
        for one in rows:
            key = (one.measurement.row.group, one.ideal.chip)
            if key not in constants:
                constants[key] = self.efficiency(key[0], one.ideal)
            constant = constants[key]
            if constant is not None:
                found.append(one.ideal.time_s / (constant * one.measurement.time_s) - 1)
        return found

    def _shares(self, group: str, of: Sequence[Reached] | None = None) -> list[float]:
        return [one.share for one in (self.reached if of is None else of) if one.group == group]


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
