"""What can be counted of a network."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003  (part of the public annotations)
from typing import TYPE_CHECKING, Any, NamedTuple

from trnsim.record import Record
from trnsim.results.columns import Column
from trnsim.results.tables import frame_of

if TYPE_CHECKING:
    import pandas as pd

    from trnsim.topology.picture import Picture

__all__ = ["EDGE_COLUMNS", "NODE_COLUMNS", "LinkKind", "TopologyFacts", "picture_frames"]

NODE_COLUMNS = (
    Column("name", "string", "", "chip, switch, or server whose chips are too many to draw"),
    Column("kind", "string", "", "what it is"),
    Column("x", "float64", "", "where it stands, to the right"),
    Column("y", "float64", "", "where it stands, upward"),
)
"""Columns of the nodes of a picture."""

EDGE_COLUMNS = (
    Column("a", "int64", "", "row of one node"),
    Column("b", "int64", "", "row of the other"),
    Column("kind", "string", "", "kind of the links between them"),
    Column("bytes_per_s", "int64", "B/s", "what they carry together in the slower direction"),
    Column("is_bent", "int64", "", "1 where a straight line would run over other nodes"),
)
"""Columns of the edges of a picture."""


class LinkKind(NamedTuple):
    """The links of one kind.

    Parameters
    ----------
    links
        Directed links: two for each cable.
    slowest_bytes_per_s, fastest_bytes_per_s
        What one carries in its direction: the datasheet's figure times the achieved fraction.
    latency_s
        Of the one whose latency is longest.
    """

    links: int
    slowest_bytes_per_s: int
    fastest_bytes_per_s: int
    latency_s: float


class TopologyFacts(Record):
    """Counted facts of a network.

    Parameters
    ----------
    name, described
        As the user wrote it, and what it is.
    endpoints
        Places for ranks.
    links
        Kinds of links, by name.
    diameter_links, diameter_latency_s, diameter_is_exact
        Links and latency of the longest routes; a longer one may exist where not all pairs were tried.
    bisection_bytes_per_s, bisection_cut, bisection_is_exact
        What crosses from half to half in one direction, and where that cut lies; a narrower one may exist where it is not
        exact. None and empty where the network is too large to search and no formula is known.
    reduces
        Whether its switches can add.
    counted
        Further counts, name to value.
    notes, warnings
        What trnsim took on its own, and what deserves a look.
    """

    name: str
    described: str
    endpoints: int
    links: Mapping[str, LinkKind]
    diameter_links: int
    diameter_latency_s: float
    diameter_is_exact: bool
    bisection_bytes_per_s: float | None
    bisection_cut: str
    bisection_is_exact: bool
    reduces: bool
    counted: Mapping[str, int | str]
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document."""
        return {
            "name": self.name,
            "described": self.described,
            "endpoints": self.endpoints,
            "counted": dict(self.counted),
            "links": {kind: each._asdict() for kind, each in self.links.items()},
            "diameter": {
                "links": self.diameter_links,
                "latency_s": self.diameter_latency_s,
                "is_exact": self.diameter_is_exact,
            },
            "bisection": {
                "bytes_per_s": self.bisection_bytes_per_s,
                "cut": self.bisection_cut,
                "is_exact": self.bisection_is_exact,
            },
            "reduces": self.reduces,
            "notes": list(self.notes),
            "warnings": list(self.warnings),
        }


def picture_frames(picture: Picture) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the nodes and the edges of a picture as frames with :data:`NODE_COLUMNS` and :data:`EDGE_COLUMNS`.

    Examples
    --------
    >>> from trnsim.topology.machines import machine
    >>> from trnsim.topology.picture import picture
    >>> nodes, edges = picture_frames(picture(machine("ring", endpoints=4, bandwidth_bytes_per_s=1e9, latency_s=0.0)))
    >>> len(nodes), len(edges)
    (4, 4)
    """
    nodes = [node._asdict() for node in picture.nodes]
    edges = [{**edge._asdict(), "is_bent": int(edge.is_bent)} for edge in picture.edges]
    return frame_of(nodes, NODE_COLUMNS), frame_of(edges, EDGE_COLUMNS)
