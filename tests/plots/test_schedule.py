"""A picture of a schedule: its boxes are the passes of the frame."""

from __future__ import annotations

import io

import pytest
from matplotlib.patches import Rectangle

from trnsim.plots.schedule import schedule_figure
from trnsim.simulation.schedule_grid import schedule_grid


@pytest.mark.parametrize(("name", "virtual_stages"), [("1f1b", 1), ("interleaved-1f1b", 2)])
def test_every_pass_is_a_box_with_its_number(name: str, virtual_stages: int) -> None:
    grid = schedule_grid(name, stages=2, microbatches=4, virtual_stages=virtual_stages)
    figure = schedule_figure(grid.frame(), title="a schedule")
    (axis,) = figure.axes
    boxes = [box for box in axis.patches if isinstance(box, Rectangle)]
    drawn = sorted((round(box.get_y() + 0.45), box.get_x(), box.get_x() + box.get_width()) for box in boxes)
    assert drawn == sorted((each.stage, each.start, each.end) for each in grid.passes)
    assert sorted(text.get_text() for text in axis.texts) == sorted(str(each.microbatch) for each in grid.passes)
    assert len({box.get_facecolor() for box in boxes}) == 2 * virtual_stages == len(figure.legends[0].get_texts())
    figure.savefig(io.BytesIO(), format="png")


def test_many_passes_have_no_numbers() -> None:
    figure = schedule_figure(schedule_grid("gpipe", stages=4, microbatches=200).frame(), title="many")
    assert not figure.axes[0].texts
