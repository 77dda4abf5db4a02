"""The trace of a run as Chrome trace events, which Perfetto (ui.perfetto.dev) opens.

One process per rank, one track (thread) per stream of the rank. Slices on a track nest or do not overlap.

References
----------
Trace Event Format, https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnsim.results.result import Result
    from trnsim.results.timeline import Slice, Timeline, Track

__all__ = ["trace_document", "trace_notice", "trace_text"]

_TICKS_PER_MICROSECOND = 2**20


def trace_document(result: Result) -> dict[str, Any]:
    """Return the trace of a run: ``traceEvents`` and, in ``otherData``, where it comes from.

    ``ts`` and ``dur`` are microseconds as floats. Ranks beyond ``timeline.max_ranks`` are left out, and
    :func:`trace_notice` says so.
    """
    processes = _processes(result.timeline)
    shown = list(processes.items())[: result.timeline.max_ranks]
    events = [event for pid, (rank, tracks) in enumerate(shown) for event in _rank_events(pid, rank, tracks)]
    return {
        "displayTimeUnit": "ms",
        "otherData": {
            "name": result.name,
            "trnsim": result.provenance.trnsim,
            "scenario_sha256": result.provenance.scenario_sha256,
            "seed": result.provenance.seed,
            "fingerprint": result.provenance.fingerprint,
            "engine_events": result.engine.events,
            "ranks": result.engine.ranks,
            "ranks_shown": len(shown),
        },
        "traceEvents": events,
    }


def trace_text(result: Result) -> str:
    """Return the trace of a run as JSON text, one event per line."""
    document = trace_document(result)
    lines = ",\n".join(json.dumps(event, allow_nan=False) for event in document["traceEvents"])
    head = json.dumps({key: value for key, value in document.items() if key != "traceEvents"})
    return f'{head[:-1]}, "traceEvents": [\n{lines}\n]}}\n'


def trace_notice(result: Result) -> str | None:
    """Return the sentence that says which ranks a trace leaves out, or None when it holds them all."""
    shown = min(len(_processes(result.timeline)), result.timeline.max_ranks)
    if shown >= result.engine.ranks:
        return None
    return (
        f"the trace shows {shown:,} of {result.engine.ranks:,} ranks "
        f"(run.trace_ranks = {result.timeline.max_ranks:,}; ranks that behave alike share one track)"
    )


def _processes(timeline: Timeline) -> dict[str, list[Track]]:
    """Return the tracks by the name of their rank, in the order of the timeline."""
    by_rank: dict[str, list[Track]] = {}
    for track in timeline.tracks:
        by_rank.setdefault(track.rank_name, []).append(track)
    return by_rank


def _rank_events(pid: int, rank_name: str, tracks: list[Track]) -> Iterator[dict[str, Any]]:
    """Yield the names of one rank and of its streams, then the slices of each stream."""
    yield {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": rank_name}}
    yield {"ph": "M", "name": "process_sort_index", "pid": pid, "tid": 0, "args": {"sort_index": pid}}
    for tid, track in enumerate(tracks):
        yield {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": track.stream}}
        for piece in sorted(track.slices, key=lambda s: (s.start_s, -s.end_s, s.depth)):
            yield _slice_event(pid, tid, piece)


def _slice_event(pid: int, tid: int, piece: Slice) -> dict[str, Any]:
    """Return one complete event."""
    start_us = _microseconds(piece.start_s)
    return {
        "ph": "X",
        "name": piece.name,
        "cat": piece.category,
        "pid": pid,
        "tid": tid,
        "ts": start_us,
        "dur": _microseconds(piece.end_s) - start_us,
    }


def _microseconds(time_s: float) -> float:
    """Return seconds as microseconds on a grid of 2^-20 us, about one picosecond.

    On a binary grid ``ts + dur`` is exact (for times below 8,590 s), so slices that meet in the engine meet in the file
    and rounding makes none overlap.
    """
    return round(time_s * 1e6 * _TICKS_PER_MICROSECOND) / _TICKS_PER_MICROSECOND
