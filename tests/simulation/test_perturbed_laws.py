"""Laws of perturbed machines: folding changes nothing, whatever is slow, degraded or has failed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from small import simulate_small

from trnsim.documents import data_folder
from trnsim.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

SERVERS = {
    "trn3-gen2-ultraserver": (144, ("sled-switch", "rack-switch", "cross-rack"), ("chip", "sled", "rack")),
    "trn2.48xlarge": (16, ("neuronlink-xy",), ("chip",)),
    "trn1.32xlarge": (16, ("neuronlink",), ("chip",)),
}
"""Chips, kinds of links, kinds of places."""


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("perturbed")


@pytest.fixture(scope="session")
def small_switches(folder: Path) -> Path:
    """Write a fabric of 20-port switches, the lowest 3:1 oversubscribed: 15 chips a switch group."""
    text = (data_folder("topologies") / "ultracluster.yaml").read_text(encoding="utf-8")
    path = folder / "small-switches.yaml"
    path.write_text(text.replace("value: 128", "value: 20").replace("value: 1\n", "value: 3\n", 1), encoding="utf-8")
    return path


@st.composite
def machines(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a small machine whose layout takes up to 96 ranks, with one to three perturbations that bind."""
    server = draw(st.sampled_from(list(SERVERS)))
    chips, links, units = SERVERS[server]
    tp, pp, dp = draw(st.sampled_from([1, 2, 4, 8])), draw(st.integers(1, 4)), draw(st.integers(1, 6))
    assume(tp * pp * dp <= 96)
    servers = max(2, -(-tp * pp * dp // chips))
    kinds = ["chips", *links, "efa", "tor-leaf"]
    entries = []
    for number in range(draw(st.integers(1, 3))):
        of = draw(st.sampled_from(kinds))
        entry: dict[str, Any] = {"name": f"p{number}", "of": of}
        if of != "chips" and draw(st.booleans()) and of != "tor-leaf":
            entry["failed"] = True
        else:
            entry["speed"] = draw(st.sampled_from([0.02, 0.3, 0.7, 0.95]))
        if of == "chips" and draw(st.booleans()):
            used = draw(st.integers(0, tp * pp * dp - 1))
            entry["at"] = [f"server {used // chips}/chip {used % chips}"]
        elif of != "tor-leaf" and draw(st.booleans()):
            entry |= {"count": 1, "each": draw(st.sampled_from([*units, "server"]))}
        else:
            entry["count"] = draw(st.integers(1, 2 if of == "tor-leaf" else 4))
        entries.append(entry)
    order = draw(st.permutations(["tp", "dp", "pp"]))
    return {
        "cluster__server": server,
        "cluster__servers": servers,
        "layout__order": [order[0], "cp", *order[1:]],
        "layout__tp": tp,
        "layout__pp": pp,
        "layout__dp": dp,
        "layout__zero": draw(st.integers(0, 1)),
        "training__global_batch": draw(st.integers(1, 3)) * dp,
        "training__data_parallel_overlap": draw(st.sampled_from(["none", "buckets"])),
        "model__tied_embeddings": draw(st.sampled_from(["true", "false"])),
        "collectives__algorithm": draw(st.sampled_from(["auto", "ring", "direct", "hierarchical"])),
        "run__fidelity": draw(st.sampled_from(["flow", "closed_form"])),
        "run__seed": draw(st.integers(0, 3)),
        "perturbations": json.dumps(entries),
    }


def check_folding(folder: Path, fabric: Path, machine: dict[str, Any]) -> None:
    # Law (D4): one process per colour gives every rank the trajectory that one process per rank gives.
    try:
        folded = simulate_small(folder, **machine, cluster__fabric=fabric)
    except (
        InputError
    ) as error:  # an instance takes only some numbers of cores; links that fail may cut the cluster in two
        assume("layout.dp" not in str(error) and "cut" not in str(error))
        raise
    off = simulate_small(folder, **machine, cluster__fabric=fabric, run__folding="off")
    assert folded.provenance.fingerprint == off.provenance.fingerprint
    assert (folded.step, folded.links) == (off.step, off.links)


@settings(max_examples=60, deadline=None)
@given(machine=machines())
def test_folding_changes_nothing_on_perturbed_machines(
    folder: Path, small_switches: Path, machine: dict[str, Any]
) -> None:
    check_folding(folder, small_switches, machine)
