"""Where a collective takes place: the words of a user into a network, and what algorithms may know of a group on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import field
from msgspec.structs import replace

from trnsim import documents, hardware
from trnsim.collectives import Arrangement, disjoint_cycles
from trnsim.errors import InputError, Problem
from trnsim.fabric.layout import arrange, lay_out
from trnsim.hardware.collective_family import collective_family_of
from trnsim.parallel import Group, Placement
from trnsim.record import Record
from trnsim.topology import cluster_topology, load_fabric
from trnsim.topology.cluster_network import cluster_network
from trnsim.topology.forms import topology_names
from trnsim.topology.machines import MACHINES, machine
from trnsim.topology.memory import with_chip_memory
from trnsim.topology.network_files import load_network

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from trnsim.hardware.collective_family import CollectiveFamily
    from trnsim.simulation.question import Place
    from trnsim.topology.network import Network

__all__ = ["Site", "find_site"]


class Site(Record, eq=False):
    """A network, and how groups lie on it.

    Parameters
    ----------
    network
        Its endpoints are the places for ranks.
    arrange
        From a number of ranks, which sit on the first endpoints, to what algorithms may know of them.
    adds_by_default
        Whether its switches are known to add what passes through them, so that `auto` may count on it.
    described
        What it is, in one line.
    counted
        Further counts, name to value.
    family
        What was fitted to collectives on it; None where nothing was.
    """

    network: Network
    arrange: Callable[[int], Arrangement]
    adds_by_default: bool
    described: str
    counted: Mapping[str, int | str] = field(default_factory=dict)
    family: CollectiveFamily | None = None

    def degraded(self, count: int, factor: float) -> Site:
        """Return the site with so many of its uplinks slowed, evenly spaced.

        Raises
        ------
        InputError
            If it has fewer uplinks.
        """
        uplinks = self.network.uplinks
        if count > len(uplinks):
            message = (
                f"{self.network.name} has {len(uplinks):,} links that leave a chip, and {count:,} are to be slowed"
            )
            raise InputError([Problem("degrade", message)], file=self.network.name)
        chosen = uplinks[np.arange(count) * len(uplinks) // count]
        slowed = f"{count:,} of {len(uplinks):,} uplinks at {factor:g} of their bandwidth"
        network = self.network.degraded(chosen, factor)
        return replace(self, network=network, described=f"{self.described}, {slowed}")


def find_site(place: Place, ranks: int | None) -> Site:
    """Return the network that a user named.

    Parameters
    ----------
    place
        What was named.
    ranks
        Where a machine takes its size from; None if the user named no number.

    Raises
    ------
    InputError
        With all problems of a file, of the shape of a machine, or of servers that cannot be joined.
    """
    if place.kind == "machine":
        return _machine(place, ranks)
    if place.kind == "server":
        return _cluster(place)
    network = load_network(place.on)
    return Site(
        network,
        lambda count: _plain(network, count),
        network.reduces,
        f"topology {network.name}",
        family=collective_family_of(place.on),
    )


def _machine(place: Place, ranks: int | None) -> Site:
    word, _, shape = place.on.partition(":")
    name = next(name for name in MACHINES if documents.canonical(name) == documents.canonical(word))
    if not MACHINES[name] and not shape and ranks is None:
        raise InputError([Problem("ranks", f"a {name} takes its size from the number of ranks")], file=place.on)
    network = machine(
        place.on,
        endpoints=None if MACHINES[name] else ranks,
        bandwidth_bytes_per_s=place.link_bandwidth_bytes_per_s,
        latency_s=place.link_latency_s,
        ties=place.ties,
    )
    dims = _dims(name, shape)

    def arranged(count: int) -> Arrangement:
        if count < network.endpoints or name not in ("torus", "hypercube", "fat-tree"):
            return _plain(network, count)
        if name == "fat-tree":
            return Arrangement(count, inner=dims[1])
        square = len(dims) == 2 and dims[0] == dims[1] >= 3
        return Arrangement(count, inner=count, tours=disjoint_cycles(dims[0]) if square else (), shape=dims)

    return Site(network, arranged, adds_by_default=False, described=f"machine {network.name}")


def _dims(name: str, shape: str) -> tuple[int, ...]:
    """Return the sizes that stand in the shape of a machine that was built: axes, or leaves and hosts of a leaf."""
    if name == "hypercube":
        return (2,) * int(shape)
    return tuple(int(size) for size in shape.casefold().partition(":")[0].split("x")) if MACHINES[name] else ()


def _plain(network: Network, count: int) -> Arrangement:
    return Arrangement(count, reducing_switch=network.reduces)


def _cluster(place: Place) -> Site:
    """Return servers of the catalog.

    Memories of chips are links where cores of a chip share one; a whole chip has wires for less than a third of it.
    """
    server = hardware.load_server(place.on)
    lnc = server.chip.neuron_cores.default_lnc if server.chip.neuron_cores else None
    if lnc is None and place.rank == "logical_core":
        message = f"{server.chip.name} has no logical cores; each chip is one rank: chip"
        raise InputError([Problem("rank", message, value=place.rank)], file=place.on)
    alone = place.servers == 1 and place.fabric is None
    if not alone and place.fabric is None and lnc is None:
        message = f"due for several {server.name}: {', '.join(topology_names('fabric'))}, or a path"
        raise InputError([Problem("fabric", message)], file=place.on)
    fabric = None if alone else load_fabric(place.fabric or "ultracluster")
    topology = cluster_topology(server, place.servers, fabric)
    per_chip = server.chip.logical_cores(lnc) if place.rank == "logical_core" else 1
    placement = Placement(per_chip, server.chips)

    def arranged(count: int) -> Arrangement:
        return arrange(lay_out(Group(0, 1, count), placement), server)

    joined = f", joined by {fabric.name}" if fabric and place.servers > 1 else ""
    several = f"{place.servers:,} x " if place.servers > 1 else ""
    described = f"{several}{server.name}{joined}"
    network = cluster_network(topology, per_chip)
    return Site(
        network=network if per_chip == 1 else with_chip_memory(network, server.chip, per_chip),
        arrange=arranged,
        adds_by_default=False,
        described=described,
        counted=topology.facts(),
        family=collective_family_of(server.name) if place.servers == 1 else None,
    )
