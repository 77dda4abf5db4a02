"""Everything that trnsim knows about one thing: a scenario, chip, server, topology, software family or model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from trnsim import documents, hardware, topology, workload
from trnsim import scenario as scenarios
from trnsim.hardware import every_value
from trnsim.record import Record
from trnsim.simulation.assumptions import assumptions
from trnsim.simulation.catalog import Kind, find
from trnsim.simulation.machine import build_machine
from trnsim.topology.forms import form_of

if TYPE_CHECKING:
    from trnsim.hardware import Sourced

__all__ = ["Description", "Value", "describe"]


class Value(Record):
    """One value with its source.

    Parameters
    ----------
    value
        Number, text or tuple; SI.
    unit
        ``B``, ``B/s``, ``FLOP/s``, ``s``, ``fraction``, or empty for counts and text.
    kind, source, read
        How far it is to be trusted, where it comes from, and when that was read.
    low, high
        Range that the source allows, where it gives one.
    """

    value: Any
    unit: str
    kind: str
    source: str
    read: str
    low: Any
    high: Any


class Description(Record):
    """What is known about one thing.

    Parameters
    ----------
    kind, name
        What it is and what it is called.
    facts
        Plain facts by key: numbers, text, lists and tables of them.
    values
        Values with their sources, by dotted name.
    notes
        What a reader of the numbers should know.
    """

    kind: Kind
    name: str
    facts: Mapping[str, Any]
    values: Mapping[str, Value]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document: the facts are keys at its top."""
        return {
            "kind": self.kind,
            "name": self.name,
            **self.facts,
            "values": {name: _plain(value) for name, value in self.values.items()},
            "notes": list(self.notes),
        }


def describe(words: str) -> Description:
    """Describe what a user's words stand for.

    Parameters
    ----------
    words
        The path of a file, a name, or ``KIND:NAME`` with one of the kinds scenario, chip, server, topology, family, model.

    Raises
    ------
    InputError
        If nothing has that name, two kinds share it, or the file breaks rules.

    Examples
    --------
    >>> describe("llama3.1-405b").facts["parameters"]
    405853388800
    >>> describe("chip:trainium2").values["memory_bytes"].kind
    'official'
    """
    reference = find(words)
    name = reference.name_or_path
    match reference.kind:
        case "chip":
            return _chip(hardware.load_chip(name))
        case "server":
            return _server(hardware.load_server(name))
        case "family":
            return _family(hardware.load_family(name))
        case "topology":
            return _topology(name)
        case "model":
            return _model(workload.load_model(name))
        case "scenario":
            return _scenario(scenarios.load(name))


def _chip(chip: hardware.Chip) -> Description:
    cores = chip.neuron_cores
    facts = {
        "maker": chip.maker,
        "software_family": chip.software_family,
        **({"logical_cores_by_lnc": {str(lnc): chip.logical_cores(lnc) for lnc in cores.lnc}} if cores else {}),
        "variants": dict(chip.variants),
    }
    return Description("chip", chip.name, facts, _values(chip), chip.notes)


def _server(server: hardware.Server) -> Description:
    facts = {
        "chip": server.chip.name,
        "chips": server.chips,
        "hosts": server.hosts,
        "scale_up": type(server.scale_up).__name__.removesuffix("ScaleUp").lower(),
        "counted": topology.server_topology(server).facts(),
        "variants": dict(server.variants),
    }
    values = {name: value for name, value in _values(server).items() if not name.startswith("chip.")}
    return Description("server", server.name, facts, values, server.notes)


def _family(family: hardware.SoftwareFamily) -> Description:
    facts = {"chips": list(family.chips), "variants": dict(family.variants)}
    error = () if family.error_fraction else ("no measurement outside the fit: its error is not known",)
    return Description("family", family.name, facts, _values(family), (*family.notes, *error))


