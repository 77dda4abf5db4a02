"""The table of a collective: one declaration per column holds for the frame, the CSV, the document and the docs."""

from __future__ import annotations

import json

from pages import TABLES_PAGE, section

from trnsim.results import json_text
from trnsim.results.collective_times import COLLECTIVE_COLUMNS, CollectiveTime, CollectiveTimes, Rival


def times() -> CollectiveTimes:
    """1,000 bytes in 1 us, and nothing in no time."""
    rows = (
        CollectiveTime.of(
            1000,
            8,
            1e-6,
            algorithm="ring",
            fidelity="flow",
            bus_factor=1.75,
            bound_s=0.5e-6,
            bound_by="latency",
            rivals=(Rival("direct", 2e-6, at_least=True),),
        ),
        CollectiveTime.of(
            8, 1, 0.0, algorithm="ring", fidelity="flow", bus_factor=0.0, bound_s=0.0, bound_by="", rivals=()
        ),
    )
    return CollectiveTimes("all-reduce", {"described": "a star", "ranks": 8}, 1.75, rows, notes=("a",), warnings=("b",))


def test_bandwidths() -> None:
    # algbw = bytes / time = 1e9, busbw = 1.75 algbw; no time, no bandwidth
    first, second = times().rows
    assert (first.algbw_bytes_per_s, first.busbw_bytes_per_s) == (1e9, 1.75e9)
    assert (second.algbw_bytes_per_s, second.busbw_bytes_per_s) == (None, None)


def test_document_has_the_keys_that_users_rely_on() -> None:
    document = json.loads(json_text(times().to_dict()))
    assert [list(row) for row in document["rows"]] == [
        [
            "bytes",
            "ranks",
            "algorithm",
            "fidelity",
            "time_s",
            "algbw_bytes_per_s",
            "busbw_bytes_per_s",
            "bound_s",
        ]
    ] * 2
    assert (document["notes"], document["warnings"], document["ranks"]) == (["a"], ["b"], 8)
    assert "explanation" not in document


def test_frame_has_the_declared_columns_and_dtypes() -> None:
    frame = times().frame()
    assert list(frame.columns) == [column.name for column in COLLECTIVE_COLUMNS]
    assert [str(dtype) for dtype in frame.dtypes] == [column.dtype for column in COLLECTIVE_COLUMNS]
    assert frame["algbw_bytes_per_s"].isna().tolist() == [False, True]
    assert "ring" in times()._repr_html_()


def test_csv_has_a_header_and_a_line_per_row() -> None:
    lines = times().csv_text().splitlines()
    assert lines == [
        ",".join(column.name for column in COLLECTIVE_COLUMNS),
        "1000,8,ring,flow,1e-06,1000000000.0,1750000000.0,5e-07,latency",
        "8,1,ring,flow,0.0,,,0.0,",
    ]


def test_columns_are_explained() -> None:
    assert section("collective", COLLECTIVE_COLUMNS) in TABLES_PAGE.read_text(encoding="utf-8")
