"""Pictures of networks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch

from trnsim.units import format_bandwidth

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["topology_figure"]

_NAMED_UP_TO = 40


def topology_figure(nodes: pd.DataFrame, edges: pd.DataFrame, *, title: str) -> Figure:
    """Draw chips and switches as points, in the colours of their kinds, and what joins them as lines in theirs.

    Parameters
    ----------
    nodes
        With columns name, kind, x and y.
    edges
        With columns a and b (rows of `nodes`), kind, bytes_per_s (in the slower direction) and is_bent.
    title
        Title of the figure.
    """
    size = max(6.0, min(14.0, 0.9 * float(nodes["x"].max() - nodes["x"].min() + 1)))
    figure = Figure(figsize=(size, size * 0.75), layout="constrained")
    axis = figure.subplots()
    handles = [*_draw_edges(axis, nodes, edges), *_draw_nodes(axis, nodes)]
    axis.set_title(title)
    axis.set_axis_off()
    axis.margins(0.1)
    figure.legend(handles=handles, loc="outside lower center", ncols=3)
    return figure


def _draw_edges(axis: Axes, nodes: pd.DataFrame, edges: pd.DataFrame) -> list[Line2D]:
    """Draw the lines, kind by kind, and return their handles; the legend says how much one line carries."""
    handles = []
    points = list(zip(nodes["x"].to_list(), nodes["y"].to_list(), strict=True))
    for place, (kind, rows) in enumerate(edges.groupby("kind", sort=False)):
        colour = f"C{place}"
        for a, b, is_bent in zip(rows["a"].to_list(), rows["b"].to_list(), rows["is_bent"].to_list(), strict=True):
            ends, bend = (points[a], points[b]), "arc3,rad=0.25" if is_bent else "arc3"
            axis.add_patch(
                FancyArrowPatch(*ends, connectionstyle=bend, arrowstyle="-", color=colour, alpha=0.6, zorder=1)
            )
        rates = dict.fromkeys(format_bandwidth(rate) for rate in (rows["bytes_per_s"].min(), rows["bytes_per_s"].max()))
        handles.append(Line2D([], [], color=colour, label=f"{kind}, {' to '.join(rates)}"))
    return handles


def _draw_nodes(axis: Axes, nodes: pd.DataFrame) -> list[Line2D]:
    """Draw the points, kind by kind, with their names where there are few, and return their handles."""
    handles = []
    for place, (kind, rows) in enumerate(nodes.groupby("kind", sort=False)):
        marker, colour = ("o", "black") if kind == "chip" else ("s", f"C{place + 4}")
        size = 60 if len(nodes) <= _NAMED_UP_TO else 14
        axis.scatter(rows["x"], rows["y"], marker=marker, color=colour, s=size, zorder=2)
        handles.append(Line2D([], [], color=colour, marker=marker, linestyle="", label=f"{len(rows):,} x {kind}"))
    if len(nodes) <= _NAMED_UP_TO:
        for name, x, y in zip(nodes["name"].to_list(), nodes["x"].to_list(), nodes["y"].to_list(), strict=True):
            axis.annotate(str(name), (x, y), textcoords="offset points", xytext=(0, 7), ha="center", fontsize=7)
    return handles
