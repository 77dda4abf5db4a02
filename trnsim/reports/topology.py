"""Counted facts of a network as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsim.units import format_bandwidth, format_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnsim.results.topology_facts import LinkKind, TopologyFacts

__all__ = ["topology_text"]


def topology_text(facts: TopologyFacts) -> str:
    """Return the facts of a network for the terminal: counts, kinds of links, diameter, bisection."""
    rows = [*_counts(facts), ("diameter", _diameter(facts)), ("bisection", _bisection(facts))]
    if facts.reduces:
        rows.append(("switches", "add what passes through them"))
    width = max(len(name) for name, _ in rows)
    lines = [facts.described, *(f"  {name:<{width}}  {value}" for name, value in rows)]
    lines += [f"note: {note}" for note in facts.notes]
    lines += [f"warning: {warning}" for warning in facts.warnings]
    return "\n".join(lines) + "\n"


def _counts(facts: TopologyFacts) -> Iterator[tuple[str, str]]:
    for name, value in facts.counted.items():
        yield name, f"{value:,}" if isinstance(value, int) else value
    yield "places for ranks", f"{facts.endpoints:,}"
    yield "links, one per direction", f"{sum(kind.links for kind in facts.links.values()):,}"
    for name, kind in facts.links.items():
        yield f"  {name}", _kind(kind)


def _kind(kind: LinkKind) -> str:
    slowest, fastest = format_bandwidth(kind.slowest_bytes_per_s), format_bandwidth(kind.fastest_bytes_per_s)
    rate = slowest if kind.slowest_bytes_per_s == kind.fastest_bytes_per_s else f"{slowest} to {fastest}"
    return f"{kind.links:,} of {rate} in its direction, {format_time(kind.latency_s)}"


def _diameter(facts: TopologyFacts) -> str:
    at_least = "" if facts.diameter_is_exact else "at least "
    return f"{at_least}{facts.diameter_links} links, {at_least}{format_time(facts.diameter_latency_s)}"


def _bisection(facts: TopologyFacts) -> str:
    if facts.bisection_bytes_per_s is None:
        return "not known: too many links to search, and no formula"
    at_most = "" if facts.bisection_is_exact else "at most "
    return f"{at_most}{format_bandwidth(facts.bisection_bytes_per_s)} in one direction, {facts.bisection_cut}"
