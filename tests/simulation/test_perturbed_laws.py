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


def check_folding(folder: Path, small_switches: Path, machine: dict[str, Any]) -> None:
    # Law (D4): one process per colour gives every rank the trajectory that one process per rank gives: `verify` compares
    # every operation of every rank, and the fingerprint is one.
    try:
        folded = simulate_small(folder, **machine, cluster__fabric=small_switches, run__folding="verify")
    except (
        InputError
    ) as error:  # an instance takes only some numbers of cores; links that fail may cut the cluster in two
        assume("layout.dp" not in str(error) and "cut" not in str(error))
        raise
    off = simulate_small(folder, **machine, cluster__fabric=small_switches, run__folding="off")
    assert folded.provenance.fingerprint == off.provenance.fingerprint
    assert (folded.step, folded.links) == (off.step, off.links)
    assert [cost.cost_s for cost in folded.perturbations] == [cost.cost_s for cost in off.perturbations]


def check_teams(
    folder: Path, small_switches: Path, machine: dict[str, Any], chips: int, speed: float, steps: int
) -> None:
    # Phase-wise contraction where it is tried: slow chips in tensor groups of several replicas, or replicas across servers.
    machine |= {"run__steps": steps}
    machine["layout__tp"], machine["layout__dp"] = max(2, machine["layout__tp"]), max(2, machine["layout__dp"])
    ranks = machine["layout__tp"] * machine["layout__pp"] * machine["layout__dp"]
    machine["cluster__servers"] = max(2, -(-ranks // SERVERS[machine["cluster__server"]][0]))
    machine["training__global_batch"] = 2 * machine["layout__dp"]
    entries = [
        *json.loads(machine["perturbations"]),
        {"name": "slow", "of": "chips", "speed": speed, "at": [_chip(machine, 7 * k % ranks) for k in range(chips)]},
    ]
    check_folding(folder, small_switches, machine | {"perturbations": json.dumps(entries)})


perturbed = given(machine=machines())
slowed = given(
    machine=machines(), chips=st.integers(1, 6), speed=st.sampled_from([0.05, 0.5, 0.9]), steps=st.integers(1, 3)
)

test_folding_changes_nothing_on_perturbed_machines = settings(max_examples=40)(perturbed(check_folding))
test_teams_change_nothing = settings(max_examples=40)(slowed(check_teams))

test_folding_changes_nothing_on_many_machines = pytest.mark.slow(settings(max_examples=1000)(perturbed(check_folding)))
test_many_teams_change_nothing = pytest.mark.slow(settings(max_examples=1000)(slowed(check_teams)))


def _chip(machine: dict[str, Any], number: int) -> str:
    server, chip = divmod(number, SERVERS[machine["cluster__server"]][0])
    return f"server {server}/chip {chip}"


def test_a_slow_chip_costs_what_theory_says(folder: Path) -> None:
    # Without pipeline and tensor groups everybody waits for the slow chip: it computes and updates for 1/speed as long,
    # and the others' time is that plus what the collectives take.
    alone = {"layout__tp": 1, "layout__pp": 1, "layout__dp": 8, "run__skew": "off", "run__fidelity": "closed_form"}
    alone["training__data_parallel_overlap"] = "none"
    healthy = simulate_small(folder, **alone).step
    slow = json.dumps([{"name": "slow", "of": "chips", "speed": 0.8, "at": ["server 0/chip 5"]}])
    found = simulate_small(folder, **alone, perturbations=slow)
    own_s = healthy.breakdown_s.compute + healthy.breakdown_s.recompute + healthy.breakdown_s.optimizer
    assert found.step.time_s == pytest.approx(
        healthy.time_s + own_s * (1 / 0.8 - 1), abs=1e-9
    )  # operations end at whole ps
    assert found.perturbations[0].cost_s == pytest.approx(found.step.time_s - healthy.time_s, rel=1e-9)
    assert found.engine.cohorts == 2


def test_a_slow_chip_makes_one_team_of_each_stage(folder: Path) -> None:
    # Theory: the replica of the slow chip is apart, so there are twice the teams; its stage's gradients have a slowest rank.
    alone = {
        "layout__tp": 4,
        "layout__pp": 2,
        "layout__dp": 18,
        "training__global_batch": 36,
        "run__fidelity": "closed_form",
    }
    slow = json.dumps([{"name": "slow", "of": "chips", "speed": 0.8, "at": ["server 0/chip 5"]}])
    found = simulate_small(folder, **alone, perturbations=slow, run__folding="verify")
    assert found.engine.cohorts == 2 * 2 + 3  # and tails: two in the stage of the slow chip
    assert "teams" in found.derived["cohorts"]
    assert "server 0/chip 5" in found.derived["pace"]


def test_a_degraded_nic_holds_back_the_groups_that_use_it(folder: Path) -> None:
    # Data-parallel groups span two servers; one NIC at a tenth lengthens the gradients of its group only.
    wide: dict[str, Any] = {
        "cluster__servers": 2,
        "layout__tp": 2,
        "layout__pp": 1,
        "layout__dp": 144,
        "training__global_batch": 144,
    }
    wide |= {"collectives__algorithm": "ring", "run__fidelity": "closed_form", "run__skew": "off"}
    nic = json.dumps([{"name": "nic", "of": "efa", "speed": 0.1, "at": ["server 1/chip 0"]}])
    healthy, slow = simulate_small(folder, **wide), simulate_small(folder, **wide, perturbations=nic)
    assert slow.step.breakdown_s.exposed_dp > 1.5 * healthy.step.breakdown_s.exposed_dp
    assert slow.step.breakdown_rank % 2 == 0


def test_a_failed_link_is_gone_round(folder: Path) -> None:
    # A chip of a torus without its link to the right takes more hops; the step is longer, and nobody is cut off.
    torus = {"cluster__server": "trn2.48xlarge", "layout__tp": 16, "layout__pp": 1, "layout__dp": 1}
    dead = json.dumps([{"name": "dead", "of": "neuronlink-xy", "failed": True, "at": ["server 0/chip 0-chip 1"]}])
    healthy, broken = simulate_small(folder, **torus), simulate_small(folder, **torus, perturbations=dead)
    assert broken.step.breakdown_s.exposed_tp > healthy.step.breakdown_s.exposed_tp


def test_verify_names_the_first_operation_that_differs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A fold that forgets how fast chips are is wrong, and is found out.
    from trnsim.errors import FoldingError
    from trnsim.training import folding

    monkeypatch.setattr(folding.Node, "colour", property(lambda node: (node.stage.number, node.prices.key)))
    slow = json.dumps([{"name": "slow", "of": "chips", "speed": 0.5, "at": ["server 0/chip 0"]}])
    with pytest.raises(
        FoldingError, match=r"rank \d+ \(dp\d+.pp0.tp0\) does not do the same when folded: its operation \d+"
    ):
        simulate_small(folder, layout__tp=1, layout__pp=1, layout__dp=4, perturbations=slow, run__folding="verify")
