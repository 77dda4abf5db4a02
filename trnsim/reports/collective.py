"""A collective as the table that nccl-tests and nccom-test print, and beside a log."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from trnsim.reports.columns import aligned
from trnsim.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trnsim.fabric.explanation import Explanation, PhaseShare
    from trnsim.results.collective_times import CollectiveTime, CollectiveTimes
    from trnsim.study.log_comparison import LogComparison

__all__ = ["collective_text", "comparison_with_log_text"]

_FACTORS = {
    "all-reduce": "2(N-1)/N",
    "all-gather": "(N-1)/N",
    "reduce-scatter": "(N-1)/N",
    "all-to-all": "(N-1)/N",
}


def collective_text(times: CollectiveTimes) -> str:
    """Return the table of a collective for the terminal: one line per size, and what `auto` had to choose from."""
    table = aligned([_HEAD, *(_cells(row) for row in times.rows)], _TEXTS)
    lines = [_title(times), *_conventions(times), "", *table, *_why(times.rows), *_remarks(times)]
    return "\n".join(lines) + "\n"


def comparison_with_log_text(comparison: LogComparison) -> str:
    """Return measured and simulated times for the terminal: one line per row of the log, then the error and what was skipped."""
    times = comparison.times
    rows = [
        [
            str(row.bytes),
            row.algorithm,
            _microseconds(row.measured_s),
            _microseconds(row.time_s),
            f"{100 * row.error_fraction:+.1f} %",
        ]
        for row in comparison.rows
    ]
    head = ["bytes", "algorithm", "measured (us)", "simulated (us)", "error"]
    lines = [
        f"{_title(times)}, beside {comparison.log}",
        "",
        *aligned([head, *rows], _TEXTS),
        "",
        f"median error without sign: {100 * comparison.median_error_fraction:.1f} % of {_rows(len(rows))}",
        *(f"note: {note}" for note in comparison.notes),
        *(f"skipped line {skipped.line}: {skipped.reason}" for skipped in comparison.skipped),
        *_remarks(times),
    ]
    return "\n".join(lines) + "\n"


_HEAD = ["bytes", "algorithm", "time (us)", "algbw (GB/s)", "busbw (GB/s)", "bound (us)", "bound by"]
_TEXTS = frozenset({"algorithm", "bound by", "busiest link", "who sends to whom"})
_PHASES_SHOWN = 5


def _cells(row: CollectiveTime) -> list[str]:
    return [
        str(row.bytes),
        row.algorithm,
        _microseconds(row.time_s),
        _gigabytes_per_s(row.algbw_bytes_per_s),
        _gigabytes_per_s(row.busbw_bytes_per_s),
        _microseconds(row.bound_s),
        row.bound_by,
    ]


def _title(times: CollectiveTimes) -> str:
    ranks = times.provenance["ranks"]
    where = f"{times.provenance['described']}: {ranks:,} rank{'' if ranks == 1 else 's'}"
    return f"{times.op} on {where}, {times.rows[0].fidelity.replace('_', ' ')}"


def _conventions(times: CollectiveTimes) -> list[str]:
    factor = _FACTORS.get(times.op)
    rule = f"algbw x {factor}, here {times.bus_factor:.4g}" if factor else "algbw"
    return [
        "bytes: larger of one rank's input and output; GB = 1e9 bytes",
        f"busbw = {rule}: the ring convention of nccl-tests and nccom-test",
    ]


def _why(rows: Sequence[CollectiveTime]) -> Iterator[str]:
    """Yield why `auto` took what it took: for each run of sizes with one algorithm, the next best at its ends."""
    if not any(row.rivals for row in rows):
        return
    yield ""
    for name, run in groupby(rows, key=lambda row: row.algorithm):
        of_name = list(run)
        ends = [of_name[0], *of_name[-1:]] if len(of_name) > 1 else of_name
        sizes = " to ".join(format_bytes(row.bytes) for row in ends)
        yield f"auto took {name} for {sizes}: {', '.join(map(_runner_up, ends))}"


def _runner_up(row: CollectiveTime) -> str:
    if not row.rivals:
        return "nothing else would do"
    rival = row.rivals[0]
    ratio = f"{rival.time_s / row.time_s:.2f} x" if row.time_s else "no less"
    return f"{rival.name} takes {'at least ' if rival.at_least else ''}{ratio} at {format_bytes(row.bytes)}"


def _remarks(times: CollectiveTimes) -> Iterator[str]:
    yield from (f"note: {note}" for note in times.notes)
    yield from (f"warning: {warning}" for warning in times.warnings)


def _microseconds(time_s: float) -> str:
    return f"{time_s * 1e6:.2f}"


def _gigabytes_per_s(rate: float | None) -> str:
    return "-" if rate is None else f"{rate / 1e9:.2f}"


def _rows(count: int) -> str:
    return f"{count} row{'' if count == 1 else 's'}"


def explanation_text(times: CollectiveTimes) -> str:
    """Return the program of the largest size for the terminal; nothing where nobody asked for it."""
    found = times.explanation
    if found is None:
        return ""
    row, bounds = times.rows[-1], found.bounds
    phases = f"{len(found.phases)} phase{'' if len(found.phases) == 1 else 's'}"
    carried = ", ".join(f"{kind} {size:.0f}" for kind, size in found.bytes_by_kind.items()) or "none"
    least = {"endpoint": bounds.endpoint_s, "bisection": bounds.bisection_s, "latency": bounds.latency_s}
    lines = [
        "",
        f"the program of {row.algorithm} at {format_bytes(row.bytes)}: {found.steps:,} steps in {phases}",
        *(f"  {line}" for line in aligned(_phase_cells(found.phases), _TEXTS)),
        f"bytes over all links: {carried}",
        *_busiest(found),
        f"lower bounds (us): {', '.join(f'{name} {_microseconds(bound_s)}' for name, bound_s in least.items())}",
        f"the program takes {found.above_bound:.4f} x the largest of them",
    ]
    return "\n".join(lines) + "\n"


def _busiest(found: Explanation) -> Iterator[str]:
    """Yield which link is busy longest, and for how much of the time."""
    if found.busiest is not None and found.time_s:
        phase = found.busiest
        share = 100 * phase.steps * phase.busiest_s / found.time_s
        carried = f"{phase.steps * phase.busiest_bytes:.0f} bytes in phase {found.phases.index(phase) + 1}"
        yield f"busiest link: {phase.busiest_link} ({phase.busiest_kind}), {carried}, {share:.1f} % of the whole time"


def _phase_cells(phases: Sequence[PhaseShare]) -> list[list[str]]:
    """Return one row per phase; of many phases the first and the last."""
    cells = [["phase", "steps", "step (us)", "bytes on it", "busiest link", "who sends to whom"]]
    for number, phase in enumerate(phases, start=1):
        if _PHASES_SHOWN < number <= len(phases) - _PHASES_SHOWN:
            if number == _PHASES_SHOWN + 1:
                cells.append(["...", "", "", "", "", f"{len(phases) - 2 * _PHASES_SHOWN} more"])
            continue
        link = f"{phase.busiest_link} ({phase.busiest_kind})" if phase.busiest_link else "none"
        moves = f"{phase.moves[0]}{f' and {len(phase.moves) - 1} more' if len(phase.moves) > 1 else ''}"
        cells.append(
            [str(number), str(phase.steps), _microseconds(phase.step_s), f"{phase.busiest_bytes:.0f}", link, moves]
        )
    return cells
