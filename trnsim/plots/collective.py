"""Figures of collectives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.figure import Figure

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["collective_figure"]


def collective_figure(frame: pd.DataFrame, *, title: str, measured: pd.DataFrame | None = None) -> Figure:
    """Draw time, with its lower bound, and bus bandwidth over the size of the buffer; each algorithm in its colour.

    Parameters
    ----------
    frame
        With the columns of :data:`trnsim.results.collective_times.COLLECTIVE_COLUMNS`.
    title
        Title of the figure.
    measured
        With the columns of :data:`trnsim.study.log_comparison.COMPARED_COLUMNS`; drawn as crosses.
    """
    figure = Figure(figsize=(11, 4.5), layout="constrained")
    figure.suptitle(title)
    times, rates = figure.subplots(1, 2)
    times.plot(frame["bytes"], frame["time_s"] * 1e6, color="0.7", zorder=1)
    times.plot(frame["bytes"], frame["bound_s"] * 1e6, color="0.4", linestyle="--", label="lower bound")
    rates.plot(frame["bytes"], frame["busbw_bytes_per_s"] / 1e9, color="0.7", zorder=1)
    for name, rows in frame.groupby("algorithm", sort=False):
        times.scatter(rows["bytes"], rows["time_s"] * 1e6, label=name, s=16)
        rates.scatter(rows["bytes"], rows["busbw_bytes_per_s"] / 1e9, s=16)
    if measured is not None:
        factor = (frame["busbw_bytes_per_s"] / frame["algbw_bytes_per_s"]).max()
        times.scatter(measured["bytes"], measured["measured_s"] * 1e6, marker="x", color="k", label="measured")
        rates.scatter(
            measured["bytes"], measured["bytes"] / measured["measured_s"] * factor / 1e9, marker="x", color="k"
        )
    _label(times, "time (us)", frame)
    _label(rates, "bus bandwidth (GB/s)", frame)
    figure.legend(loc="outside lower center", ncols=4)
    return figure


def _label(axis: Axes, label: str, frame: pd.DataFrame) -> None:
    """Label an axis; sizes double, so they are drawn on a scale of powers of two. A barrier has no size."""
    axis.set(xlabel="bytes", ylabel=label)
    if len(frame) and frame["bytes"].min() > 0:
        axis.set_xscale("log", base=2)
        if label.startswith("time"):
            axis.set_yscale("log")
    axis.grid(visible=True, alpha=0.3)
