"""Pictures of pipeline schedules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib import colormaps
from matplotlib.figure import Figure
from matplotlib.patches import Patch

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["schedule_figure"]

_COLOURS = {"F": ("forward", "Blues"), "B": ("backward", "Greens")}
_NUMBERED_UP_TO = 1500


def schedule_figure(passes: pd.DataFrame, *, title: str) -> Figure:
    """Draw a row for each stage and a box for each pass, with the number of its microbatch while there is room for it.

    Forward and backward passes have a colour each, darker for later virtual stages of a stage.

    Parameters
    ----------
    passes
        With the columns of :data:`trnsim.results.schedule_grid.SCHEDULE_COLUMNS`.
    title
        Title of the figure.
    """
    stages, time = int(passes["stage"].max()) + 1, int(passes["end"].max())
    figure = Figure(figsize=(max(6.0, min(24.0, 0.25 * time)), 1.6 + 0.4 * stages), layout="constrained")
    axis = figure.subplots()
    layers = passes["virtual_stage"] // stages
    handles = []
    for kind, (name, shades) in _COLOURS.items():
        for layer in range(int(layers.max()) + 1):
            colour = colormaps[shades](0.35 + 0.45 * layer / max(1, int(layers.max())))
            drawn = passes[(passes["kind"] == kind) & (layers == layer)]
            lengths = drawn["end"] - drawn["start"]
            axis.barh(drawn["stage"], lengths, 0.9, left=drawn["start"], color=colour, edgecolor="white", linewidth=0.5)
            handles.append(
                Patch(
                    color=colour, label=name if layers.max() == 0 else f"{name}, virtual stage {layer + 1} of the stage"
                )
            )
    if len(passes) <= _NUMBERED_UP_TO:
        _number(axis, passes)
    axis.set(title=title, xlabel="time (forward passes of a virtual stage)", xlim=(0, time), ylim=(stages - 0.5, -0.5))
    axis.set_yticks(range(stages), [f"stage {stage}" for stage in range(stages)])
    axis.set_facecolor("0.92")
    figure.legend(handles=handles, loc="outside lower center", ncols=4)
    return figure


def _number(axis: Axes, passes: pd.DataFrame) -> None:
    """Write the number of its microbatch into each box."""
    middles = ((passes["start"] + passes["end"]) / 2).to_list()
    for middle, stage, number in zip(middles, passes["stage"].to_list(), passes["microbatch"].to_list(), strict=True):
        axis.text(middle, stage, str(number), ha="center", va="center", fontsize=7)
