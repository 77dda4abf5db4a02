"""A result as a small HTML table, for notebooks."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from trnsim.results.waterfall import PART_NAMES
from trnsim.units import format_bytes, format_count, format_flops, format_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnsim.results.result import Result

__all__ = ["html_table"]


def html_table(result: Result) -> str:
    """Return the headline numbers of a result and the parts of its step as an HTML table."""
    rows = "".join(
        f"<tr><th>{escape(label)}</th><td>{escape(value)}</td></tr>"
        for label, value in (*_headline(result), *_parts(result))
    )
    return f"<table><caption>{escape(result.name)}</caption><tbody>{rows}</tbody></table>"


def _headline(result: Result) -> Iterator[tuple[str, str]]:
    step, memory, cluster = result.step, result.memory, result.cluster
    yield "cluster", f"{cluster.servers:,} x {cluster.server}, {cluster.chips:,} chips, {cluster.ranks:,} ranks"
    yield "model", f"{result.model.name}, {format_count(result.model.parameters)} parameters"
    yield "step time", format_time(step.time_s)
    yield "tokens per s", format_count(round(step.tokens_per_s))
    yield "MFU", f"{step.mfu:.1%} of {format_flops(step.peak_flops_per_s_per_chip)} per chip ({step.peak})"
    yield "HFU", f"{step.hfu:.1%}"
    yield (
        "error",
        f"{step.error_band.kind}, {format_time(step.error_band.low_s)} to {format_time(step.error_band.high_s)}",
    )
    yield "memory of the worst rank", f"{format_bytes(memory.bytes)} of {format_bytes(memory.limit_bytes)}"


def _parts(result: Result) -> Iterator[tuple[str, str]]:
    for name, time_s in result.step.breakdown_s.parts().items():
        if time_s:
            yield PART_NAMES[name], f"{format_time(time_s)} ({time_s / result.step.time_s:.1%})"
