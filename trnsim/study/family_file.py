"""A software family with fitted numbers as a file that a scenario takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trnsim.documents import changed_yaml
from trnsim.hardware import family_text

if TYPE_CHECKING:
    from trnsim.study.calibration import Calibration, Fitted, Judged

__all__ = ["family_yaml"]

_DURATIONS = frozenset({"host_layer", "host_pass", "collective_skew"})
_SOURCE = "calibration"


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
    count = len(found.rows)
    sets = ", ".join(f"{number} of {name}" for name, number in found.sets.items())
    text = f"fit of trnsim's step model to {count} measured steps ({sets}) of {tables}, by `trnsim calibrate`"
    base = family_text(found.family)
    changes: dict[str, Any] = {f"sources.{_SOURCE}": {"text": text, "read": date}}
    changes |= {key: _written(key, number, count) for key, number in found.numbers.items()}
    changes["measured_rows"] = {"value": count, "kind": "inferred", "source": _SOURCE}
    changes["fitted"] = list(found.numbers)
    changes["errors"] = None
    changes |= {f"errors.{regime}": _judged(judged) for regime, judged in found.errors.items()}
    head = [f"{found.family}, with {', '.join(found.numbers)} fitted to {count} measured steps on {date}.", ""]
    return changed_yaml(base, changes, head)


def _written(key: str, number: Fitted, rows: int) -> dict[str, Any]:
    share = 100 * number.deviation / number.value if number.value else 0.0
    low, high = max(0.0, number.value - number.deviation), number.value + number.deviation
    if key.endswith(("efficiency", "fraction")):
        high = min(1.0, high)
    return {
        "value": _with_unit(key, number.value),
        "low": _with_unit(key, low),
        "high": _with_unit(key, high),
        "kind": "inferred",
        "source": _SOURCE,
        "note": f"+- {share:.0f} %, one standard deviation of the fit" if rows > 1 else "fitted to one step",
    }


def _with_unit(key: str, value: float) -> float | str:
    return f"{1e6 * value:.4g} us" if key in _DURATIONS else float(f"{value:.4g}")


def _judged(judged: Judged) -> dict[str, Any]:
    return {
        "value": float(f"{judged.error:.3g}"),
        "kind": "inferred",
        "source": _SOURCE,
        "note": f"mean absolute error of step time, {judged.rows} rows {judged.of}",
    }
