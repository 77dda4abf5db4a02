"""What has to agree inside a chip's or a server's file, beyond the type of each value."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from trnsim.documents import refuse_unknown
from trnsim.hardware.schema import StarTable, SwitchedTable, TorusTable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnsim.documents import Document
    from trnsim.errors import Problem
    from trnsim.hardware.schema import ChipFile, ServerFile

__all__ = ["link_names", "problems_of_chip", "problems_of_server"]


def problems_of_chip(document: Document, file: ChipFile) -> Iterator[Problem]:
    """Yield every contradiction of a chip's file."""
    table = file.neuron_cores
    if table is None:
        return
    cores, allowed, default = table.count.value, table.lnc.allowed.value, table.lnc.default.value
    for lnc in allowed:
        if cores % lnc:
            message = f"{cores} NeuronCores do not split into logical cores of {lnc}"
            yield document.problem("neuron_cores.lnc.allowed", message)
    if default not in allowed:
        yield document.problem("neuron_cores.lnc.default", f"{default} is not among those allowed, {allowed}")


def problems_of_server(document: Document, file: ServerFile) -> Iterator[Problem]:
    """Yield every contradiction of a server's file."""
    chips, per_host = file.chips.value, file.chips_per_host.value
    if chips % per_host:
        yield document.problem("chips_per_host", f"{chips} chips are not a multiple of {per_host} chips a host")
    if file.ring_chip_order is not None and sorted(file.ring_chip_order.value) != list(range(per_host)):
        message = f"each chip of a host is due once, 0 to {per_host - 1}"
        yield document.problem("ring_chip_order", message)
    yield from _scale_up(document, file)
    used = link_names(file)
    for name in (name for name in used if name not in file.links):
        yield document.problem("scale_up", refuse_unknown("link class", name, file.links))
    for name in (name for name in file.links if name not in used):
        yield document.problem(f"links.{name}", "no axis or level of scale_up uses this class")


def link_names(file: ServerFile) -> tuple[str, ...]:
    """Return the names of the link classes that the scale-up network uses, in its order."""
    match file.scale_up:
        case TorusTable(links=links):
            return tuple(links)
        case SwitchedTable(sled=sled, rack=rack, cross=cross):
            return (sled, rack, cross)
        case StarTable(switch=switch):
            return (switch,)
        case _:
            return ()


def _scale_up(document: Document, file: ServerFile) -> Iterator[Problem]:
    chips = file.chips.value
    match file.scale_up:
        case TorusTable(dims=dims, links=links):
            if math.prod(dims.value) != chips:
                product = " x ".join(map(str, dims.value))
                yield document.problem("scale_up.dims", f"{product} = {math.prod(dims.value)} chips, not {chips}")
            if len(links) != len(dims.value):
                message = f"{len(dims.value)} axes need as many link classes, not {len(links)}"
                yield document.problem("scale_up.links", message)
        case SwitchedTable(sled_size=sled, rack_size=rack):
            if rack.value % sled.value:
                message = f"{rack.value} chips a rack are not a multiple of {sled.value} chips a sled"
                yield document.problem("scale_up.rack_size", message)
            if chips % rack.value:
                message = f"{chips} chips are not a multiple of {rack.value} chips a rack"
                yield document.problem("scale_up.rack_size", message)
        case StarTable():
            pass
        case _:
            if chips > 1:
                message = f"chips 0 and 1 of {chips} have no path: kind none is for one chip"
                yield document.problem("scale_up", message)
