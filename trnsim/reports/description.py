"""A description as plain text: facts, then each value with how far it is to be trusted and where it comes from."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from trnsim.units import format_bandwidth, format_bytes, format_flops, format_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from trnsim.simulation.description import Description, Value

__all__ = ["description_text"]

_COLUMNS = 110


def description_text(description: Description) -> str:
    """Return a description for the terminal, at most 110 columns where words can be broken."""
    lines = [f"{description.kind} {description.name}", *_facts(description.facts, indent=2)]
    if description.values:
        lines += ["", "values, each with its source"]
        lines += [line for name, value in description.values.items() for line in _value(name, value)]
    if description.notes:
        lines += ["", "notes"]
        lines += [line for note in description.notes for line in _wrapped(f"- {note}", indent=2)]
    return "\n".join(lines) + "\n"


def _facts(facts: Mapping[str, Any], indent: int) -> Iterator[str]:
    """Yield facts one per line; a table of facts becomes an indented block. What says nothing is left out."""
    width = max((len(key) for key in facts), default=0)
    for key, fact in facts.items():
        if fact is None or fact in ("", [], {}):
            continue
        if isinstance(fact, Mapping):
            yield f"{'':{indent}}{key}"
            yield from _facts(fact, indent + 2)
        else:
            yield from _wrapped(f"{key:<{width}}  {_text(fact)}", indent=indent)


def _value(name: str, value: Value) -> Iterator[str]:
    """Yield a value with its range and its kind on one line, and its source below."""
    reach = ""
    if value.low is not None and value.high is not None:
        reach = f" ({_quantity(value.low, value.unit)} to {_quantity(value.high, value.unit)})"
    yield f"  {name:<44}  {_quantity(value.value, value.unit)}{reach}  [{value.kind}, read {value.read}]"
    yield from _wrapped(value.source, indent=6)


def _quantity(value: Any, unit: str) -> str:
    return _FORMATS[unit](value) if unit in _FORMATS and isinstance(value, int | float) else _text(value)


def _text(fact: Any) -> str:
    if isinstance(fact, bool):
        return "yes" if fact else "no"
    if isinstance(fact, int):
        return f"{fact:,}"
    if isinstance(fact, list | tuple):
        return ", ".join(map(_text, fact))
    return f"{fact:g}" if isinstance(fact, float) else str(fact)


def _wrapped(text: str, *, indent: int) -> list[str]:
    return textwrap.wrap(
        text,
        _COLUMNS,
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent + 2),
        break_long_words=False,
        break_on_hyphens=False,
    )


_FORMATS: dict[str, Callable[[float], str]] = {
    "B": format_bytes,
    "B/s": format_bandwidth,
    "FLOP/s": format_flops,
    "s": format_time,
}
