"""A comparison as a table: one row per quantity, one column per scenario, the ratio to the first beside each value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsim.results import PART_NAMES
from trnsim.units import format_bytes, format_count, format_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from trnsim.study import Comparison

__all__ = ["comparison_markdown", "comparison_text"]

_COLUMNS = 110
_NARROWEST_COLUMN = 18


def comparison_markdown(comparison: Comparison) -> str:
    """Return the comparison as a Markdown table, with its warnings below; for a job summary or a page."""
    head, *rows = ([cell.replace("|", "\\|") for cell in row] for row in _cells(comparison))
    lines = [f"| {' | '.join(row)} |" for row in (head, ["---"] + ["---:"] * (len(head) - 1), *rows)]
    lines += ["", *(f"- {warning}" for warning in comparison.warnings)]
    return "\n".join(lines).rstrip() + "\n"


def comparison_text(comparison: Comparison) -> str:
    """Return the comparison as plain text, columns aligned; long names are cut to fit 110 columns where that is possible."""
    table = _cells(comparison)
    first_width = max(len(row[0]) for row in table)
    room = (_COLUMNS - first_width) // len(comparison.results) - 2
    table[0] = [cell[: max(room, _NARROWEST_COLUMN)] for cell in table[0]]
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    lines = [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in table
    ]
    lines += ["", *(f"warning: {warning}" for warning in comparison.warnings)]
    return "\n".join(line.rstrip() for line in lines).rstrip() + "\n"


def _cells(comparison: Comparison) -> list[list[str]]:
    """Return the table as text: a head, then one row per quantity."""
    results = comparison.results
    positions = range(len(results))
    values = [comparison.values(position) for position in positions]
    ratios = [comparison.ratios(position) for position in positions]
    parts = [comparison.parts(position) for position in positions]
    part_ratios = [comparison.part_ratios(position) for position in positions]
    return [
        ["", *(result.name for result in results)],
        ["machine", *(f"{result.cluster.servers:,} x {result.cluster.server}" for result in results)],
        ["chips", *(f"{result.cluster.chips:,}" for result in results)],
        ["tokens per step", *(format_count(result.step.tokens) for result in results)],
        *(_row(label, name, values, ratios, write) for name, (label, write) in _QUANTITIES.items()),
        *(
            _row(PART_NAMES[name], name, parts, part_ratios, format_time)
            for name in parts[0]
            if any(part[name] for part in parts)
        ),
    ]


def _row(
    label: str,
    name: str,
    values: list[dict[str, float]],
    ratios: list[dict[str, float | None]],
    write: Callable[[float], str],
) -> list[str]:
    """Return one quantity of every result, with its ratio to the first after every value but the first."""
    cells = [write(values[0][name])]
    for value, ratio in zip(values[1:], ratios[1:], strict=True):
        cells.append(f"{write(value[name])}  {_ratio(ratio[name])}")
    return [label, *cells]


def _ratio(ratio: float | None) -> str:
    return "     -" if ratio is None else f"{ratio:.3f}x"


def _per_second(value: float) -> str:
    return format_count(float(f"{value:.4g}"))


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.1f} %"


_QUANTITIES: dict[str, tuple[str, Callable[[float], str]]] = {
    "tokens_per_s": ("tokens per s", _per_second),
    "tokens_per_s_per_chip": ("tokens per s and chip", _per_second),
    "mfu": ("MFU", _percent),
    "hfu": ("HFU", _percent),
    "memory_bytes": ("memory of the worst rank", format_bytes),
    "time_s": ("step time", format_time),
}
