"""Files of graphs into networks: chips and switches, joined cable by cable or range by range."""

from __future__ import annotations

import re
from itertools import combinations, product
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from pydantic import Field

from trnsim.documents import WHOLE, Table, locate, read_document, refuse_unknown, validate
from trnsim.errors import InputError
from trnsim.hardware import LinkClass, SourcedFile, SourcedValue, load_server, read_entry
from trnsim.hardware.schema import LinkTable
from trnsim.record import Record
from trnsim.topology.cluster import cluster_topology
from trnsim.topology.cluster_network import cluster_network
from trnsim.topology.forms import form_of, refuse_other_form, topology_names
from trnsim.topology.graphs import graph_network

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    import networkx as nx

    from trnsim.errors import Problem
    from trnsim.hardware import Entry, Server, Sourced
    from trnsim.topology.network import Network

__all__ = ["MOST_CHIPS", "GraphSpec", "load_graph", "load_network", "network_names", "server_of"]

MOST_CHIPS = 4096
"""Chips of a graph at most."""

Name = Annotated[str, Field(pattern="^[a-z][a-z0-9-]*$")]
Ends = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]* \d{1,6}(-\d{1,6})?( by \d{1,6})?$")]


class KindTable(LinkTable):
    """One cable of a kind, per direction."""


class CableTable(Table):
    """Cables of one kind between two ranges of nodes."""

    ends: list[Ends] = Field(min_length=2, max_length=2, description="two of: chip 3, chip 0-7, agg 0-6 by 2")
    kind: str = Field(description="a key of the kinds table")
    join: Literal["all", "blocks"] = Field(
        default="all",
        description="all: each node with each, also inside one range; blocks: the longer range in equal blocks over the shorter",
    )
    cables: Annotated[int, Field(ge=1, le=1024), WHOLE] = 1


class GraphFile(SourcedFile):
    """A file of ``topologies/`` that lists links."""

    description: str
    chips: SourcedValue[Annotated[int, Field(ge=1, le=MOST_CHIPS), WHOLE]]
    switches: dict[Name, SourcedValue[Annotated[int, Field(ge=1, le=65_536), WHOLE]]] = Field(default_factory=dict)
    reduces: SourcedValue[bool] | None = None
    kinds: dict[Name, KindTable] = Field(min_length=1)
    links: list[CableTable] = Field(description="a list of cables: {ends: [chip 0-7, leaf 0], kind: KEY}")


class ServerFile(Table):
    """A file of ``topologies/`` that stands for a server of the catalog."""

    description: str
    server: str = Field(description="name in the hardware catalog, or a path")


class GraphSpec(Record, eq=False):
    """A graph as a specification.

    Parameters
    ----------
    name
        As in ``topologies/``.
    description
        One sentence.
    chips
        Their number. >= 1.
    switches
        Number of each sort of switches. >= 1.
    kinds
        One cable of each kind.
    cables
        Which nodes they join.
    reduces
        Whether its switches can add up what their chips send; None where nothing is said.
    notes
        What a reader of the numbers should know.
    """

    name: str
    description: str
    chips: Sourced[int]
    switches: Mapping[str, Sourced[int]]
    kinds: Mapping[str, LinkClass]
    cables: tuple[Cable, ...]
    reduces: Sourced[bool] | None = None
    notes: tuple[str, ...] = ()

    def network(self) -> Network:
        """Make the network.

        Raises
        ------
        InputError
            As `trnsim.topology.graphs.graph_network` raises it.
        """
        import networkx as nx

        graph: nx.Graph[str] = nx.Graph()
        graph.add_nodes_from(f"chip {chip}" for chip in range(self.chips.value))
        for name, count in self.switches.items():
            graph.add_nodes_from(f"{name} {switch}" for switch in range(count.value))
        graph.add_edges_from((cable.a, cable.b, {"kind": cable.kind, "count": cable.number}) for cable in self.cables)
        reduces = self.reduces is not None and self.reduces.value
        return graph_network(self.name, graph, self.kinds, reduces=reduces)


class Cable(NamedTuple):
    """Parallel cables between two nodes."""

    a: str
    b: str
    kind: str
    number: int
    row: int


def load_network(name_or_path: str, relative_to: Path | None = None) -> Network:
    """Read a graph, or a server that stands for itself, and make its network.

    Parameters
    ----------
    name_or_path
        Name in ``topologies/`` or a file; an existing path beats a name.
    relative_to
        Folder to which a path is relative. By default the working directory.

    Raises
    ------
    InputError
        If there is no such topology, it is a fabric, with every problem of its file, or naming two chips that have no
        path.

    Examples
    --------
    >>> network = load_network("dgx-h100")
    >>> network.endpoints, network.counts()
    (8, {'nvlink': 16})
    >>> [network.link_name(link) for link in network.routes([0], [5]).link]
    ['chip 0 -> nvswitch 0-3', 'nvswitch 0-3 -> chip 5']
    """
    path = locate("topologies", name_or_path, relative_to)
    if form_of(read_document(path)) == "server":
        return cluster_network(cluster_topology(server_of(str(path)), 1, None))
    return load_graph(str(path)).network()


