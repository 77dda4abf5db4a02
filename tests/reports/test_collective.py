"""Collectives as text: the columns of nccl-tests and nccom-test, what bounds each row, and why it was taken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec.structs import replace

import trnsim
from trnsim.reports.collective import collective_text, comparison_with_log_text, explanation_text
from trnsim.study.log_comparison import compare_log

STAR: dict[str, Any] = {"on": "star", "ranks": 8, "link_bandwidth": "50 GB/s", "link_latency": "250 ns"}
LOG = Path(__file__).parents[1] / "study" / "logs" / "nccom_test_trn1.txt"


def test_table() -> None:
    # 2 x 7 x (1 MiB / (8 x 50 GB/s) + 0.5 us) = 43.70 us; busbw = 1.75 algbw
    times = trnsim.collective("all-reduce", algorithm="ring", sizes="8:1MiB", **STAR)
    lines = collective_text(times).splitlines()
    assert lines[0] == "all-reduce on machine star: 8 ranks, flow"
    assert "busbw = algbw x 2(N-1)/N, here 1.75: the ring convention of nccl-tests and nccom-test" in lines[2]
    assert lines[4].split("  ")[-1] == "bound by"
    assert lines[5].split() == ["8", "ring", "7.00", "0.00", "0.00", "0.50", "latency"]
    assert lines[-1].split()[:5] == ["1048576", "ring", "43.70", "23.99", "41.99"]
    assert lines[-1].endswith("up, as chip 0 -> switch")
    assert len(lines) == 5 + 18


def test_operations_without_a_factor_and_groups_of_one() -> None:
    text = collective_text(trnsim.collective("broadcast", sizes="8", **{**STAR, "ranks": 1}))
    assert "star: 1 rank, flow" in text
    assert "busbw = algbw: the ring" in text
    assert text.splitlines()[-1].split()[2:5] == ["0.00", "-", "-"]


def test_why_auto_took_what_it_took() -> None:
    asked: dict[str, Any] = {"on": "torus:4x4x4", "link_bandwidth": "50 GB/s", "link_latency": "250 ns"}
    times = trnsim.collective("all-reduce", sizes="1KiB:1GiB", **asked)
    runs = [line for line in collective_text(times).splitlines() if line.startswith("auto took")]
    assert [run.split()[2] for run in runs] == list(dict.fromkeys(row.algorithm for row in times.rows))
    assert runs[-1].endswith(" x at 1.00 GiB")
    alone = trnsim.collective("send-recv", sizes="8", **STAR)
    assert "auto took" not in collective_text(alone)


def test_notes_and_warnings_stand_below() -> None:
    times = replace(trnsim.collective("all-reduce", sizes="8", **STAR), notes=("a",), warnings=("b",))
    assert collective_text(times).splitlines()[-2:] == ["note: a", "warning: b"]


def test_comparison_ends_with_the_error_and_what_was_skipped() -> None:
    asked: dict[str, Any] = {"on": "trn1.32xlarge", "rank": "logical_core", "ranks": 2, "fidelity": "closed_form"}
    comparison = compare_log(str(LOG), "all-reduce", **asked)
    lines = comparison_with_log_text(comparison).splitlines()
    assert lines[0].endswith(f", closed form, beside {LOG}")
    first = comparison.rows[0]
    assert lines[3].split() == [
        "33554432",
        first.algorithm,
        "768.00",
        f"{first.time_s * 1e6:.2f}",
        f"{100 * first.error_fraction:+.1f}",
        "%",
    ]
    assert f"median error without sign: {100 * comparison.median_error_fraction:.1f} % of 7 rows" in lines
    assert [line for line in lines if line.startswith("skipped")] == [
        "skipped line 16: a table of all-gather, 2 rows",
        "skipped line 21: a table of 64 ranks, 5 rows",
    ]


def test_explanation_shows_phases_the_busiest_link_and_the_bounds() -> None:
    # ring: 7 + 7 steps of 2^27 bytes on each uplink, 7 x 2^27 in a phase
    times = trnsim.collective("all-reduce", algorithm="ring", sizes="1GiB", explain=True, **STAR)
    text = explanation_text(times)
    assert "the program of ring at 1.00 GiB: 14 steps in 2 phases" in text
    assert f"bytes over all links: up {14 * 2**30}, down {14 * 2**30}" in text
    assert f"busiest link: chip 0 -> switch (up), {7 * 2**27} bytes in phase 1, 50.0 % of the whole time" in text
    assert "lower bounds (us): endpoint" in text
    assert explanation_text(replace(times, explanation=None)) == ""


def test_of_many_phases_the_first_and_last_are_shown() -> None:
    times = trnsim.collective("all-to-all", algorithm="pairwise", sizes="8", explain=True, **{**STAR, "ranks": 20})
    lines = explanation_text(times).splitlines()
    assert [line.split()[0] for line in lines[3:14]] == [*"12345", "...", "15", "16", "17", "18", "19"]


def test_a_program_without_phases_is_explained() -> None:
    text = explanation_text(trnsim.collective("all-reduce", sizes="8", explain=True, **{**STAR, "ranks": 1}))
    assert "0 steps in 0 phases" in text
    assert "bytes over all links: none" in text
