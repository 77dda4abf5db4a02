"""The machine of an imported scenario: which server, how many, and what of them the ranks take."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from trnsim.errors import InputError, Problem
from trnsim.hardware import load_server, names
from trnsim.record import Record

if TYPE_CHECKING:
    from trnsim.hardware import Server
    from trnsim.scenario.imports.translation import Translation

__all__ = ["Asked", "place"]

_FABRIC = "ultracluster"


class Asked(Record):
    """The ranks that a file asks for.

    Parameters
    ----------
    rank
        What one of them is: ``"chip"`` or ``"logical_core"``.
    why
        Why it is that.
    ranks
        How many; ``None`` where the file does not say.
    origin
        The keys that say it.
    hosts
        Hosts on which they sit, where the file says; 1 otherwise.
    hosts_key
        The key of the ranks on one host.
    """

    rank: str
    why: str
    ranks: int | None
    origin: str
    hosts: int = 1
    hosts_key: str = ""


def place(translation: Translation, asked: Asked) -> int | None:
    """Write the machine, what a rank is, and the data-parallel degree; return that, or ``None`` where it cannot be known.

    ``--servers`` beats what the file says. Else there are as many servers as its ranks need.
    """
    translation.choose("layout.rank", asked.rank, asked.why)
    server = _server(translation, asked)
    if asked.ranks is None and translation.options.servers is None:
        missing = "missing: the file does not say how many ranks there are; pass --servers N"
        translation.problems.append(Problem("cluster.servers", missing))
    each = None if server is None else _ranks_of(translation, server, asked)
    if server is None or each is None or (asked.ranks is None and translation.options.servers is None):
        return None
    servers = translation.options.servers or math.ceil((asked.ranks or 1) / each)
    _write_servers(translation, server, servers, each, asked)
    return _data_parallel(translation, servers * each, asked)


def _server(translation: Translation, asked: Asked) -> Server | None:
    name = translation.options.server
    if name is None:
        missing = f"missing: the file does not name a machine; pass --server NAME ({_known(asked)})"
        translation.problems.append(Problem("cluster.server", missing))
        return None
    try:
        server = load_server(name)
    except InputError as error:
        translation.problems.extend(Problem("--server", problem.message, value=name) for problem in error.problems)
        return None
    translation.write("cluster.server", translation.path(name), "--server")
    return server


def _known(asked: Asked) -> str:
    """Return where to look for a server, or those whose hosts have as many logical cores as the file has ranks on one."""
    if not asked.hosts_key or asked.ranks is None:
        return "trnsim list servers"
    on_host = asked.ranks // asked.hosts
    fitting = [name for name in names("servers") if on_host in _cores_of_hosts(load_server(name))]
    return f"hosts of {on_host}: {', '.join(fitting)}" if fitting else f"none of the catalog has hosts of {on_host}"


def _cores_of_hosts(server: Server) -> set[int]:
    neuron_cores = server.chip.neuron_cores
    lncs = () if neuron_cores is None else neuron_cores.lnc
    return {server.chips_per_host * server.chip.logical_cores(lnc) for lnc in lncs}


def _ranks_of(translation: Translation, server: Server, asked: Asked) -> int | None:
    """Return how many ranks a server holds, or ``None`` with a problem where the file's hosts are not like its own."""
    if asked.rank == "chip":
        return server.chips
    neuron_cores = server.chip.neuron_cores
    if neuron_cores is None:
        message = f"{asked.why}, and {server.chip.name} has none; choose {_known(asked)}"
        translation.problems.append(Problem("--server", message, value=server.name))
        return None
    lnc = translation.entries.get("cluster.lnc", neuron_cores.default_lnc)
    if lnc not in neuron_cores.lnc:
        allowed = " or ".join(map(str, neuron_cores.lnc))
        translation.refuse(translation.origins["cluster.lnc"], f"{server.chip.name} has LNC {allowed}")
        return None
    cores = server.chip.logical_cores(lnc)
    on_host = server.chips_per_host * cores
    if asked.ranks is not None and asked.hosts > 1 and asked.ranks != asked.hosts * on_host:
        message = f"a host of {server.name} has {server.chips_per_host} chips x {cores} = {on_host} logical cores"
        translation.refuse(asked.hosts_key, f"{message}, and {asked.hosts} hosts must use all of them; {_known(asked)}")
        return None
    return server.chips * cores


def _write_servers(translation: Translation, server: Server, servers: int, each: int, asked: Asked) -> None:
    if translation.options.servers is None:
        reason = f"{asked.origin} = {asked.ranks:,} ranks, and a {server.name} holds {each:,}"
        translation.choose("cluster.servers", servers, reason)
    else:
        translation.write("cluster.servers", servers, "--servers")
    if translation.options.fabric is not None:
        translation.write("cluster.fabric", translation.path(translation.options.fabric), "--fabric")
    elif servers > 1 and server.chip.neuron_cores is not None:
        translation.choose("cluster.fabric", _FABRIC, "the network of AWS's clusters; --fabric NAME takes another")
    elif servers > 1:
        missing = f"missing: {servers:,} servers need a network; pass --fabric NAME (trnsim list topologies)"
        translation.problems.append(Problem("cluster.fabric", missing))


def _data_parallel(translation: Translation, available: int, asked: Asked) -> int | None:
    """Write dp, and that chips stay idle where the file has fewer ranks than the cluster."""
    degrees: dict[str, int] = {axis: translation.entries.get(f"layout.{axis}", 1) for axis in ("tp", "cp", "pp")}
    replica = math.prod(degrees.values())
    ranks = available if translation.options.servers or asked.ranks is None else asked.ranks
    dp, rest = divmod(ranks, replica)
    product = " x ".join(f"{axis} {degree}" for axis, degree in degrees.items() if degree > 1) or "1"
    origin = f"{ranks:,} ranks / ({product})"
    if rest or not dp:
        key = "--servers" if translation.options.servers else asked.origin
        message = f"{origin} is no whole number: one replica takes {replica:,} ranks"
        translation.problems.append(Problem("layout.dp", f"{message}; {key} says {ranks:,}"))
        return None
    if asked.ranks not in {None, ranks}:
        origin = f"{origin}; --servers beats the {asked.ranks:,} ranks of {asked.origin}"
    translation.choose("layout.dp", dp, origin)
    if ranks < available:
        translation.choose("cluster.allow_idle", True, f"{ranks:,} ranks on a cluster for {available:,}")
    return dp