def _topology(name: str) -> Description:
    form = form_of(documents.read_document(documents.locate("topologies", name)))
    if form == "fabric":
        return _fabric(topology.load_fabric(name))
    from trnsim.topology.network_facts import network_facts
    from trnsim.topology.network_files import load_graph, server_of

    if form == "server":
        return replace(_server(server_of(name)), kind="topology")
    graph = load_graph(name)
    facts = {"description": graph.description, "counted": network_facts(graph.network())}
    return Description("topology", graph.name, facts, _values(graph), graph.notes)


def _fabric(fabric: topology.FabricSpec) -> Description:
    facts = {"description": fabric.description, "counted": fabric.facts()}
    return Description("topology", fabric.name, facts, _values(fabric), fabric.notes)


def _model(model: workload.Transformer) -> Description:
    counted = {
        "parameters": model.parameters,
        "active_parameters": model.active_parameters,
        "matmul_parameters": model.matmul_parameters,
    }
    shape = {key: value for key, value in _plain(model).items() if key not in {"name", "notes"}}
    refused = () if model.mixture is None else ("a mixture of experts: counted here, not modelled by `trnsim run` yet",)
    return Description("model", model.name, counted | shape, {}, (*model.notes, *refused))


def _scenario(scenario: scenarios.Scenario) -> Description:
    cluster = scenario.cluster
    facts = {
        "file": str(scenario.source),
        "ranks": scenario.ranks,
        "ranks_per_chip": scenario.ranks_per_chip,
        "microbatches": scenario.microbatches,
        "tokens": scenario.tokens,
        "cluster": {
            "server": cluster.server.name,
            "servers": cluster.servers,
            "chips": cluster.chips,
            "hosts": cluster.hosts,
            "fabric": cluster.fabric.name if cluster.fabric else None,
            "lnc": cluster.lnc,
            "allow_idle": cluster.allow_idle,
            "software": cluster.software.name,
        },
        "model": {"name": scenario.model.name, "parameters": scenario.model.parameters},
        **{part: _plain(getattr(scenario, part)) for part in ("training", "layout", "schedule", "collectives", "run")},
        "perturbations": _plain(scenario.perturbations),
        "cohorts": _cohorts(scenario),
        "derived": dict(scenario.derived),
        "defaults": dict(scenario.defaults),
        "warnings": list(scenario.warnings),
        "assumptions": _plain(assumptions(scenario)),
    }
    return Description("scenario", scenario.name, facts, {}, ())


_MOST_COHORTS = 200


def _cohorts(scenario: scenarios.Scenario) -> dict[str, str]:
    """Describe the ranks that a run of the scenario takes to be alike, by the first of them."""
    from trnsim.simulation.perturbed import cohorts_of
    from trnsim.simulation.simulated import sort_ranks

    machine = build_machine(scenario)
    found = list(cohorts_of(sort_ranks(scenario, machine), machine.mesh))
    more = len(found) - _MOST_COHORTS
    return dict(found[:_MOST_COHORTS]) | ({"and": f"{more:,} more"} if more > 0 else {})


def _values(spec: object) -> dict[str, Value]:
    return {name: _value(name, value) for name, value in every_value(spec)}


def _value(name: str, sourced: Sourced[Any]) -> Value:
    return Value(
        value=sourced.value,
        unit=_unit(name),
        kind=sourced.kind,
        source=sourced.source,
        read=sourced.read,
        low=sourced.low,
        high=sourced.high,
    )


def _unit(name: str) -> str:
    """Read the unit off a dotted name: the first of its endings, from the last step back, that says one."""
    endings = {"_bytes_per_s": "B/s", "_flops_per_s": "FLOP/s", "_bytes": "B", "_s": "s", "_fraction": "fraction"}
    for step in reversed(name.split(".")):
        for ending, unit in endings.items():
            if step.endswith(ending):
                return unit
    return ""


def _plain(value: Any) -> Any:
    """Turn records, mappings, sets and paths into what JSON can say; sets are sorted."""
    if isinstance(value, Record):
        return {name: _plain(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, frozenset | set):
        return sorted(_plain(item) for item in value)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value
