"""What an import has to say for itself: choices, keys left out, keys not understood."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnsim.scenario.imports.translation import Translation

__all__ = ["lines_of_the_rest", "report_lines"]

_WIDTH = 116


def report_lines(translation: Translation) -> tuple[str, ...]:
    """Return what the head of a scenario says of its origin."""
    return tuple(_sections(translation))


def lines_of_the_rest(translation: Translation) -> tuple[str, ...]:
    """Return what only the terminal says: the keys that do not change a step, by what they are about."""
    return tuple(_section("understood, without effect on a step", list(_grouped(translation))))


def _sections(translation: Translation) -> Iterator[str]:
    choices = [*translation.remarks]
    choices += [f"{key} = {_value(translation.entries[key])}: {why}" for key, why in translation.choices.items()]
    yield from _section("choices", choices)
    left_out = [f"{translation.shown(key)}: {what}" for key, what in translation.not_modelled.items()]
    yield from _section("understood and left out, as not modelled", left_out)
    unknown = [
        f"{translation.shown(key)}" + (f"; did you mean {near}?" if near else "")
        for key, near in translation.unknown.items()
    ]
    yield from _section("not understood", unknown)


def _section(title: str, lines: list[str]) -> Iterator[str]:
    yield f"{title}:" if lines else f"{title}: none"
    for line in lines:
        yield from textwrap.wrap(
            line, _WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False, break_long_words=False
        )


def _grouped(translation: Translation) -> Iterator[str]:
    """Yield one line for every reason, with all its keys."""
    by_reason: dict[str, list[str]] = {}
    for key, what in translation.without_effect.items():
        by_reason.setdefault(what, []).append(translation.name(key))
    for what, keys in by_reason.items():
        yield f"{what}: {', '.join(keys)}"


def _value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"[{', '.join(map(str, value))}]" if isinstance(value, list) else str(value)