def load_graph(name_or_path: str, relative_to: Path | None = None) -> GraphSpec:
    """Read a graph.

    Parameters
    ----------
    name_or_path, relative_to
        As for :func:`load_network`.

    Raises
    ------
    InputError
        If there is no such topology, it is none of chips and links, or with every problem of its file.
    """
    path = locate("topologies", name_or_path, relative_to)
    try:
        entry = read_entry(path, GraphFile)
    except InputError:
        refuse_other_form(path, "graph")
        raise
    file = entry.file
    entry.refuse([*_problems_of_nodes(entry)])
    cables = [cable for row in range(len(file.links)) for cable in _cables(file, row)]
    entry.refuse([*_problems_of_cables(entry, cables)])
    return GraphSpec(
        name=entry.name,
        description=file.description,
        chips=entry.sourced(file.chips),
        switches=entry.each_sourced(file.switches),
        kinds={kind: _link_class(entry, kind, table) for kind, table in file.kinds.items()},
        cables=tuple(cables),
        reduces=None if file.reduces is None else entry.sourced(file.reduces),
        notes=tuple(file.notes),
    )


def server_of(name_or_path: str) -> Server:
    """Read the server for which a topology stands.

    Raises
    ------
    InputError
        If there is no such topology or server, or with every problem of their files.

    Examples
    --------
    >>> server_of("trn2-ultraserver").chips
    64
    """
    path = locate("topologies", name_or_path)
    return load_server(validate(read_document(path), ServerFile).server, path.parent)


def network_names() -> tuple[str, ...]:
    """Return the names of the graphs that come with trnsim, sorted."""
    return topology_names("graph")


def _nodes(ends: str) -> list[str]:
    """Write out a range of nodes.

    Examples
    --------
    >>> _nodes("agg 0-6 by 2")
    ['agg 0', 'agg 2', 'agg 4', 'agg 6']
    """
    word, numbers = ends.split(" ", 1)
    first, last, step = re.fullmatch(r"(\d+)(?:-(\d+))?(?: by (\d+))?", numbers).groups()  # type: ignore[union-attr] # the schema checks it
    return [f"{word} {number}" for number in range(int(first), int(last or first) + 1, int(step or 1) or 1)]


def _cables(file: GraphFile, row: int) -> Iterator[Cable]:
    """Yield the cables of one row."""
    table = file.links[row]
    first, second = (_nodes(ends) for ends in table.ends)
    pairs: Iterable[tuple[str, str]] = combinations(first, 2) if first == second else product(first, second)
    if table.join == "blocks":
        long, short = sorted((first, second), key=len, reverse=True)
        pairs = ((node, short[place * len(short) // len(long)]) for place, node in enumerate(long))
    for a, b in pairs:
        yield Cable(a, b, table.kind, table.cables, row)


def _problems_of_nodes(entry: Entry[GraphFile]) -> Iterator[Problem]:
    """Yield what is wrong with names and ranges."""
    document, file = entry.document, entry.file
    if file.variants:
        yield document.problem("variants", "a graph has no variants; write a second file", value=None)
    if "chip" in file.switches:
        yield document.problem("switches.chip", "chip is the name of the endpoints; choose another", value=None)
    sizes = {"chip": file.chips.value} | {name: count.value for name, count in file.switches.items()}
    for row, table in enumerate(file.links):
        if table.kind not in file.kinds:
            yield document.problem(f"links[{row}].kind", refuse_unknown("kind", table.kind, file.kinds))
        for place, ends in enumerate(table.ends):
            key, word, nodes = f"links[{row}].ends[{place}]", ends.split()[0], _nodes(ends)
            if word not in sizes:
                yield document.problem(key, refuse_unknown("node", word, sizes))
            elif not nodes or int(nodes[-1].split()[1]) >= sizes[word]:
                yield document.problem(key, f"there are {word} 0 to {word} {sizes[word] - 1}")
        lengths = sorted(len(_nodes(ends)) for ends in table.ends)
        if table.join == "blocks" and lengths[0] and lengths[1] % lengths[0]:
            message = f"{lengths[1]} nodes do not divide into {lengths[0]} equal blocks"
            yield document.problem(f"links[{row}].ends", message, value=None)


def _problems_of_cables(entry: Entry[GraphFile], cables: list[Cable]) -> Iterator[Problem]:
    """Yield cables that start and end in one node, or join two nodes a second time."""
    seen: dict[frozenset[str], int] = {}
    told = set()
    for cable in cables:
        ends = frozenset((cable.a, cable.b))
        before = seen.setdefault(ends, cable.row)
        repeated = before != cable.row
        if (len(ends) == 1 or repeated) and cable.row not in told:
            told.add(cable.row)
            message = (
                f"{cable.a} and {cable.b} are joined by links[{before}] too; count cables there" if repeated else ""
            )
            yield entry.document.problem(
                f"links[{cable.row}].ends", message or f"{cable.a} is joined to itself", value=None
            )


def _link_class(entry: Entry[GraphFile], kind: str, table: KindTable) -> LinkClass:
    return LinkClass(
        kind=kind,
        bandwidth_bytes_per_s=entry.sourced(table.bandwidth),
        latency_s=entry.sourced(table.latency),
        achieved_fraction=entry.sourced(table.achieved_fraction),
    )
