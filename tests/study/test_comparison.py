"""Scenarios side by side."""

from __future__ import annotations

import json

import pytest
from fakes import fake_result
from msgspec.structs import replace

from trnsim import simulation
from trnsim.results import Breakdown, json_text
from trnsim.study import Comparison, compare

BASE = fake_result(name="base")


def test_ratios_are_to_the_first() -> None:
    # Half the time at equal tokens: time 1/2, tokens per s 2; on twice the chips, tokens per s and chip 1.
    comparison = Comparison((BASE, fake_result(name="twice", time_s=5.0, chips=32)))
    assert comparison.ratios(0) == dict.fromkeys(comparison.values(0), 1.0)
    ratios = comparison.ratios(1)
    assert ratios["time_s"] == pytest.approx(0.5)
    assert ratios["tokens_per_s"] == comparison.speedup(1) == pytest.approx(2.0)
    assert ratios["tokens_per_s_per_chip"] == pytest.approx(1.0)
    assert ratios["memory_bytes"] == ratios["mfu"] == 1.0
    assert comparison.part_ratios(1)["compute"] == pytest.approx(0.5)


def test_part_that_the_first_lacks_has_no_ratio() -> None:
    # 0 / 0 and x / 0 are no ratios: None, and null in JSON.
    step = replace(BASE.step, breakdown_s=Breakdown(compute=9.0, overhead=1.0))
    comparison = Comparison((BASE, replace(BASE, step=step)))
    assert comparison.part_ratios(1)["overhead"] is None
    assert comparison.part_ratios(1)["exposed_cp"] is None
    document = json.loads(json_text(comparison.to_dict()))
    assert document["scenarios"][1]["ratio"]["breakdown_s"]["overhead"] is None


def test_document() -> None:
    comparison = Comparison((BASE, fake_result(name="twice", time_s=5.0)))
    document = comparison.to_dict()
    assert list(document) == ["trnsim", "scenarios", "warnings"]
    first, second = document["scenarios"]
    assert first["breakdown_s"] == BASE.step.breakdown_s.parts()
    assert (second["name"], second["chips"], second["tokens_per_s"]) == ("twice", 16, 200_000.0)
    assert second["memory_bytes"] / second["memory_limit_bytes"] == pytest.approx(18 / 22)


def test_equal_work_is_not_warned_about() -> None:
    plain = replace(BASE, warnings=())
    assert Comparison((plain, plain)).warnings == ()


def test_different_batches_and_models_are_warned_about() -> None:
    other = replace(fake_result(name="other", tokens=2_000_000), warnings=())
    renamed = replace(other, model=replace(other.model, name="big"))
    warnings = Comparison((replace(BASE, warnings=()), renamed)).warnings
    assert warnings == (
        "global batches differ, so the steps do different work; tokens per step: 1,000,000 (base), 2,000,000 (other)",
        "models differ, so tokens per s do not compare: tiny, big",
    )


def test_warnings_of_the_runs_are_kept() -> None:
    assert Comparison((BASE, BASE)).warnings == ("base: 4 microbatches are fewer than 8 stages",) * 2


def test_compare_simulates_each_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation, "simulate", lambda name: fake_result(name=name), raising=False)
    assert [result.name for result in compare(["a", "b", "c"]).results] == ["a", "b", "c"]  # type: ignore[list-item]


def test_nothing_to_compare_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        compare([])
