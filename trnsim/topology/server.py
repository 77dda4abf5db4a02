"""One server of the cluster as a graph: the template that all servers share."""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

from trnsim.errors import InputError, Problem
from trnsim.hardware import StarScaleUp, SwitchedScaleUp, TorusScaleUp
from trnsim.record import Record
from trnsim.topology.links import Link, add_cables, count_links, link_between
from trnsim.topology.switched import switched_path, twins
from trnsim.topology.torus import torus_cables, torus_path

if TYPE_CHECKING:
    from collections.abc import Iterable

    import networkx as nx

    from trnsim.hardware import LinkClass, Server

__all__ = ["ServerTopology", "server_topology"]

STAR_SWITCH = "switch 0"


class ServerTopology(Record, eq=False, dict=True):
    """The scale-up network of one server.

    Parameters
    ----------
    server
        The catalog entry it was built from.
    graph
        Nodes ``chip 0``, ``chip 1``, ... and, in a switched server, ``sled 0``, ... and ``rack 0``, ..., in a star
        ``switch 0``, each with an attribute ``kind``. Edges in both directions with ``kind``, ``bandwidth_bytes_per_s``, ``latency_s`` and
        ``count``. Not to be changed.
    """

    server: Server
    graph: nx.DiGraph[str]

    @cached_property
    def _routes(self) -> dict[tuple[int, int], tuple[Link, ...]]:
        return {}

    @property
    def chips(self) -> int:
        """Chips of the server."""
        return self.server.chips

    def route(self, a: int, b: int) -> tuple[Link, ...]:
        """Return the links that bytes from chip `a` to chip `b` cross, in order; none when they are one chip.

        On a torus in dimension order, first axis first, the shorter way round and of two equal ways the positive one;
        over switches by fewest latency, and to another rack over the twin of `b` in the rack of `a`.

        Parameters
        ----------
        a, b
            Chips of the server. Each 0 <= chip < `chips`.

        Raises
        ------
        ValueError
            If there is no such chip.
        """
        if (route := self._routes.get((a, b))) is None:
            route = self._routes[a, b] = self.links_along(self._path(a, b))
        return route

    def links_along(self, nodes: Iterable[str]) -> tuple[Link, ...]:
        """Return the links between nodes that follow one another."""
        return tuple(link_between(self.graph, *ends) for ends in pairwise(nodes))

    def link_counts(self) -> dict[str, int]:
        """Count the directed links of each kind: two per cable."""
        return count_links(self.graph)

    def link_rates(self) -> dict[str, float]:
        """Return what one link of each kind carries in one direction, bytes/s."""
        return {data["kind"]: data["bandwidth_bytes_per_s"] for _, _, data in self.graph.edges(data=True)}

    @property
    def diameter(self) -> int:
        """Links on the longest route between two chips."""
        chips = range(self.chips)
        alike = not isinstance(self.server.scale_up, SwitchedScaleUp)  # every chip sees the same
        return max(len(self._path(a, b)) - 1 for a in (range(1) if alike else chips) for b in chips)

    def facts(self) -> dict[str, int | str]:
        """Return counted facts, name to value, in reading order."""
        kinds = [node["kind"] for _, node in self.graph.nodes(data=True)]
        switches = {kind: kinds.count(kind) for kind in dict.fromkeys(kinds) if kind != "chip"}
        return {
            "chips": self.chips,
            **{f"{kind} switches": count for kind, count in switches.items()},
            **{f"{kind} cables": links // 2 for kind, links in self.link_counts().items()},
            "links on the longest route": self.diameter,
            "scale-out ports, one per chip": self.chips if self.server.scale_out else 0,
        }

    def _path(self, a: int, b: int) -> tuple[str, ...]:
        if not (0 <= a < self.chips and 0 <= b < self.chips):
            raise ValueError(f"server {self.server.name} has chips 0 to {self.chips - 1}, not {a} and {b}")
        scale_up = self.server.scale_up
        if isinstance(scale_up, SwitchedScaleUp):
            return switched_path(a, b, scale_up)
        if isinstance(scale_up, StarScaleUp):
            return (f"chip {a}",) if a == b else (f"chip {a}", STAR_SWITCH, f"chip {b}")
        dims = scale_up.dims if isinstance(scale_up, TorusScaleUp) else (1,)
        return tuple(f"chip {chip}" for chip in torus_path(a, b, dims))


def server_topology(server: Server) -> ServerTopology:
    """Build the template of a server.

    Parameters
    ----------
    server
        From the catalog.

    Raises
    ------
    InputError
        If two of its chips have no path.

    Examples
    --------
    >>> from trnsim.hardware import load_server
    >>> template = server_topology(load_server("trn2-ultraserver"))
    >>> template.link_counts()
    {'neuronlink-xy': 256, 'neuronlink-z': 128}
    >>> [link.target for link in template.route(0, 21)]
    ['chip 1', 'chip 5', 'chip 21']
    """
    import networkx as nx

    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from((f"chip {chip}" for chip in range(server.chips)), kind="chip")
    if isinstance(server.scale_up, TorusScaleUp):
        _wire_torus(graph, server.scale_up)
    elif isinstance(server.scale_up, SwitchedScaleUp):
        _wire_switches(graph, server.scale_up, server.chips)
    elif isinstance(server.scale_up, StarScaleUp):
        graph.add_node(STAR_SWITCH, kind="switch")
        _wire(graph, ((f"chip {chip}", STAR_SWITCH) for chip in range(server.chips)), server.scale_up.switch)
    _refuse_unconnected(graph, server.name)
    return ServerTopology(server, graph)


def _wire_torus(graph: nx.DiGraph[str], scale_up: TorusScaleUp) -> None:
    for axis, link in enumerate(scale_up.links):
        _wire(graph, ((f"chip {a}", f"chip {b}") for a, b in torus_cables(scale_up.dims, axis)), link)


def _wire_switches(graph: nx.DiGraph[str], scale_up: SwitchedScaleUp, chips: int) -> None:
    levels = (("sled", scale_up.sled_size, scale_up.sled), ("rack", scale_up.rack_size, scale_up.rack))
    for level, size, link in levels:
        graph.add_nodes_from((f"{level} {switch}" for switch in range(chips // size)), kind=level)
        _wire(graph, [(f"chip {chip}", f"{level} {chip // size}") for chip in range(chips)], link)
    _wire(graph, ((f"chip {a}", f"chip {b}") for a, b in twins(chips, scale_up.rack_size)), scale_up.cross)


def _wire(graph: nx.DiGraph[str], pairs: Iterable[tuple[str, str]], link: LinkClass) -> None:
    cables = ((a, b, 1) for a, b in pairs)
    add_cables(graph, cables, link.kind, link.effective_bytes_per_s, link.latency_s.value)


def _refuse_unconnected(graph: nx.DiGraph[str], name: str) -> None:
    """Refuse a server in which two chips have no path, naming them."""
    import networkx as nx

    reached = {"chip 0", *nx.descendants(graph, "chip 0")}
    if (lost := next((node for node in graph if node not in reached), None)) is not None:
        raise InputError([Problem("scale_up", f"chip 0 and {lost} have no path", value=name)], file=name)
