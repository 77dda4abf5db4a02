"""Counted facts as text."""

from __future__ import annotations

from msgspec.structs import replace

from trnsim.reports.topology import topology_text
from trnsim.simulation.topology import find_topology, topology_facts

TORUS = topology_facts("torus:4x4x4", find_topology("torus:4x4x4", link_bandwidth="50 GB/s", link_latency="250 ns"))


def test_counts_diameter_and_bisection() -> None:
    # 64 chips, 3 x 64 cables, 3 x 2 hops, 2 x 16 links from half to half
    assert topology_text(TORUS).splitlines() == [
        "machine torus:4x4x4",
        "  places for ranks          64",
        "  links, one per direction  384",
        "    link                    384 of 50.0 GB/s in its direction, 250 ns",
        "  diameter                  6 links, 1.50 us",
        "  bisection                 1.60 TB/s in one direction, across axis 1",
    ]


def test_what_is_not_exact_is_said() -> None:
    facts = replace(
        TORUS, diameter_is_exact=False, bisection_is_exact=False, reduces=True, notes=("a",), warnings=("b",)
    )
    text = topology_text(facts)
    assert "at least 6 links, at least 1.50 us" in text
    assert "at most 1.60 TB/s" in text
    assert "add what passes through them" in text
    assert text.endswith("note: a\nwarning: b\n")
    assert "not known" in topology_text(replace(TORUS, bisection_bytes_per_s=None))


def test_links_of_one_kind_may_differ() -> None:
    text = topology_text(topology_facts("clos-three-tier", find_topology("clos-three-tier")))
    assert "of 50.0 GB/s to 100 GB/s in its direction" in text
