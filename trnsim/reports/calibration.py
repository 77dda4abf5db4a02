"""What a fit found, in a few lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trnsim.study import Calibration

__all__ = ["calibration_text"]


def calibration_text(found: Calibration) -> str:
    """Write the numbers of a fit with their deviations, the rows behind them, and how far off steps are."""
    sets = ", ".join(f"{count} of {name}" for name, count in found.sets.items())
    lines = [f"{found.family}: {len(found.numbers)} numbers fitted to {len(found.rows)} measured steps ({sets})"]
    lines += [f"  {key:<22} {number.value:.4g} +- {number.deviation:.2g}" for key, number in found.numbers.items()]
    lines += [
        f"  error, {regime}: {100 * judged.error:.1f} % on {judged.rows} rows {judged.of}"
        for regime, judged in found.errors.items()
    ] or ["  no measurement of its error"]
    return "\n".join([*lines, ""])
