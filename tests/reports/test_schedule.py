"""A schedule as text."""

from __future__ import annotations

import pytest

from trnsim.reports.schedule import schedule_facts, schedule_lines
from trnsim.simulation.schedule_grid import schedule_grid


def lines(width: int = 200, **asked: int) -> list[str]:
    name = "interleaved-1f1b" if asked.get("virtual_stages", 1) > 1 else "1f1b"
    drawn = schedule_lines(schedule_grid(name, **asked), width)
    return ["".join(cell.text for cell in line).rstrip() for line in drawn]


def test_a_column_is_a_forward_pass() -> None:
    # 2 stages, 2 microbatches, B = 2 F: 3 slots = 9 columns; dots are the bubble
    assert lines(stages=2, microbatches=2) == [
        "stage 0  F0 F1 .  .  B0    .  B1",
        "stage 1  .  F0 B0    F1 B1    .  .",
    ]


def test_virtual_stages_have_letters() -> None:
    drawn = lines(stages=2, microbatches=2, virtual_stages=2)
    assert drawn[0].startswith("stage 0  F0a F1a F0b F1b .   .   B0b     .   B1b     B0a")
    assert drawn[1].startswith("stage 1  .   F0a F1a F0b B0b     F1b B1b     B0a")


def test_bands_fit_and_hold_the_same_cells() -> None:
    # the cells of all bands, joined, are those of one wide band, but for a dash where a pass goes on
    wide = lines(stages=3, microbatches=5)
    for width in (20, 33, 40, 60):
        narrow = lines(width, stages=3, microbatches=5)
        assert max(map(len, narrow)) <= width
        for stage in range(3):
            joined = " ".join(line[9:] for line in narrow[stage::4])
            assert [c for c in joined.split() if c != "-"] == wide[stage][9:].split()


def test_what_is_too_long_is_not_drawn() -> None:
    assert lines(80, stages=2, microbatches=500) == ["the grid has 1,503 columns; --plot FILE draws it"]


@pytest.mark.parametrize(
    ("name", "virtual_stages", "held"),
    [
        ("1f1b", 1, "4, 3, 2, 1 passes on stages 0 to 3"),
        ("interleaved-1f1b", 2, "11, 9, 7, 5 passes of 1/2 of a stage on stages 0 to 3"),
        ("gpipe", 1, "8 passes on each stage"),
    ],
)
def test_facts(name: str, virtual_stages: int, held: str) -> None:
    # 8 microbatches: 3 idle slots; 3/11 and 3/8 of the step and of the work, 3/19 and 3/16 interleaved
    text = schedule_facts(schedule_grid(name, stages=4, microbatches=8, virtual_stages=virtual_stages))
    shares = (
        "15.8 % of the step, 18.8 % of the work" if virtual_stages == 2 else "27.3 % of the step, 37.5 % of the work"
    )
    assert f"{8 * virtual_stages + 3} slots = {8 * virtual_stages} of work + 3 idle" in text
    assert shares in text
    assert held in text
