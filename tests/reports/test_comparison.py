"""Comparisons as text and as Markdown."""

from __future__ import annotations

from fakes import fake_result
from msgspec.structs import replace

from trnsim.reports import comparison_markdown, comparison_text
from trnsim.study import Comparison

COMPARISON = Comparison((fake_result(name="base"), fake_result(name="faster", time_s=5.0)))


def test_text_lines_up_and_shows_ratios() -> None:
    lines = comparison_text(COMPARISON).splitlines()
    table = lines[: lines.index("")]
    assert len({len(line) for line in table}) == 1
    assert [line.split("  ")[0] for line in table] == [
        "",
        "machine",
        "chips",
        "tokens per step",
        "tokens per s",
        "tokens per s and chip",
        "MFU",
        "HFU",
        "memory of the worst rank",
        "step time",
        "compute",
        "recompute",
        "skew with scale",
        "exposed tp",
        "exposed pp",
        "exposed dp",
        "bubble",
        "optimizer",
    ]
    assert table[4].split()[-2:] == ["200,000", "2.000x"]
    assert table[9].split()[-3:] == ["5.00", "s", "0.500x"]


def test_long_names_keep_the_table_on_the_screen() -> None:
    results = tuple(fake_result(name=f"{n} a very long name of a scenario that goes on and on") for n in range(3))
    assert max(len(line) for line in comparison_text(Comparison(results)).splitlines()[:18]) <= 110


def test_markdown_is_a_table_and_a_list_of_warnings() -> None:
    named = replace(COMPARISON.results[1], name="a|b")
    lines = comparison_markdown(Comparison((COMPARISON.results[0], named))).splitlines()
    assert lines[:2] == ["|  | base | a\\|b |", "| --- | ---: | ---: |"]
    assert "| tokens per s | 100,000 | 200,000  2.000x |" in lines
    assert lines[-1] == "- a|b: 4 microbatches are fewer than 8 stages"
    assert {line.replace("\\|", "").count("|") for line in lines if line.startswith("|")} == {4}
