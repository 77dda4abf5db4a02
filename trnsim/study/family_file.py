"""A software family with fitted numbers as a file that a scenario takes."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

from trnsim.documents import changed_yaml
from trnsim.hardware import family_text, load_family
from trnsim.hardware.software import FITTABLE

if TYPE_CHECKING:
    from trnsim.study.calibration import Calibration, Fitted, Judged

__all__ = ["family_yaml"]

_DURATIONS = frozenset({"host_layer", "host_pass", "collective_skew"})
_COMMAND = "by `trnsim calibrate`"


def family_yaml(found: Calibration, *, tables: str, date: str) -> str:
    """Write the family of a fit: its fitted numbers with their source and range, everything else as in the family it started from.

    Parameters
    ----------
    found
        The fit.
    tables
        What the tables are, for the text of the source.
    date
        Day of the fit, like 2026-11-30.
    """
    rows = len(found.rows)
    sets = ", ".join(f"{number} of {name}" for name, number in found.sets.items())
    text = f"fit of trnsim's step model to {rows} measured steps ({sets}) of {tables}, {_COMMAND}"
    base = family_text(found.family)
    source = _name_of_source(found, base)
    changes: dict[str, Any] = {f"sources.{source}": {"text": text, "read": date}}
    changes |= {key: {**_written(key, number, rows), "source": source} for key, number in found.numbers.items()}
    changes["measured_rows"] = {"value": rows, "kind": "inferred", "source": source}
    changes["fitted"] = list(found.numbers)
    changes["errors"] = None
    changes |= {f"errors.{regime}": {**_judged(judged), "source": source} for regime, judged in found.errors.items()}
    head = [f"{found.family}, with {', '.join(found.numbers)} fitted to {rows} measured steps on {date}.", ""]
    return changed_yaml(base, changes, head)


def _name_of_source(found: Calibration, base: str) -> str:
    """Return a name that is free, or that of an earlier fit of which no number stays."""
    family = load_family(found.family)
    kept = (getattr(family, field) for key, field in FITTABLE.items() if key not in found.numbers)
    if not any(value is not None and _COMMAND in value.source for value in kept):
        return "calibration"
    return next(name for number in count(2) if f"  {(name := f'calibration-{number}')}:" not in base)


def _written(key: str, number: Fitted, rows: int) -> dict[str, Any]:
    """Write a number with one deviation to either side, if there is one."""
    value = {"value": _with_unit(key, number.value), "kind": "inferred"}
    if number.deviation is None:
        return {
            **value,
            "note": "fitted to one step" if rows == 1 else f"fitted to {rows} steps, which leave no deviation",
        }
    low, high = max(number.value / 10, number.value - number.deviation), number.value + number.deviation
    if key.endswith(("efficiency", "fraction")):
        high = min(1.0, high)
    share = 100 * number.deviation / number.value
    return {
        **value,
        "low": _with_unit(key, low),
        "high": _with_unit(key, high),
        "note": f"+- {share:.0f} %, one standard deviation of the fit",
    }


def _with_unit(key: str, value: float) -> float | str:
    return f"{1e6 * value:.4g} us" if key in _DURATIONS else float(f"{value:.4g}")


def _judged(judged: Judged) -> dict[str, Any]:
    return {
        "value": float(f"{judged.error:.3g}"),
        "kind": "inferred",
        "note": f"mean absolute error of step time, {judged.rows} rows {judged.of}",
    }
