"""Memory over time as text: one line a stage, the peak below."""

from __future__ import annotations

import textwrap
from itertools import groupby
from typing import TYPE_CHECKING

from trnsim.units import format_bytes, format_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trnsim.results.memory_report import MemoryPeak, MemoryReport

__all__ = ["memory_text"]

_COLUMNS = 110
_MOST_LINES = 32
_TERMS = ("weights", "gradients", "optimizer", "activations", "communication", "buffers")


def memory_text(report: MemoryReport) -> str:
    """Return the peak of each stage by term, at most 110 columns; neighbours that need the same share a line."""
    head = f"{'stage':<9}{'layers':>7}" + "".join(f"{term:>{_width(term)}}" for term in _TERMS)
    lines = [
        report.name,
        *textwrap.wrap(f"{report.convention}; GiB, each stage at its peak", _COLUMNS),
        "",
        f"{head}{'peak':>9}{'of limit':>9}",
        *_stages(report),
        "",
        *_worst(report),
    ]
    for warning in report.warnings:
        lines += textwrap.wrap(f"warning: {warning}", _COLUMNS)
    return "\n".join(lines) + "\n"


def _width(term: str) -> int:
    return max(len(term) + 1, 10)


def _stages(report: MemoryReport) -> Iterator[str]:
    runs = [list(run) for _, run in groupby(report.stages, key=lambda peak: (peak.layers, peak.terms))]
    for run in runs[:_MOST_LINES]:
        yield _line(run, report.limit_bytes)
    if len(runs) > _MOST_LINES:
        yield f"... {sum(map(len, runs[_MOST_LINES:])):,} more stages in the JSON document"


def _line(run: Sequence[MemoryPeak], limit_bytes: int) -> str:
    first, last = run[0], run[-1]
    stages = f"{first.stage}" if len(run) == 1 else f"{first.stage}-{last.stage}"
    terms = first.terms.terms()
    cells = "".join(f"{terms[term] / 2**30:>{_width(term)}.2f}" for term in _TERMS)
    return f"{stages:<9}{first.layers:>7}{cells}{first.bytes / 2**30:>9.2f}{first.bytes / limit_bytes:>9.1%}".rstrip()


def _worst(report: MemoryReport) -> Iterator[str]:
    worst, limit, ranks = report.worst, report.limit_bytes, report.ranks_per_chip
    chip = (
        ""
        if ranks == 1
        else f"; {format_bytes(worst.bytes * ranks)} of {format_bytes(limit * ranks)} a chip of {ranks}"
    )
    yield (
        f"most: rank {worst.rank:,} of stage {worst.stage}, {format_bytes(worst.bytes)} of {format_bytes(limit)} "
        f"({worst.bytes / limit:.1%}){chip}"
    )
    yield f"when: {worst.during}, {format_time(worst.time_s)} into the step of {format_time(report.step_time_s)}"
