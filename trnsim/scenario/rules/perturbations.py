"""Perturbations: what they name exists, is of a size that there is, and leaves the cluster in one piece."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from trnsim.documents import canonical, refuse_unknown
from trnsim.scenario.rules.rule import Rule
from trnsim.topology import FabricTopology
from trnsim.topology.detours import cut_off
from trnsim.topology.perturbations import Perturbation, impair
from trnsim.topology.places import CHIPS, Places

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnsim.errors import Problem
    from trnsim.scenario.draft import Draft
    from trnsim.scenario.perturbation_table import PerturbationTable

__all__ = ["RULES", "perturbations_of", "places_of", "strikes_links"]


class _Entry(NamedTuple):
    """An entry and the path of its table."""

    key: str
    table: PerturbationTable


def places_of(draft: Draft) -> Places | None:
    """Return the places of a draft's cluster; None where it has no valid machine."""
    server, cluster, fabric = draft.server, draft.file.cluster, draft.fabric
    if server is None:
        return None
    if cluster.servers == 1:
        return Places(server, 1, None)
    if fabric is None or server.scale_out is None or fabric.problem(server.chips, cluster.servers) is not None:
        return None
    return Places(server, cluster.servers, FabricTopology(fabric, server, cluster.servers))


def perturbations_of(draft: Draft, places: Places) -> tuple[Perturbation, ...]:
    """Return the perturbations of a draft that has no problem."""
    return tuple(_resolved(entry.table, places) for entry in _entries(draft))


def strikes_links(draft: Draft) -> list[str]:
    """Return the tables that are about links and not about chips."""
    places = places_of(draft)
    return [] if places is None else [key for key, table in _entries(draft) if _of(table, places) != CHIPS]


def _entries(draft: Draft) -> list[_Entry]:
    return [_Entry(f"perturbations[{number}]", table) for number, table in enumerate(draft.file.perturbations or ())]


def _resolved(table: PerturbationTable, places: Places) -> Perturbation:
    of = _of(table, places)
    each = _each(table, places)
    count = table.count or (0 if table.fraction is None else round(table.fraction * places.count(each)))
    speed = table.speed or 0.0
    return Perturbation(table.name, of, speed, tuple(table.at or ()), count, each)


def _of(table: PerturbationTable, places: Places) -> str:
    known = {canonical(name): name for name in (CHIPS, *places.link_kinds)}
    return known.get(canonical(table.of), table.of)


def _each(table: PerturbationTable, places: Places) -> str:
    of = _of(table, places)
    return (table.each or ("chip" if of in (CHIPS, places.nic) else of)).casefold()


def entries_are_sound(draft: Draft) -> Iterator[Problem]:
    """Each entry says once what, how much and where, in words that the machine knows."""
    places, entries = places_of(draft), _entries(draft)
    if places is None:
        return
    names = Counter(entry.table.name for entry in entries)
    for entry in entries:
        if names[entry.table.name] > 1:
            yield draft.document.problem(f"{entry.key}.name", "stands there twice; names tell perturbations apart")
        problems = [*_what(draft, entry, places), *_how_much(draft, entry), *_how_many(draft, entry)]
        yield from problems or _where(draft, entry, places)


def _what(draft: Draft, entry: _Entry, places: Places) -> Iterator[Problem]:
    table, of = entry.table, _of(entry.table, places)
    known = (CHIPS, *places.link_kinds)
    if of not in known:
        message = refuse_unknown("kind of chips or links", table.of, known)
        if places.servers == 1 and canonical(table.of) in map(canonical, _between_servers(draft)):
            message = f"there is one server, and {table.of} joins servers; known: {', '.join(known)}"
        yield draft.document.problem(f"{entry.key}.of", message)
    elif table.each is not None and (table.each.casefold() not in places.sizes or of in places.trunks):
        units = (
            "leave it out: switch groups are drawn" if of in places.trunks else f"choose from {', '.join(places.sizes)}"
        )
        yield draft.document.problem(f"{entry.key}.each", f"{places.server.name} has no such places; {units}")


def _between_servers(draft: Draft) -> Iterator[str]:
    """Yield the kinds of links that join several servers."""
    if draft.server is not None and draft.server.scale_out is not None:
        yield draft.server.scale_out.kind
    if draft.fabric is not None:
        yield from (f"{lower.name}-{upper.name}" for lower, upper in pairwise(draft.fabric.tiers))


def _how_much(draft: Draft, entry: _Entry) -> Iterator[Problem]:
    table = entry.table
    if table.failed and canonical(table.of) == CHIPS:
        message = "a chip that does nothing stops the job; give it a speed, or leave its server out of the cluster"
        yield draft.document.problem(f"{entry.key}.failed", message)
    elif table.failed == (table.speed is not None):
        both = "both are given" if table.failed else "neither is given"
        yield draft.document.problem(entry.key, f"either speed or failed: true is due; {both}", value=None)


def _how_many(draft: Draft, entry: _Entry) -> Iterator[Problem]:
    table = entry.table
    given = [key for key in ("at", "count", "fraction") if getattr(table, key) is not None]
    if len(given) != 1:
        message = f"one of at, count and fraction is due; given: {', '.join(given) or 'none'}"
        yield draft.document.problem(entry.key, message, value=None)
    elif given == ["at"] and not table.at:
        yield draft.document.problem(f"{entry.key}.at", "an empty list; at least one place is due in it")
    elif given == ["at"] and table.each is not None:
        yield draft.document.problem(f"{entry.key}.each", "places are named, and nothing is drawn; leave it out")


def _where(draft: Draft, entry: _Entry, places: Places) -> Iterator[Problem]:
    table, found = entry.table, _resolved(entry.table, places)
    units = places.count(found.each)
    if table.fraction is not None and not found.count:
        message = f"{table.fraction:g} x {units:,} rounds to none; 1 of them is {1 / units:.2g}"
        yield draft.document.problem(f"{entry.key}.fraction", message)
    elif found.count > units:
        message = f"there are {units:,} to draw from"
        yield draft.document.problem(f"{entry.key}.count", message)
    for number, place in enumerate(found.at):
        try:
            impair([Perturbation(found.name, found.of, 1.0, (place,), 0, found.each)], places, seed=0)
        except ValueError as error:
            yield draft.document.problem(f"{entry.key}.at[{number}]", str(error))


def cluster_stays_whole(draft: Draft) -> Iterator[Problem]:
    """Links that have failed leave a way from every chip to every other."""
    places = places_of(draft)
    if places is None or not any(entry.table.failed for entry in _entries(draft)) or [*entries_are_sound(draft)]:
        return
    for entry in _entries(draft):
        if entry.table.failed:
            found, _ = impair([_resolved(entry.table, places)], places, draft.file.run.seed)
            if lost := cut_off(found, places):
                yield draft.document.problem(entry.key, f"cuts the cluster in two: {lost}", value=None)
                return
    found, _ = impair(perturbations_of(draft, places), places, draft.file.run.seed)
    if lost := cut_off(found, places):
        yield draft.document.problem("perturbations", f"together they cut the cluster in two: {lost}", value=None)


_KEYS = ("perturbations", "cluster.server", "cluster.servers", "cluster.fabric", "run.seed")
RULES = (Rule(_KEYS, entries_are_sound), Rule(_KEYS, cluster_stays_whole))
