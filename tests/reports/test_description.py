"""Descriptions as text."""

from __future__ import annotations

from trnsim.reports import description_text
from trnsim.simulation.description import Description, Value

DESCRIPTION = Description(
    kind="chip",
    name="trainium9",
    facts={
        "software_family": "neuron-trn9",
        "variants": {},
        "counted": {"chips": 1_000_080, "torus": True},
        "sizes": [4, 4, 4],
        "nothing": None,
    },
    values={
        "memory_bytes": Value(96 * 2**30, "B", "official", "page of 2026", "2026-11-30", None, None),
        "latency_s": Value(1.5e-6, "s", "assumed", "word " * 40, "2026-11-30", 1e-6, 2e-6),
        "link_bytes_per_s": Value(25e9, "B/s", "inferred", "sum", "2026-11-30", None, None),
        "peak_flops_per_s": Value(667e12, "FLOP/s", "third-party", "blog", "2026-11-30", None, None),
        "usable_fraction": Value(0.95, "fraction", "assumed", "habit", "2026-11-30", None, None),
        "byte_term": Value("hidden", "", "inferred", "fit", "2026-11-30", None, None),
    },
    notes=("a note",),
)


def test_text_shows_facts_values_sources_and_notes() -> None:
    text = description_text(DESCRIPTION)
    for line in (
        "chip trainium9",
        "  software_family  neuron-trn9",
        "    chips  1,000,080",
        "    torus  yes",
        "  sizes            4, 4, 4",
        "values, each with its source",
        "      page of 2026",
        "  - a note",
    ):
        assert line in text.splitlines()
    for value in (
        "96.0 GiB  [official, read 2026-11-30]",
        "1.50 us (1.00 us to 2.00 us)  [assumed, read 2026-11-30]",
        "25.0 GB/s  [inferred",
        "667 TFLOP/s  [third-party",
        "0.95  [assumed",
        "hidden  [inferred",
    ):
        assert value in text


def test_text_leaves_out_what_says_nothing_and_wraps() -> None:
    text = description_text(DESCRIPTION)
    assert "variants" not in text
    assert "nothing" not in text
    assert max(map(len, text.splitlines())) <= 110
