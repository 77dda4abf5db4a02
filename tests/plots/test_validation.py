"""The figure of a validation: what is drawn is what the frame holds."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from pages import TABLES_PAGE, section

from trnsim.plots.validation import validation_figure
from trnsim.study.validation import VALIDATION_COLUMNS

FRAME = pd.DataFrame(
    {
        "id": ["a", "b", "c"],
        "group": ["one", "two", "one"],
        "split": ["test"] * 3,
        "measured_s": [1.0, 2.0, 4.0],
        "predicted_s": [1.1, 2.0, 3.0],
        "error_fraction": [0.1, 0.0, -0.25],
        "regime": ["general"] * 3,
        "band_fraction": [0.1, None, 0.1],
    }
)


def test_each_set_in_its_colour_beside_the_diagonal_and_a_band_of_ten_percent() -> None:
    (axis,) = validation_figure(FRAME, title="steps").axes
    assert (axis.get_xscale(), axis.get_yscale()) == ("log", "log")
    points = {str(each.get_label()): np.asarray(each.get_offsets()).tolist() for each in axis.collections}
    assert points == {"one": [[1.0, 1.1], [4.0, 3.0]], "two": [[2.0, 2.0]]}
    slopes = [np.asarray(line.get_ydata()) / np.asarray(line.get_xdata()) for line in axis.lines]
    assert [slope.tolist() for slope in slopes] == [pytest.approx([factor] * 2) for factor in (1.0, 0.9, 1.1)]


def test_nothing_to_draw_is_an_empty_figure() -> None:
    (axis,) = validation_figure(FRAME.iloc[:0], title="steps").axes
    assert not axis.collections


def test_columns_are_documented() -> None:
    assert list(FRAME.columns) == [column.name for column in VALIDATION_COLUMNS]
    assert section("measured steps", VALIDATION_COLUMNS) in TABLES_PAGE.read_text(encoding="utf-8")
