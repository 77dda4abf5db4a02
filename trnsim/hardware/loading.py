"""From catalog files to specifications."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from trnsim.errors import InputError
from trnsim.hardware.catalog_files import Entry, from_anywhere, open_entry
from trnsim.hardware.chip import Chip, NeuronCores
from trnsim.hardware.rules import link_names, problems_of_chip, problems_of_server
from trnsim.hardware.schema import (
    ChipFile,
    FamilyFile,
    InstanceUseTable,
    LinkTable,
    NeuronCoresTable,
    PeakTable,
    ServerFile,
    StarTable,
    SwitchedTable,
    TorusTable,
)
from trnsim.hardware.server import (
    InstanceUse,
    LinkClass,
    NoScaleUp,
    ScaleUp,
    Server,
    StarScaleUp,
    SwitchedScaleUp,
    TorusScaleUp,
)
from trnsim.hardware.software import SoftwareFamily

if TYPE_CHECKING:
    from pathlib import Path

    from trnsim.hardware.schema import SourcedValue
    from trnsim.hardware.sourced import Sourced

__all__ = ["family_for", "family_text", "load_chip", "load_family", "load_server"]


def load_chip(name_or_path: str, relative_to: Path | None = None) -> Chip:
    """Read a chip.

    Parameters
    ----------
    name_or_path
        ``trainium2``, ``trainium2@nki-guide``, or the path of a file, likewise with a variant. An existing path beats
        a name.
    relative_to
        Folder to which a path is relative; by default the working directory.

    Raises
    ------
    InputError
        With every problem of the file, or with near matches of an unknown name.

    Examples
    --------
    >>> load_chip("trainium3").memory_bytes.value == 144 * 2**30
    True
    """
    entry = open_entry("chips", name_or_path, ChipFile, relative_to)
    entry.refuse(list(problems_of_chip(entry.document, entry.file)))
    file = entry.file
    return Chip(
        name=entry.name,
        maker=file.maker,
        neuron_cores=None if file.neuron_cores is None else _neuron_cores(entry, file.neuron_cores),
        peak_flops_per_s=_peaks(entry, file.peak),
        tensor_engine_flops_per_s={} if file.tensor_engine_peak is None else _peaks(entry, file.tensor_engine_peak),
        memory_bytes=entry.sourced(file.memory),
        memory_bandwidth_bytes_per_s=entry.sourced(file.memory_bandwidth),
        usable_memory_fraction=entry.sourced(file.usable_memory_fraction),
        software_family=_family_of(entry),
        facts=entry.each_sourced(file.facts),
        variants=entry.variants,
        notes=tuple(file.notes),
    )


def load_server(name_or_path: str, relative_to: Path | None = None) -> Server:
    """Read a server and its chip.

    Parameters
    ----------
    name_or_path
        ``trn2-ultraserver``, ``trn3-gen2-ultraserver@pessimistic``, or the path of a file, likewise with a variant. An
        existing path beats a name.
    relative_to
        Folder to which a path is relative; by default the working directory.

    Raises
    ------
    InputError
        With every problem of the file or of the chip's file, or with near matches of an unknown name.

    Examples
    --------
    >>> server = load_server("trn3-gen2-ultraserver")
    >>> server.chips, server.hosts, server.chip.name
    (144, 36, 'trainium3')
    """
    entry = open_entry("servers", name_or_path, ServerFile, relative_to)
    entry.refuse(list(problems_of_server(entry.document, entry.file)))
    file = entry.file
    order = None if file.ring_chip_order is None else tuple(file.ring_chip_order.value)
    per_host = file.chips_per_host.value
    return Server(
        name=entry.name,
        chip=_chip_of(entry),
        chips=file.chips.value,
        chips_per_host=per_host,
        instance_use=None if file.instance_use is None else _instance_use(file.instance_use),
        scale_up=_scale_up(entry),
        scale_out=None if file.scale_out is None else _link(entry, file.scale_out.kind, file.scale_out),
        host_bandwidth_bytes_per_s=entry.optional(file.host_bandwidth),
        ring_chip_order=order
        and tuple(first + chip for first in range(0, file.chips.value, per_host) for chip in order),
        basis=_server_basis(entry),
        facts=entry.each_sourced(file.facts),
        variants=entry.variants,
        notes=tuple(file.notes),
    )


def load_family(name_or_path: str, relative_to: Path | None = None) -> SoftwareFamily:
    """Read a software family.

    Parameters
    ----------
    name_or_path
        ``neuron-trn2``, ``neuron-trn1@selective``, or the path of a file, likewise with a variant. An existing path beats a name.
    relative_to
        Folder to which a path is relative; by default the working directory.

    Raises
    ------
    InputError
        With every problem of the file, or with near matches of an unknown name.

    Examples
    --------
    >>> load_family("neuron-trn1").gemm_efficiency.value
    0.754
    """
    entry = open_entry("families", name_or_path, FamilyFile, relative_to)
    file = entry.file
    return SoftwareFamily(
        name=entry.name,
        chips=tuple(file.chips),
        gemm_efficiency=entry.sourced(file.gemm_efficiency),
        attention_time_ratio=entry.sourced(file.attention_time_ratio),
        attention_backward_ratio=entry.optional(file.attention_backward_ratio),
        memory_efficiency=entry.sourced(file.memory_efficiency),
        byte_term=file.byte_term.value,
        host_layer_s=entry.sourced(file.host_layer),
        host_pass_s=entry.sourced(file.host_pass),
        collective_skew_s=entry.sourced(file.collective_skew),
        scale_skew_fraction=entry.sourced(file.scale_skew_fraction),
        scale_skew_over="hosts" if file.scale_skew_over is None else file.scale_skew_over.value,
        interference_fraction=entry.optional(file.interference_fraction),
        data_parallel_overlap=file.data_parallel_overlap.value,
        recompute_fitted=file.recompute_fitted.value,
        measured_rows=file.measured_rows.value,
        errors=entry.each_sourced(file.errors),
        fitted=tuple(file.fitted),
        basis={
            "byte_term": entry.sourced(file.byte_term),
            "data_parallel_overlap": entry.sourced(file.data_parallel_overlap),
            "recompute_fitted": entry.sourced(file.recompute_fitted),
            "measured_rows": entry.sourced(file.measured_rows),
            **({} if file.scale_skew_over is None else {"scale_skew_over": entry.sourced(file.scale_skew_over)}),
        },
        variants=entry.variants,
        notes=tuple(file.notes),
    )


def family_text(name_or_path: str) -> str:
    """Return the file of a software family as it stands; of a variant, that of the family.

    Raises
    ------
    InputError
        As :func:`load_family`.
    """
    path = open_entry("families", name_or_path, FamilyFile).document.path
    return "" if path is None else path.read_text(encoding="utf-8")


def family_for(chip: Chip) -> SoftwareFamily:
    """Read the family that describes a chip by default.

    Examples
    --------
    >>> family_for(load_chip("trainium3")).name
    'neuron-trn3'
    """
    return load_family(chip.software_family)


def _chip_of(entry: Entry[ServerFile]) -> Chip:
    """Read the chip of a server."""
    try:
        return load_chip(entry.file.chip, entry.folder)
    except InputError as error:
        raise _at_the_key(entry, "chip", error) from None


def _family_of(entry: Entry[ChipFile]) -> str:
    """Find the family of a chip, and leave it unread."""
    try:
        return from_anywhere("families", entry.file.software_family, entry.folder)
    except InputError as error:
        raise _at_the_key(entry, "software_family", error) from None


def _at_the_key(entry: Entry[Any], key: str, error: InputError) -> InputError:
    """Return the error with a name that leads nowhere put at the key that holds it."""
    of_key = entry.document.problem(key, "")
    problems = [problem if problem.key else replace(of_key, message=problem.message) for problem in error.problems]
    return InputError(problems, file=entry.document.name)


def _neuron_cores(entry: Entry[ChipFile], table: NeuronCoresTable) -> NeuronCores:
    return NeuronCores(
        count=table.count.value,
        lnc=tuple(table.lnc.allowed.value),
        default_lnc=table.lnc.default.value,
        link_bandwidth_bytes_per_s=entry.sourced(table.link.bandwidth),
        link_latency_s=entry.sourced(table.link.latency),
        basis={
            "count": entry.sourced(table.count),
            "lnc": entry.sourced(table.lnc.allowed),
            "default_lnc": entry.sourced(table.lnc.default),
        },
    )


def _peaks(entry: Entry[ChipFile], table: PeakTable) -> dict[str, Sourced[float]]:
    by_dtype = {"bf16": table.bf16, "fp8": table.fp8, "mxfp8": table.mxfp8, "fp32": table.fp32}
    return {dtype: entry.sourced(peak) for dtype, peak in by_dtype.items() if peak is not None}


def _instance_use(table: InstanceUseTable) -> InstanceUse:
    reported = [] if table.reported is None else table.reported.value
    return InstanceUse(table.unit, tuple(table.allowed.value), tuple(reported))


def _link(entry: Entry[ServerFile], kind: str, table: LinkTable) -> LinkClass:
    return LinkClass(
        kind=kind,
        bandwidth_bytes_per_s=entry.sourced(table.bandwidth),
        latency_s=entry.sourced(table.latency),
        achieved_fraction=entry.sourced(table.achieved_fraction),
    )


def _scale_up(entry: Entry[ServerFile]) -> ScaleUp:
    table = entry.file.scale_up
    links = tuple(_link(entry, name, entry.file.links[name]) for name in link_names(entry.file))
    match table:
        case TorusTable():
            return TorusScaleUp(tuple(table.dims.value), links)
        case SwitchedTable():
            return SwitchedScaleUp(table.sled_size.value, table.rack_size.value, *links)
        case StarTable():
            return StarScaleUp(*links)
        case _:
            return NoScaleUp()


def _server_basis(entry: Entry[ServerFile]) -> dict[str, Sourced[Any]]:
    """Return the sources of a server's plain fields, by field."""
    file = entry.file
    values: dict[str, SourcedValue[Any] | None] = {"chips": file.chips, "chips_per_host": file.chips_per_host}
    if file.instance_use is not None:
        values["instance_use.allowed"] = file.instance_use.allowed
        values["instance_use.reported"] = file.instance_use.reported
    match file.scale_up:
        case TorusTable(dims=dims):
            values["scale_up.dims"] = dims
        case SwitchedTable(sled_size=sled, rack_size=rack):
            values |= {"scale_up.sled_size": sled, "scale_up.rack_size": rack}
        case _:
            pass
    values["ring_chip_order"] = file.ring_chip_order
    return {name: entry.sourced(value) for name, value in values.items() if value is not None}
