"""What a fit found, in a few lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trnsim.study import Calibration
    from trnsim.study.calibration import Fitted

__all__ = ["calibration_text"]


def calibration_text(found: Calibration) -> str:
    """Write the numbers of a fit with their deviations, the rows behind them, and how far off steps are."""
    sets = ", ".join(f"{count} of {name}" for name, count in found.sets.items())
    numbers, steps = len(found.numbers), len(found.rows)
    fitted = f"{numbers} number{'s' if numbers > 1 else ''} fitted to {steps} measured step{'s' if steps > 1 else ''}"
    lines = [f"{found.family}: {fitted} ({sets})"]
    lines += [f"  {key:<22} {number.value:.4g} {_spread(number)}" for key, number in found.numbers.items()]
    lines += [
        f"  error, {regime}: {100 * judged.error:.1f} % on {judged.rows} rows {judged.of}"
        for regime, judged in found.errors.items()
    ] or ["  no measurement of its error"]
    return "\n".join([*lines, ""])


def _spread(number: Fitted) -> str:
    return (
        "and no deviation: there are no more steps than numbers"
        if number.deviation is None
        else f"+- {number.deviation:.2g}"
    )
