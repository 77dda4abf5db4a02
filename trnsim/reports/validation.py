"""Predicted beside measured steps, for the terminal: errors set by set, what was left out, what was assumed."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final

from trnsim.reports.columns import aligned
from trnsim.units import format_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from trnsim.study.validation import Validation
    from trnsim.study.validation.scores import Errors, Score

__all__ = ["rows_text", "validation_text"]

_COLUMNS: Final = 110
_WORDS: Final = frozenset({"set", "peers", "row", "regime"})
_HEAD: Final = ["set", "rows", "simulated", "mean", "median", "max", "bias", "baseline", "peers"]
_MEANINGS: Final = (
    "mean, median, max: absolute error of step time, predicted over measured less 1, in percent; bias: its median, with "
    "the sign; baseline: mean error of one constant efficiency for each set with the bubble of the pipeline, fitted on the "
    "calibration rows that come with trnsim: of the set, or, with fewer than two, of other sets, those with its chip before "
    "those of its maker; peers: mean error that others state"
)


def validation_text(found: Validation) -> str:
    """Return the errors of each set; below them what was skipped and why, spread of releases, and what was assumed."""
    sets = found.sets()
    table = [_HEAD, *(_cells(name, score, _peers(found, name)) for name, score in sets.items())]
    lines = [
        *aligned(table, _WORDS),
        "",
        *textwrap.wrap(_MEANINGS, _COLUMNS),
        *_skipped(sets),
        *_other_rows(found),
        *_releases(found),
        *_assumed(found),
    ]
    return "\n".join(lines) + "\n"


def rows_text(found: Validation) -> str:
    """Return each simulated step; the band is the mean error, in percent, that its family states for the regime."""
    head = ["row", "set", "measured", "predicted", "error", "band", "regime"]
    rows = [
        [
            one.measurement.row.id,
            one.measurement.row.group,
            format_time(one.measurement.time_s),
            format_time(one.time_s),
            f"{100 * one.error:+.1f}",
            "-" if one.band is None else f"{100 * one.band:.1f}",
            one.regime,
        ]
        for one in found.predictions
    ]
    return "\n".join(["", *aligned([head, *rows], _WORDS)]) + "\n"


def _cells(name: str, score: Score, peers: str) -> list[str]:
    baseline = "-" if score.baseline is None else f"{100 * score.baseline.mean:.1f}"
    return [name, f"{score.rows:,}", f"{score.simulated:,}", *_percents(score.errors), baseline, peers]


def _percents(errors: Errors | None) -> list[str]:
    if errors is None:
        return ["-"] * 4
    sizes = [f"{100 * each:.2f}" for each in (errors.mean, errors.median, errors.largest)]
    return [*sizes, f"{100 * errors.bias:+.2f}"]


def _peers(found: Validation, name: str) -> str:
    group = found.known.get(name)
    return ", ".join(f"{peer} {stated.mape_percent:g}" for peer, stated in group.peers.items()) if group else ""


def _skipped(sets: dict[str, Score]) -> Iterator[str]:
    """Yield what could not be simulated; the parts of a set repeat it, and are left out."""
    if not any(score.skipped for score in sets.values()):
        return
    yield from ("", "skipped steps")
    for name, score in sets.items():
        if score.skipped:
            yield f"  {name}"
            yield from _counted(score.skipped, "    ")


def _other_rows(found: Validation) -> Iterator[str]:
    if others := found.other_rows():
        yield from ("", "rows that are no steps")
        yield from _counted(others, "  ")


def _counted(reasons: Mapping[str, int], indent: str) -> Iterator[str]:
    for reason, count in reasons.items():
        line = f"{count:>5}  {reason}"
        yield from textwrap.wrap(line, _COLUMNS, initial_indent=indent, subsequent_indent=f"{indent}       ")


def _releases(found: Validation) -> Iterator[str]:
    """Yield how far the release of the software alone moves a step."""
    for position, each in enumerate(found.releases()):
        if position == 0:
            yield from ("", "measured with older releases, over the time with the newest")
        spread = f"{each.least:.3f} to {each.most:.3f} in {each.rows} row{'s' if each.rows > 1 else ''}"
        yield f"  {each.group}: {each.configuration}: {spread}; newest {each.newest}"


def _assumed(found: Validation) -> Iterator[str]:
    """Yield what the rows of each set leave open, and what stands for it."""
    for position, (name, texts) in enumerate(found.assumed().items()):
        if position == 0:
            yield from ("", "assumed")
        yield f"  {name}"
        for text in texts:
            yield from textwrap.wrap(text, _COLUMNS, initial_indent="    - ", subsequent_indent="      ")
