"""The summary: one screen, whatever the result."""

from __future__ import annotations

import re

import pytest
from fakes import fake_result, fake_step, with_warnings
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from trnsim.results import Breakdown, Result, Tier, waterfall


def crowded_result(*, warnings: int, words: int) -> Result:
    """Return a result in which nothing is zero and everything is long."""
    names = list(Breakdown().parts())
    parts = Breakdown(**dict.fromkeys(names, 10.0 / 12))
    result = replace(
        fake_result(name="a long name " * 20),
        step=fake_step(parts=parts),
        waterfall=waterfall(parts=parts, gemm_efficiency=0.4, mfu=0.02),
        tiers=tuple(Tier(axis, 2, ("neuronlink-xy", "neuronlink-z", "efa")) for axis in ("tp", "cp", "ep", "pp", "dp")),
        derived={f"key.{n}": "a long explanation of what was derived " * 3 for n in range(words)},
        defaults={f"key.{n}": "value" for n in range(words)},
    )
    return with_warnings(result, warnings)


@given(warnings=st.integers(0, 30), words=st.integers(0, 40))
def test_summary_fits_one_screen(warnings: int, words: int) -> None:
    # One screen is at most 50 lines of 110 columns, however much there is to say.
    lines = crowded_result(warnings=warnings, words=words).summary().splitlines()
    assert len(lines) <= 50
    assert max(map(len, lines)) <= 110
    if warnings:
        assert any(line.startswith("warning ") for line in lines)


def test_summary_says_what_was_left_out() -> None:
    summary = crowded_result(warnings=30, words=0).summary()
    shown = len(re.findall(r"^warning +warning number", summary, re.MULTILINE))
    assert f"{30 - shown} more in the JSON document" in summary


@pytest.mark.parametrize(
    "fact",
    [
        "step time     10.0000 s   (first step 11.0000 s)",
        "1,000,000 per step, 100,000 per s, 6,250 per s and chip, 12.2 sequences per s",
        "MFU           25.0 % of 671 TFLOP/s per chip, the dense bf16 peak as AWS prints it",
        "causal 24.0 %, HFU 30.0 %; rule: 6 x matmul parameters",
        "no measurement; 8.00 s to 14.0 s (neuron-trn3)",
        "all, per rank      18.00 GiB  81.8 %  of 22.00 GiB",
        "memory of the worst rank (0, stage 0)",
        "dp 2       neuronlink-xy, efa",
        "layout.dp: 2; microbatches: 4",
        "micro_batch 1",
        "1 of 10 catalog values rest on inference or assumption (9 official, 1 assumed):",
        "4 microbatches are fewer than 8 stages",
    ],
)
def test_summary_says(fact: str) -> None:
    assert fact in fake_result().summary()


def test_summary_parts_sum_to_the_step() -> None:
    # The printed parts add up to the printed step.
    summary = fake_result().summary()
    seconds = [float(text) for text in re.findall(r"^  [a-z ]+?\s+([\d.]+) s ", summary, re.MULTILINE)]
    assert sum(seconds[:-1]) == pytest.approx(seconds[-1])


def test_times_take_the_unit_of_the_step() -> None:
    assert "2.0000 us" in fake_result(time_s=10e-6).summary()
    assert "2.0000 ms" in fake_result(time_s=10e-3).summary()


def test_measured_family_gives_a_band() -> None:
    step = fake_result().step
    measured = replace(step, error_band=replace(step.error_band, kind="measured", source="7 rows"))
    summary = replace(fake_result(), step=measured).summary()
    assert "error         8.00 s to 14.0 s (7 rows)" in summary
    assert "no measurement" not in summary
