"""Measured collectives: the fits of the collective families hold, on their calibration rows and on the rows left out."""

from __future__ import annotations

import runpy
from math import log2
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from msgspec.structs import replace

import trnsim
from trnsim.hardware.collective_family import CollectiveFamily, load_collective_family
from trnsim.simulation import sites

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).parents[2]
BENCHMARK = runpy.run_path(str(ROOT / "benchmarks" / "collectives.py"))
MOST_FITTED = {"neuron-trn1": 7, "nccl-b200": 3, "nccl-h200": 3}
MEDIAN = {"trn1.32xlarge": 0.07, "dgx-b200-x4": 0.15, "dgx-h200": 0.15}
VALUES = {
    "neuron-trn1": {
        "core_link_share": 0.862,
        "direct.launch_s": 0.225e-6,
        "direct.doubling_s": 1.90e-6,
        "direct.bandwidth_share": 1.65,
        "ring.step_s": 2.70e-6,
        "ring.bandwidth_share": 1.08,
    },
    "nccl-b200": {"bandwidth_share": 0.91, "direct.launch_s": 112e-6, "ring.step_s": 4.51e-6},
    "nccl-h200": {"bandwidth_share": 0.712, "direct.launch_s": 18.3e-6, "in-network.launch_s": 57.8e-6},
}


@pytest.fixture(scope="module")
def checked() -> list[Any]:
    return list(BENCHMARK["check"](BENCHMARK["rows"]()))


def off(rows: Iterable[Any]) -> float:
    return float(median(abs(each.error) for each in rows))


def fitted_values(family: CollectiveFamily) -> dict[str, float]:
    """Return what was fitted, by name."""
    named = {"bandwidth_share": family.bandwidth_share, "core_link_share": family.core_link_share}
    for algorithm, cost in family.algorithms.items():
        for name in ("launch_s", "doubling_s", "step_s", "bandwidth_share"):
            named[f"{algorithm}.{name}"] = getattr(cost, name)
    return {name: sourced.value for name, sourced in named.items() if sourced is not None}


@pytest.mark.parametrize("network", list(MEDIAN))
def test_the_median_error_is_small_in_the_fit_and_outside(checked: list[Any], network: str) -> None:
    # all rows, and those that no fit has seen; on trn1 for each number of ranks as well
    rows = [each for each in checked if each.row.network == network]
    outside = [each for each in rows if not each.row.calibration]
    assert len(outside) >= 4
    assert off(rows) <= MEDIAN[network]
    assert off(outside) <= MEDIAN[network]
    for ranks in {each.row.ranks for each in rows}:
        of_ranks = [each for each in rows if each.row.ranks == ranks]
        assert off(of_ranks) <= MEDIAN[network]
        assert off(each for each in of_ranks if not each.row.calibration) <= MEDIAN[network]


@pytest.mark.parametrize("network", list(MEDIAN))
def test_the_fit_is_better_than_one_ring(checked: list[Any], network: str) -> None:
    rows = [each for each in checked if each.row.network == network]
    assert off(rows) < 0.6 * median(abs(each.baseline_error) for each in rows)


def test_calibration_rows_follow_the_rule() -> None:
    # of each network and number of ranks, in order of size, every third row from the second on is held out
    rows = BENCHMARK["rows"]()
    held_out = {row.name for row in rows if row.family and not row.calibration}
    assert held_out == BENCHMARK["held_out_by_rule"](rows)
    assert not any(row.calibration for row in rows if not row.family)


@pytest.mark.parametrize("name", list(VALUES))
def test_few_numbers_are_fitted_and_none_has_moved(name: str) -> None:
    # trn1 has one more in the core link of its chip, fitted to the 2-rank rows of the same table
    family = load_collective_family(name)
    values = fitted_values(family)
    assert values == pytest.approx(VALUES[name], rel=1e-9)
    assert len(values) + (name == "neuron-trn1") <= MOST_FITTED[name]
    rows = [row for row in BENCHMARK["rows"]() if row.family == name and row.calibration]
    assert family.measured_rows.value == len(rows)


@pytest.mark.parametrize("name", list(VALUES))
def test_the_error_of_a_family_is_that_of_the_rows_left_out(checked: list[Any], name: str) -> None:
    outside = [each for each in checked if each.row.family == name and not each.row.calibration]
    assert load_collective_family(name).error_fraction.value == pytest.approx(off(outside), abs=6e-4)


@pytest.mark.parametrize(("ranks", "size"), [(2, 1024), (8, 2**16), (16, 2**31), (32, 2**31)])
def test_a_time_is_its_closed_form(ranks: int, size: int) -> None:
    # direct: launch + doubling log2 N + S/B; ring: 2 (N - 1) steps of step + S/(N B). On 2 ranks B is the core link of
    # 58 GB/s; direct puts 3 S on
    # the busiest link between chips, the ring S (N - 1)/N on each of the two or four ways out of a chip
    row = trnsim.collective("all-reduce", on="trn1.32xlarge", rank="logical_core", ranks=ranks, sizes=[size]).rows[0]
    launch_s = 0.225e-6 + 1.90e-6 * log2(ranks)
    link, core = 0.68 * 48e9, 58e9
    expected_s = {
        2: launch_s + size / core,
        8: launch_s + size / (1.65 * link / 3),
        16: 30 * 2.70e-6 + 2 * 15 / 16 * size / (2 * 1.08 * link),
        32: 62 * 2.70e-6 + 2 * 31 / 32 * size / (2 * 1.16 * core),
    }[ranks]
    assert row.time_s == pytest.approx(expected_s, rel=1e-3)
    assert row.time_s >= row.bound_s


def test_a_changed_number_shows(monkeypatch: pytest.MonkeyPatch, checked: list[Any]) -> None:
    # law: of the fitted value the squares of log errors are least: 30 % off, and they are several times as many
    rows = [row for row in BENCHMARK["rows"]() if row.family == "nccl-h200"]
    family = load_collective_family("nccl-h200")
    assert family.bandwidth_share is not None
    moved = replace(family, bandwidth_share=replace(family.bandwidth_share, value=1.3 * family.bandwidth_share.value))
    monkeypatch.setattr(sites, "collective_family_of", lambda _: moved)
    before = [each for each in checked if each.row.family == "nccl-h200"]
    after = BENCHMARK["check"](rows)
    assert squares(after) > 4 * squares(before)
    assert off(after) > MEDIAN["dgx-h200"]


def squares(rows: Iterable[Any]) -> float:
    return float(np.sum(np.log1p([each.error for each in rows]) ** 2))


def test_other_machines_have_no_family() -> None:
    notes = trnsim.collective("all-reduce", on="trn2.48xlarge", sizes=[2**20]).notes
    assert not any("software" in note for note in notes)
    fitted = trnsim.collective("all-reduce", on="trn1.32xlarge", sizes=[2**20])
    assert fitted.notes[0].startswith("software neuron-trn1: direct and ring fitted to 39 all-reduces")
    assert fitted.provenance["collective_family"] == "neuron-trn1"
    several = trnsim.collective("all-reduce", on="trn1.32xlarge", servers=2, sizes=[2**20])
    assert "collective_family" not in several.provenance


def test_every_row_left_out_says_why() -> None:
    reasons = BENCHMARK["skipped"]()
    lines = (ROOT / "benchmarks" / "data" / "collectives.csv").read_text(encoding="utf-8").splitlines()
    assert sum(reasons.values()) + len(BENCHMARK["rows"]()) == len(lines) - 1
    assert "no collective" in reasons
