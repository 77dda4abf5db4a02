"""The figure of memory over time: what is drawn is what the frame holds."""

from __future__ import annotations

import numpy as np
import pytest

import trnsim
from trnsim.plots.memory import memory_figure


def test_areas_stack_to_what_is_held() -> None:
    report = trnsim.memory(trnsim.load("trn3-ultraserver", ["run.steps=1"]))
    frame = report.frame()
    figure = memory_figure(frame, step_time_s=report.step_time_s, limit_bytes=report.limit_bytes, title="memory")
    (axis,) = figure.axes
    total = frame.drop(columns="time_s").sum(axis=1).max() / 2**30
    top = max(np.asarray(area.get_paths()[0].vertices)[:, 1].max() for area in axis.collections)
    assert top == pytest.approx(total)
    assert np.asarray(axis.lines[0].get_ydata()).tolist() == [report.limit_bytes / 2**30] * 2
    assert "communication" not in [area.get_label() for area in axis.collections]  # zero throughout
