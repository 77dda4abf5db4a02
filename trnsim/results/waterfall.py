"""The way from the peak of a chip to what a training step achieves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsim.results.records import WaterfallLine

if TYPE_CHECKING:
    from trnsim.results.records import Breakdown

__all__ = ["PART_NAMES", "waterfall"]

PART_NAMES = {
    "compute": "compute",
    "recompute": "recompute",
    "skew": "skew with scale",
    "overhead": "host overhead",
    "exposed_tp": "exposed tp",
    "exposed_cp": "exposed cp",
    "exposed_ep": "exposed ep",
    "exposed_pp": "exposed pp",
    "exposed_dp": "exposed dp",
    "straggler_wait": "straggler wait",
    "bubble": "bubble",
    "optimizer": "optimizer",
}
"""The parts of a step as people read them."""


def waterfall(*, parts: Breakdown, gemm_efficiency: float, mfu: float) -> tuple[WaterfallLine, ...]:
    r"""Explain the distance between the peak and the MFU, loss by loss.

    All fractions are shares of the step time at peak rate, so they add up: with :math:`T` the step time, :math:`C` its
    compute and :math:`e` the efficiency of matmuls,

    .. math:: 1 - \frac{C}{T}(1-e) - \sum_{i \ne C} \frac{T_i}{T} - u = \mathrm{MFU}

    where :math:`u` is what remains: the rank whose time is broken down also does work that the FLOPs rule does not count
    (padding, replicated KV heads, operators bound by memory), and may carry more or less than the average rank, so
    :math:`u` can be negative.

    Parameters
    ----------
    parts
        The parts of the step; their sum must be positive.
    gemm_efficiency
        Share of the peak that matmuls reach; in (0, 1].
    mfu
        Model FLOPs utilization that the step achieves; fraction.

    Returns
    -------
    tuple of WaterfallLine
        From ``peak`` (nothing lost, 1 left) to the last loss, which leaves ``mfu``. Losses that are exactly zero are left out.

    Raises
    ------
    ValueError
        If the parts do not sum to a positive time.

    Examples
    --------
    >>> from trnsim.results import Breakdown
    >>> for line in waterfall(parts=Breakdown(compute=8.0, bubble=2.0), gemm_efficiency=0.5, mfu=0.375):
    ...     print(f"{line.name:28} {line.loss_fraction:.3f} {line.left_fraction:.3f}")
    peak                         0.000 1.000
    matmuls at 50.0 % of peak    0.400 0.600
    bubble                       0.200 0.400
    uncounted or uneven work     0.025 0.375
    """
    total_s = parts.total_s
    if not total_s > 0:
        raise ValueError(f"the parts of a step must sum to a positive time, not {total_s} s")
    losses = [
        (
            f"matmuls at {gemm_efficiency:.1%} of peak".replace("%", " %"),
            parts.compute / total_s * (1 - gemm_efficiency),
        )
    ]
    losses += [(PART_NAMES[name], time_s / total_s) for name, time_s in parts.parts().items() if name != "compute"]
    lines = [WaterfallLine("peak", 0.0, 1.0)]
    for name, loss in losses:
        if loss:
            lines.append(WaterfallLine(name, loss, lines[-1].left_fraction - loss))
    rest = lines[-1].left_fraction - mfu
    return (*lines, WaterfallLine("uncounted or uneven work", rest, mfu))
