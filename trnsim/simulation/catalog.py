"""What comes with trnsim, by kind: the names, one line about each, and what a reference of the user stands for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

from trnsim import documents, hardware, workload
from trnsim.errors import InputError, Problem
from trnsim.record import Record
from trnsim.topology.forms import MARKS, form_of
from trnsim.units import format_bytes, format_count, format_flops

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["PLURALS", "Entry", "Kind", "Reference", "entries", "find"]

Kind = Literal["chip", "server", "topology", "model", "family", "scenario"]
"""The kinds of things that can be described."""

PLURALS: dict[str, Kind] = {
    "chips": "chip",
    "servers": "server",
    "topologies": "topology",
    "models": "model",
    "families": "family",
    "scenarios": "scenario",
}
"""The kinds as `list` spells them."""


class Entry(Record):
    """One entry of a catalog: its name, one line about it, and what it is listed under, if anything."""

    name: str
    summary: str
    group: str = ""


class Reference(Record):
    """What a user's words stand for.

    Parameters
    ----------
    kind
        What it is.
    name_or_path
        Its name in the catalog of that kind, with a variant if one was given, or the path of a file.
    """

    kind: Kind
    name_or_path: str


def names(kind: Kind) -> tuple[str, ...]:
    """Return the names of one kind, sorted; no file is read."""
    match kind:
        case "chip":
            return hardware.names("chips")
        case "server":
            return hardware.names("servers")
        case "family":
            return hardware.names("families")
        case "topology":
            return documents.names("topologies")
        case "model":
            return workload.model_names()
        case "scenario":
            return documents.names("scenarios")


def entries(kind: Kind) -> tuple[Entry, ...]:
    """Return the entries of one kind, group after group, sorted by name.

    Examples
    --------
    >>> [entry.name for entry in entries("chip") if entry.group == "AWS"]
    ['trainium1', 'trainium2', 'trainium3']
    """
    return tuple(sorted((_ENTRIES[kind](name) for name in names(kind)), key=lambda entry: entry.group))


def find(words: str) -> Reference:
    """Return what a user's words stand for: ``KIND:NAME``, the path of a file, or a name that one kind has.

    Parameters
    ----------
    words
        An existing path beats a name. Both may carry a variant: ``trn3-gen2-ultraserver@pessimistic``.

    Raises
    ------
    InputError
        If nothing has that name, with near matches; or if two kinds share it, with the spellings that settle it.

    Examples
    --------
    >>> find("trn2-ultraserver").kind, find("chip:trainium2").name_or_path
    ('server', 'trainium2')
    """
    for path in (words, words.rpartition("@")[0]):
        if (file := documents.existing(path)) is not None:
            return Reference(_kind_of_file(file), words)
    prefix, colon, name = words.partition(":")
    kind = PLURALS.get(prefix) or next((kind for kind in get_args(Kind) if kind == prefix), None)
    if colon and kind:
        return Reference(kind, name)
    if colon:
        known = documents.refuse_unknown("kind", prefix, get_args(Kind))
        raise InputError([Problem("", known)], file=words)
    return _find_name(words)


def _find_name(words: str) -> Reference:
    plain = words.partition("@")[0]
    kinds = [kind for kind in get_args(Kind) if plain in names(kind)]
    if "server" in kinds and "topology" in kinds:  # a topology with the name of a server stands for it
        kinds.remove("topology")
    if len(kinds) == 1:
        return Reference(kinds[0], words)
    if kinds:
        spellings = " or ".join(f"{kind}:{words}" for kind in kinds)
        raise InputError([Problem("", f"{' and '.join(kinds)} share this name; write {spellings}")], file=words)
    near = documents.nearest(plain, {name: None for kind in get_args(Kind) for name in names(kind)})
    hint = f"did you mean {' or '.join(near)}?" if near else "`trnsim list KIND` shows the names of a kind"
    raise InputError([Problem("", f"no such file, and nothing in the catalog has this name; {hint}")], file=words)


def _kind_of_file(path: Path) -> Kind:
    """Tell the kind of a file by what is in it."""
    data = documents.read_document(path).data
    marks: dict[str, Kind] = {
        "schema": "scenario",
        "model_type": "model",
        "architectures": "model",
        "hidden_size": "model",
        "memory_bandwidth": "chip",
        "chips_per_host": "server",
        "gemm_efficiency": "family",
        **dict.fromkeys(MARKS, "topology"),
    }
    for mark, kind in marks.items():
        if mark in data:
            return kind
    rule = f"not a kind of file that trnsim knows; none of the keys that tell them apart is there: {', '.join(marks)}"
    raise InputError([Problem("", rule)], file=str(path))


def _chip(name: str) -> Entry:
    chip = hardware.load_chip(name)
    peaks = ", ".join(f"{dtype} {format_flops(peak.value)}" for dtype, peak in chip.peak_flops_per_s.items())
    cores = f"{chip.neuron_cores.count} NeuronCores, " if chip.neuron_cores else ""
    summary = f"{cores}{format_bytes(chip.memory_bytes.value)}, {peaks}{_variants(chip)}"
    return Entry(name, summary, chip.maker)


def _server(name: str) -> Entry:
    server = hardware.load_server(name)
    hosts = f"{server.hosts} host{'' if server.hosts == 1 else 's'}"
    scale_out = "" if server.scale_out else ", not one of several"
    summary = f"{server.chips} x {server.chip.name}, {hosts}{scale_out}{_variants(server)}"
    return Entry(name, summary, server.chip.maker)


def _family(name: str) -> Entry:
    family = hardware.load_family(name)
    rows = f"{family.measured_rows} measured step{'' if family.measured_rows == 1 else 's'}"
    return Entry(
        name,
        f"for {', '.join(family.chips)}; GEMM efficiency {family.gemm_efficiency.value:g}, {rows}{_variants(family)}",
    )


def _model(name: str) -> Entry:
    model = workload.load_model(name)
    active = "" if model.mixture is None else f" ({format_count(model.active_parameters)} active)"
    size = f"{format_count(model.parameters)} parameters{active}"
    return Entry(name, f"{size}, {model.layers} layers, hidden {model.hidden_size:,}")


def _topology(name: str) -> Entry:
    document = documents.read_document(documents.locate("topologies", name))
    return Entry(name, str(document.data["description"]), form_of(document) or "")


def _scenario(name: str) -> Entry:
    return Entry(name, str(documents.read_document(documents.locate("scenarios", name)).data.get("name", "")))


def _variants(spec: hardware.Chip | hardware.Server | hardware.SoftwareFamily) -> str:
    return f"; variants @{', @'.join(spec.variants)}" if spec.variants else ""


_ENTRIES: dict[Kind, Callable[[str], Entry]] = {
    "chip": _chip,
    "server": _server,
    "topology": _topology,
    "model": _model,
    "family": _family,
    "scenario": _scenario,
}
