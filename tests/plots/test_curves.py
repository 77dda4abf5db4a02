"""Figures: what is drawn is what the frame holds."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
import pytest
from matplotlib.patches import Rectangle

from trnsim.plots import breakdown_bars, scaling_curves
from trnsim.results import PART_NAMES
from trnsim.study import SCALING_COLUMNS

if TYPE_CHECKING:
    import pandas as pd


def frame_of_curves() -> pd.DataFrame:
    """Two servers at three sizes; compute takes 3/4 of each step and the bubble the rest."""
    import pandas as pd

    rows = []
    for server, speed in (("trn2", 1.0), ("trn3", 2.0)):
        for chips in (64, 640, 6400):
            time_s = 640 / chips / speed
            row = dict.fromkeys((f"{part}_s" for part in PART_NAMES), 0.0)
            row |= {"compute_s": 0.75 * time_s, "bubble_s": 0.25 * time_s, "time_s": time_s, "efficiency": 1.0}
            row |= {"tokens_per_s": 1e6 / time_s, "chips": chips}
            rows.append(row | {"model": "tiny", "server": server})
    return pd.DataFrame(rows)


def test_one_line_per_server_in_every_panel() -> None:
    figure = scaling_curves(frame_of_curves(), title="strong scaling")
    assert [axis.get_ylabel() for axis in figure.axes] == ["step time (s)", "tokens per s", "efficiency per chip"]
    for axis in figure.axes:
        assert [line.get_label() for line in axis.lines] == ["tiny, trn2", "tiny, trn3"]
    assert np.asarray(figure.axes[0].lines[1].get_xdata()).tolist() == [64, 640, 6400]
    assert np.asarray(figure.axes[0].lines[1].get_ydata()).tolist() == [5.0, 0.5, 0.05]


def test_bars_sum_to_one_and_skip_empty_parts() -> None:
    # Shares of the step sum to 1 in every row; parts that are zero everywhere have no bar.
    axis = breakdown_bars(frame_of_curves(), title="where the time goes").axes[0]
    bars = [patch for patch in axis.patches if isinstance(patch, Rectangle)]
    assert len(bars) == 2 * 6
    ends = [bar.get_x() + bar.get_width() for bar in bars[6:]]
    assert ends == pytest.approx([1.0] * 6)


@pytest.mark.parametrize("draw", [scaling_curves, breakdown_bars])
def test_empty_frame_is_drawn(draw: object) -> None:
    empty = frame_of_curves().iloc[:0]
    assert callable(draw)
    draw(empty, title="nothing").savefig(io.BytesIO(), format="png")


def test_figures_can_be_saved() -> None:
    for draw in (scaling_curves, breakdown_bars):
        file = io.BytesIO()
        draw(frame_of_curves(), title="a title").savefig(file, format="png")
        assert file.getvalue().startswith(b"\x89PNG")


def test_frame_columns_are_those_of_scaling() -> None:
    # The figures read columns that the study declares.
    assert set(frame_of_curves().columns) <= {column.name for column in SCALING_COLUMNS}
