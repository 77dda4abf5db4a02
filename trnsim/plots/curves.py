"""Figures of scaling runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from trnsim.results import PART_NAMES

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["breakdown_bars", "scaling_curves"]

_PANELS = (
    ("time_s", "step time (s)", "log"),
    ("tokens_per_s", "tokens per s", "log"),
    ("efficiency", "efficiency per chip", "linear"),
)


def scaling_curves(frame: pd.DataFrame, *, title: str) -> Figure:
    """Draw step time, throughput and efficiency over the number of chips, one line per model and server.

    Parameters
    ----------
    frame
        With the columns of :data:`trnsim.study.SCALING_COLUMNS`.
    title
        Title of the figure.
    """
    figure = Figure(figsize=(15, 4.5), layout="constrained")
    figure.suptitle(title)
    axes = figure.subplots(1, len(_PANELS))
    for axis, (column, label, scale) in zip(axes, _PANELS, strict=True):
        for (model, server), curve in frame.groupby(["model", "server"], sort=True):
            ordered = curve.sort_values("chips")
            axis.plot(ordered["chips"], ordered[column], marker="o", label=f"{model}, {server}")
        axis.set(xlabel="chips", ylabel=label, xscale="log", yscale=scale)
        axis.grid(visible=True, which="major", alpha=0.3)
    axes[-1].set_ylim(bottom=0.0)
    if len(frame):
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


def breakdown_bars(frame: pd.DataFrame, *, title: str) -> Figure:
    """Draw where the step time goes, one stacked bar per row, as shares that sum to 1; parts that are zero in all rows are left out.

    Parameters
    ----------
    frame
        With the columns of :data:`trnsim.study.SCALING_COLUMNS`.
    title
        Title of the figure.
    """
    figure = Figure(figsize=(10, 1.5 + 0.45 * len(frame)), layout="constrained")
    axis = figure.subplots()
    labels = [f"{row.chips:,} chips, {row.server}" for row in frame.itertuples()]
    _stack(axis, frame, labels)
    axis.invert_yaxis()
    axis.set(title=title, xlabel="share of the step time", xlim=(0.0, 1.0))
    if len(frame):
        figure.legend(loc="outside right upper")
    return figure


def _stack(axis: Axes, frame: pd.DataFrame, labels: list[str]) -> None:
    """Put the parts of each row one after the other."""
    left = frame["time_s"] * 0.0
    for part, name in PART_NAMES.items():
        share = frame[f"{part}_s"] / frame["time_s"]
        if share.any():
            axis.barh(range(len(labels)), share, left=left, label=name)
            left += share
    axis.set_yticks(range(len(labels)), labels)
