"""The trace: microseconds, one track per stream of a rank, slices that nest or do not overlap."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from fakes import fake_result
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from trnsim.results import Slice, Timeline, Track, trace_document, trace_notice, trace_text


def overlaps(events: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return the names of slices on one track that overlap without one holding the other; exact arithmetic."""
    tracks: dict[tuple[int, int], list[tuple[float, float, str]]] = {}
    for event in events:
        if event["ph"] == "X":
            track = tracks.setdefault((event["pid"], event["tid"]), [])
            track.append((event["ts"], event["ts"] + event["dur"], event["name"]))
    bad = []
    for track in tracks.values():
        open_slices: list[tuple[float, float, str]] = []
        for start, end, name in track:
            while open_slices and open_slices[-1][1] <= start:
                open_slices.pop()
            if open_slices and end > open_slices[-1][1]:
                bad.append((open_slices[-1][2], name))
            open_slices.append((start, end, name))
    return bad


def test_validator_sees_an_overlap() -> None:
    track = [{"ph": "X", "pid": 0, "tid": 0, "name": n, "ts": t, "dur": 2.0} for n, t in (("a", 0.0), ("b", 1.0))]
    assert overlaps(track) == [("a", "b")]


def test_times_are_float_microseconds() -> None:
    # 0.06 s = 60,000 us, to the grid of 2^-20 us.
    event = next(e for e in trace_document(fake_result())["traceEvents"] if e["name"] == "all-gather")
    assert (event["ph"], event["cat"]) == ("X", "exposed_tp")
    assert isinstance(event["ts"], float)
    assert isinstance(event["dur"], float)
    assert event["ts"] == pytest.approx(60_000, abs=2**-20)
    assert event["dur"] == pytest.approx(40_000, abs=2**-20)


def test_ranks_are_processes_and_streams_are_threads() -> None:
    named = {
        (event["name"], event["pid"], event["tid"]): event["args"]["name"]
        for event in trace_document(fake_result())["traceEvents"]
        if event["name"] in {"process_name", "thread_name"}
    }
    assert named == {
        ("process_name", 0, 0): "stage 0 (8 ranks, first 0)",
        ("thread_name", 0, 0): "compute",
        ("thread_name", 0, 1): "data-parallel communication",
        ("process_name", 1, 0): "stage 1 (8 ranks, first 8)",
        ("thread_name", 1, 0): "compute",
    }


@given(
    ends_ps=st.lists(st.integers(0, 4_000 * 10**12), min_size=2, max_size=30, unique=True).map(sorted),
    inner=st.integers(1, 5),
)
def test_slices_that_meet_in_the_engine_meet_in_the_file(ends_ps: list[int], inner: int) -> None:
    # Engine times are whole picoseconds given as float seconds. Neighbours share an end, and each slice holds `inner`
    # equal pieces: in the file, in exact arithmetic, they still nest or do not overlap.
    slices = []
    for start, end in pairwise(ends_ps):
        slices.append(Slice("outer", "pass", start / 1e12, end / 1e12))
        cuts = [start + (end - start) * k // inner for k in range(inner + 1)]
        slices += [Slice("inner", "compute", a / 1e12, b / 1e12, depth=1) for a, b in pairwise(cuts)]
    result = replace(fake_result(), timeline=Timeline((Track("rank 0", "compute", tuple(slices)),)))
    assert overlaps(trace_document(result)["traceEvents"]) == []


def test_text_is_the_document() -> None:
    result = fake_result()
    assert json.loads(trace_text(result)) == trace_document(result)
    empty = replace(result, timeline=Timeline())
    assert json.loads(trace_text(empty))["traceEvents"] == []


def test_trace_knows_how_many_events_the_engine_counted() -> None:
    other = trace_document(fake_result())["otherData"]
    assert other["engine_events"] == fake_result().engine.events
    assert other["fingerprint"] == fake_result().provenance.fingerprint


def test_cap_on_ranks_is_kept_and_said() -> None:
    timeline = replace(fake_result().timeline, max_ranks=1)
    result = replace(fake_result(), timeline=timeline)
    assert {event["pid"] for event in trace_document(result)["traceEvents"]} == {0}
    assert trace_notice(result) == (
        "the trace shows 1 of 16 ranks (run.trace_ranks = 1; ranks that behave alike share one track)"
    )


def test_whole_trace_needs_no_notice() -> None:
    result = fake_result()
    assert trace_notice(replace(result, engine=replace(result.engine, ranks=2))) is None
