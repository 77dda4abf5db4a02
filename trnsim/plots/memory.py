"""The figure of memory over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.figure import Figure

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["memory_figure"]


def memory_figure(frame: pd.DataFrame, *, step_time_s: float, limit_bytes: int, title: str) -> Figure:
    """Draw what a rank holds over a step as stacked areas, below the limit; terms that are zero throughout are left out.

    Parameters
    ----------
    frame
        With the columns of :data:`trnsim.results.memory_report.MEMORY_COLUMNS`.
    step_time_s
        Where the last row ends.
    limit_bytes
        What the rank may use.
    title
        Title of the figure.
    """
    figure = Figure(figsize=(10, 5), layout="constrained")
    axis = figure.subplots()
    times = [*frame["time_s"], max(step_time_s, frame["time_s"].iloc[-1])]
    terms = [term for term in frame.columns if term != "time_s" and frame[term].any()]
    heights = [[*frame[term] / 2**30, frame[term].iloc[-1] / 2**30] for term in terms]
    axis.stackplot(times, heights, labels=terms, step="post")
    axis.axhline(limit_bytes / 2**30, color="k", linestyle="--", label="limit")
    axis.set(title=title, xlabel="time in the step (s)", ylabel="memory (GiB)", xlim=(0.0, times[-1]))
    axis.set_ylim(bottom=0.0)
    figure.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure
