"""A run on one screen, as plain text: at most 50 lines of 110 columns, ASCII apart from names."""

from __future__ import annotations

import textwrap
from collections import Counter
from itertools import zip_longest
from typing import TYPE_CHECKING

from trnsim.results.waterfall import PART_NAMES
from trnsim.units import format_bandwidth, format_count, format_flops, format_time

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trnsim.results.records import ErrorBand
    from trnsim.results.result import Result

__all__ = ["summary_text"]

_LINES = 50
_COLUMNS = 110
_LEFT_COLUMNS = 54
_LABEL_COLUMNS = 14
_KINDS_COLUMNS = 40
_CAN_WAIT = ("ranks", "logical cores", "tokens per step")
_MOST_LINKS = 3
_MOST_WARNING_LINES = 6
_LEAST_DEFAULTS_LINES = 5
_MOST_PERTURBATIONS = 3
_BAR_COLUMNS = 14


def summary_text(result: Result) -> str:
    """Return the run on one screen.

    Parts of the step and of the memory that are exactly zero are left out; long lists are cut and say so.
    """
    lines = [
        *_head(result),
        "",
        *_beside(_breakdown(result), _waterfall(result)),
        "",
        *_beside(_memory(result), _network(result)),
        "",
        *_perturbations(result),
    ]
    lines += _notes(result, _LINES - len(lines))
    return "\n".join(line[:_COLUMNS].rstrip() for line in lines) + "\n"


def _notes(result: Result, room: int) -> list[str]:
    """Say what was derived, what was taken by default, what it rests on, and warn; the first two get what room is left."""
    warnings = _warnings(result.warnings, min(_MOST_WARNING_LINES, room - 3 - _LEAST_DEFAULTS_LINES))
    room -= len(warnings)
    derived, defaults = _pairs(_answers_first(result.derived)), _defaults(result.defaults)
    wanted = {text: len(_paragraph("", text, most_lines=_LINES)) for text in (derived, defaults)}
    numbers = _paragraph("numbers", _numbers(result), most_lines=2 if sum(wanted.values()) + 2 <= room else 1)
    room -= len(numbers)
    shown = _paragraph("defaults", defaults, most_lines=max(_LEAST_DEFAULTS_LINES, room - wanted[derived]))
    return [*_paragraph("derived", derived, most_lines=room - len(shown)), *shown, *numbers, *warnings]


def _answers_first(derived: Mapping[str, str]) -> dict[str, str]:
    """Put what can be read off the other numbers last, where there may be no room."""
    return dict(sorted(derived.items(), key=lambda item: item[0] in _CAN_WAIT))


def _head(result: Result) -> list[str]:
    """Name the run and the machine, and give the numbers that everybody asks for first."""
    cluster, step = result.cluster, result.step
    idle = f" ({cluster.idle_chips:,} idle)" if cluster.idle_chips else ""
    fabric = f"; fabric {cluster.fabric}" if cluster.fabric else ""
    return [
        result.name,
        _line("model", f"{result.model.name}, {format_count(result.model.parameters)} parameters"),
        *_paragraph(
            "machine",
            f"{cluster.servers:,} x {cluster.server}, {cluster.chips:,} chips{idle}, {cluster.ranks:,} ranks{fabric}; "
            f"software {cluster.software}",
            most_lines=2,
        ),
        "",
        _line("step time", f"{_exact_time(step.time_s)}   (first step {_exact_time(step.first_step_time_s)})"),
        _line(
            "tokens",
            f"{format_count(step.tokens)} per step, {format_count(round(step.tokens_per_s))} per s, "
            f"{format_count(_three(step.tokens_per_s / cluster.chips))} per s and chip, "
            f"{format_count(_three(step.sequences_per_s))} sequences per s",
        ),
        _line(
            "MFU",
            f"{_percent(step.mfu)} of {format_flops(step.peak_flops_per_s_per_chip)} per chip, the {step.peak}",
        ),
        *_paragraph(
            "", f"causal {_percent(step.mfu_causal)}, HFU {_percent(step.hfu)}; rule: {step.flops_rule}", most_lines=2
        ),
        *_paragraph("error", _error(step.error_band), most_lines=2),
    ]


def _error(band: ErrorBand) -> str:
    between = f"{format_time(band.low_s)} to {format_time(band.high_s)}"
    return f"{between if band.kind == 'measured' else f'{band.kind}; {between}'} ({band.source})"


def _breakdown(result: Result) -> list[str]:
    """Show the parts of the step, which sum to it, each with its share and a bar."""
    total_s = result.step.time_s
    lines = [f"where the time goes (rank {result.step.breakdown_rank:,}, last to finish)"]
    for name, time_s in result.step.breakdown_s.parts().items():
        if time_s:
            share = time_s / total_s
            bar = "#" * round(share * _BAR_COLUMNS)
            lines.append(f"  {PART_NAMES[name]:<16}{_in_unit_of(total_s, time_s):>12}{_percent(share):>8}  {bar}")
    return [*lines, f"  {'step':<16}{_in_unit_of(total_s, total_s):>12}{_percent(1.0):>8}"]


def _waterfall(result: Result) -> list[str]:
    """Show the way from peak to achieved: each loss and what it leaves."""
    lines = [f"{'from peak to achieved':<32}{'lost':>10}{'left':>8}"]
    for line in result.waterfall:
        lost = "" if line.name == "peak" else _percent(line.loss_fraction)
        lines.append(f"  {line.name:<30}{lost:>10}{_percent(line.left_fraction):>8}")
    return lines


