"""The figure of predicted against measured steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.figure import Figure

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["validation_figure"]

_BAND = 0.1


def validation_figure(frame: pd.DataFrame, *, title: str) -> Figure:
    """Draw predicted over measured time of each step, both on logarithmic scales, each set in its colour.

    The diagonal is where both agree, the dashed lines where they differ by 10 %.

    Parameters
    ----------
    frame
        With the columns of :data:`trnsim.study.validation.VALIDATION_COLUMNS`.
    title
        Title of the figure.
    """
    figure = Figure(figsize=(8, 7), layout="constrained")
    axis = figure.subplots()
    for name, rows in frame.groupby("group", sort=False):
        axis.scatter(rows["measured_s"], rows["predicted_s"], label=name, s=14, alpha=0.7)
    if len(frame):
        ends = [frame["measured_s"].min(), frame["measured_s"].max()]
        axis.plot(ends, ends, color="k", linewidth=0.8, zorder=1)
        for factor in (1 - _BAND, 1 + _BAND):
            axis.plot(ends, [factor * end for end in ends], color="k", linewidth=0.8, linestyle="--", zorder=1)
        axis.set(xscale="log", yscale="log")
        figure.legend(loc="outside lower center", ncols=3)
    axis.set(title=title, xlabel="measured step (s)", ylabel="predicted step (s)")
    axis.grid(visible=True, alpha=0.3)
    return figure
