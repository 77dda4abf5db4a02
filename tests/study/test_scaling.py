"""Curves over cluster sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from fakes import fake_result
from pages import TABLES_PAGE, section

from trnsim import scenario, simulation
from trnsim.errors import InputError, Problem
from trnsim.study import SCALING_COLUMNS, scaling

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnsim.results import Result


@pytest.fixture(autouse=True)
def clusters_by_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a scenario be its number of chips: doubling them takes 60 % of the time; 64 are too few, 1024 too many."""

    def load(name: str, overrides: Sequence[str]) -> int:
        return int(overrides[0].removeprefix("chips="))

    def simulate(chips: int) -> Result:
        if not 64 < chips < 1024:
            raise InputError([Problem("layout", f"{chips} chips do not fit", capacity=True)], file="a.yaml")
        return fake_result(time_s={128: 10.0, 256: 6.0, 512: 3.6}[chips], chips=chips)

    monkeypatch.setattr(scenario, "load", load, raising=False)
    monkeypatch.setattr(simulation, "simulate", simulate, raising=False)


def test_frame_has_the_declared_columns() -> None:
    frame = scaling([("a", ["chips=128"])]).frame
    assert list(frame.columns) == [column.name for column in SCALING_COLUMNS]
    assert [str(dtype) for dtype in frame.dtypes] == [column.dtype for column in SCALING_COLUMNS]


def test_efficiency_is_relative_to_the_smallest_cluster() -> None:
    # tokens per s and chip fall by 1 / (2 x 0.6) with each doubling, whatever the order of the runs.
    frame = scaling([("a", [f"chips={chips}"]) for chips in (512, 128, 256)]).frame.sort_values("chips")
    assert frame["efficiency"].tolist() == pytest.approx([1.0, 1 / 1.2, 1 / 1.44])
    assert frame["tokens_per_s"].tolist() == pytest.approx([1e5, 1e6 / 6, 1e6 / 3.6])


def test_parts_of_each_row_sum_to_its_time() -> None:
    frame = scaling([("a", [f"chips={chips}"]) for chips in (128, 256)]).frame
    parts = [column.name for column in SCALING_COLUMNS if column.name.endswith("_s") and column.unit == "s"][1:]
    assert frame[parts].sum(axis=1).tolist() == pytest.approx(frame["time_s"].tolist())


def test_sizes_that_do_not_fit_are_skipped_with_their_reason() -> None:
    curves = scaling([("a", [f"chips={chips}"]) for chips in (64, 128, 1024)])
    assert curves.frame["chips"].tolist() == [128]
    assert curves.skipped == tuple(
        f"chips={chips}: a.yaml: 1 problem\n  layout  {chips} chips do not fit" for chips in (64, 1024)
    )


def test_no_run_gives_an_empty_frame() -> None:
    assert len(scaling([]).frame) == 0


def test_docs_show_the_columns() -> None:
    assert section("scaling", SCALING_COLUMNS) in TABLES_PAGE.read_text(encoding="utf-8")
