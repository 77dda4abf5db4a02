"""Small servers and fabrics of any shape, for tests of what is wired to what."""

from __future__ import annotations

import math
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from msgspec.structs import replace

from trnsim.hardware import LinkClass, NoScaleUp, Sourced, StarScaleUp, SwitchedScaleUp, TorusScaleUp, load_server
from trnsim.topology import FabricSpec, Tier

if TYPE_CHECKING:
    from collections.abc import Sequence

    import networkx as nx

    from trnsim.hardware import Server

T = TypeVar("T")

laws = settings(deadline=None, max_examples=25)


@cache
def catalog_server(name: str) -> Server:
    """Return a server of the catalog, read once."""
    return load_server(name)


def count_kinds(graph: nx.DiGraph[str]) -> Counter[str]:
    """Count the nodes of each kind."""
    return Counter(str(node["kind"]) for _, node in graph.nodes(data=True))


def count_links(graph: nx.DiGraph[str]) -> Counter[str]:
    """Count the directed links of each kind, edge by edge."""
    counts: Counter[str] = Counter()
    for _, _, edge in graph.edges(data=True):
        counts[edge["kind"]] += edge["count"]
    return counts


def sourced(value: T) -> Sourced[T]:
    """Return a value made up for a test."""
    return Sourced(value, "assumed", "made up for a test", "2026-11-30")


def link_class(kind: str, latency_s: float = 1e-6, bandwidth_bytes_per_s: float = 100e9) -> LinkClass:
    """Return a class of links that reach half their datasheet bandwidth."""
    return LinkClass(kind, sourced(bandwidth_bytes_per_s), sourced(latency_s), sourced(0.5))


def torus_server(dims: Sequence[int]) -> Server:
    """Return a server whose chips stand on a torus; each axis has links of its own kind."""
    links = tuple(link_class(f"axis-{axis}") for axis in range(len(dims)))
    return replace(
        catalog_server("trn2.48xlarge"), name="torus", chips=math.prod(dims), scale_up=TorusScaleUp(tuple(dims), links)
    )


def switched_server(
    sled_size: int, sleds: int, racks: int, latencies_s: tuple[float, float, float] = (1e-6, 2e-6, 3e-6)
) -> Server:
    """Return a server of racks x sleds x sled_size chips; the latencies are those of sled, rack and cross links."""
    links = [link_class(kind, latency) for kind, latency in zip(("sled", "rack", "cross"), latencies_s, strict=True)]
    scale_up = SwitchedScaleUp(sled_size, sled_size * sleds, *links)
    return replace(
        catalog_server("trn3-gen2-ultraserver"), name="switched", chips=sled_size * sleds * racks, scale_up=scale_up
    )


def single_chip_server() -> Server:
    """Return a server of one chip."""
    return replace(catalog_server("trn2.3xlarge"), name="single", chips=1, scale_up=NoScaleUp())


def fabric_spec(radixes: Sequence[int], oversubscriptions: Sequence[float], planes: int = 2) -> FabricSpec:
    """Return a fabric whose tier k adds k microseconds."""
    tiers = tuple(
        Tier(f"tier{number}", sourced(radix), sourced(float(ratio)), sourced(number * 1e-6))
        for number, (radix, ratio) in enumerate(zip(radixes, oversubscriptions, strict=True))
    )
    return FabricSpec("test-fabric", "made up for a test", sourced(planes), tiers)


def star_of(chips: int) -> Server:
    """Return a server whose chips hang on one switch."""
    scale_up = StarScaleUp(link_class("switch-port"))
    return replace(catalog_server("trn2.48xlarge"), name="star", chips=chips, scale_up=scale_up)


servers = st.one_of(
    st.lists(st.integers(1, 4), min_size=1, max_size=3).map(torus_server),
    st.builds(switched_server, st.integers(1, 3), st.integers(1, 3), st.integers(1, 3)),
    st.integers(2, 9).map(star_of),
    st.just(single_chip_server()),
)

fabric_specs = st.builds(
    lambda tiers, planes: fabric_spec([radix for radix, _ in tiers], [ratio for _, ratio in tiers], planes),
    st.lists(st.tuples(st.integers(6, 10), st.sampled_from([1, 1.5, 2, 3])), min_size=4, max_size=4),
    st.integers(1, 3),
)