def _memory(result: Result) -> list[str]:
    """Show the memory of the worst rank by term, against what it may use."""
    memory = result.memory
    lines = [f"memory of the worst rank ({memory.worst_rank:,}, stage {memory.worst_stage})"]
    for term, size in memory.by_term_bytes.terms().items():
        if size:
            lines.append(f"  {term:<16}{_gib(size):>12}{_percent(size / memory.limit_bytes):>8}")
    share = _percent(memory.bytes / memory.limit_bytes)
    ranks = result.cluster.ranks_per_chip
    lines.append(f"  {'all, per rank':<16}{_gib(memory.bytes):>12}{share:>8}  of {_gib(memory.limit_bytes)}")
    if ranks > 1:
        whole, limit = ranks * memory.bytes, ranks * memory.limit_bytes
        lines.append(f"  {f'per chip ({ranks})':<16}{_gib(whole):>12}{share:>8}  of {_gib(limit)}")
    return lines


def _network(result: Result) -> list[str]:
    """Show which axis crosses which kinds of links, and the busiest links."""
    lines = ["axis and the network it crosses"]
    for tier in result.tiers:
        kinds = textwrap.wrap(", ".join(tier.kinds) or "stays on the chip", _KINDS_COLUMNS)
        lines += [f"  {tier.axis} {tier.size:<8,}{kinds[0]}", *(f"{'':<13}{more}" for more in kinds[1:])]
    if not result.links:
        return lines
    lines.append("busiest links")
    for link in result.links[:_MOST_LINKS]:
        each = _wire_bytes(link.bytes / link.count)
        lines.append(f"  {link.name:<16}{link.count:>10,} x {each:>8}{_percent(link.utilization_fraction):>8} used")
    return lines


def _numbers(result: Result) -> str:
    """Say how much the result rests on numbers that nobody published."""
    rests = result.assumptions
    total, guessed = sum(rests.by_kind.values()), len(rests.inferred) + len(rests.assumed)
    counted = ", ".join(f"{count} {kind}" for kind, count in rests.by_kind.items())
    names = ", ".join((*rests.assumed, *rests.inferred))
    return f"{guessed} of {total} catalog values rest on inference or assumption ({counted})" + (names and f": {names}")


def _warnings(warnings: tuple[str, ...], room: int) -> list[str]:
    """Show as many warnings as there is room for; the last line says how many are left out."""
    lines: list[str] = []
    for position, warning in enumerate(warnings):
        paragraph = _paragraph("warning", warning, most_lines=2)
        last = position == len(warnings) - 1
        if len(lines) + len(paragraph) + (not last) > room:
            return [*lines, _line("warning", f"{len(warnings) - position} more in the JSON document")]
        lines += paragraph
    return lines


def _perturbations(result: Result) -> list[str]:
    """Say what each perturbation strikes and costs; the step without it is in the JSON document."""
    lines = []
    for number, each in enumerate(result.perturbations[:_MOST_PERTURBATIONS]):
        more = ", ..." if each.struck > 1 else ""
        where = f" ({each.places[0]}{more})" if each.places else ""
        share = _percent(each.cost_s / each.without_s)
        text = f"{each.name}: {each.struck:,} struck{where}, {format_time(each.cost_s)} of the step ({share} of that without)"
        lines += _paragraph("" if number else "perturbed", text, most_lines=2)
    left_out = len(result.perturbations) - _MOST_PERTURBATIONS
    return [*lines, _line("", f"{left_out} more in the JSON document")] if left_out > 0 else lines


def _beside(left: list[str], right: list[str]) -> list[str]:
    return [f"{a:<{_LEFT_COLUMNS}}  {b}" for a, b in zip_longest(left, right, fillvalue="")]


def _line(label: str, text: str) -> str:
    return f"{label:<{_LABEL_COLUMNS}}{text}"


def _paragraph(label: str, text: str, *, most_lines: int) -> list[str]:
    """Wrap text beside its label; what does not fit is cut and marked. Nothing for no text."""
    wrapped = textwrap.wrap(
        text, _COLUMNS - _LABEL_COLUMNS, max_lines=most_lines, placeholder=" ...", break_on_hyphens=False
    )
    return [_line(label if number == 0 else "", line) for number, line in enumerate(wrapped)]


def _defaults(defaults: Mapping[str, str]) -> str:
    """Name each key without its table, unless two tables have a key of that name."""
    short = {key: key.rpartition(".")[2] for key in defaults}
    uses = Counter(short.values())
    return ", ".join(f"{short[key] if uses[short[key]] == 1 else key} {text}" for key, text in defaults.items())


def _pairs(pairs: Mapping[str, str]) -> str:
    return "; ".join(f"{key}: {text}" for key, text in pairs.items())


def _percent(fraction: float) -> str:
    return f"{round(100 * fraction, 1) + 0.0:.1f} %"


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / 2**30:,.2f} GiB"


def _three(value: float) -> float:
    """Round to three digits below a thousand and to a whole number above."""
    return float(f"{value:.3g}") if value < 1000 else round(value)


def _wire_bytes(size_bytes: float) -> str:
    return format_bandwidth(size_bytes).removesuffix("/s")


def _exact_time(time_s: float) -> str:
    return _in_unit_of(time_s, time_s)


def _in_unit_of(whole_s: float, time_s: float) -> str:
    """Write a time with four decimals, in the unit that suits the whole, so that parts can be added by eye."""
    unit, scale = ("s", 1.0) if whole_s >= 1 else ("ms", 1e3) if whole_s >= 1e-3 else ("us", 1e6)
    return f"{time_s * scale:,.4f} {unit}"
