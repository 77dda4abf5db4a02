"""Laws of replicas that sit alike."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small import load_small

from trnsim.documents import data_folder
from trnsim.fabric import ClosedFormFabric
from trnsim.simulation.machine import build_machine, build_rates, build_step
from trnsim.training import Communication
from trnsim.training.communication import Coordinates
from trnsim.training.sharing_groups import sharing_groups
from trnsim.training.stages import pipeline_stages

if TYPE_CHECKING:
    from pathlib import Path

    from trnsim.scenario import Scenario
    from trnsim.simulation.machine import Machine

KINDS = ("efa", "tor-leaf", "neuronlink-xy")


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("replicas")


def of_ports(folder: Path, ports: int) -> Path:
    """Write a fabric of small switches, the lowest 3:1 oversubscribed: 9 chips a switch group with 12 ports, 24 with 32."""
    path = folder / f"switches-of-{ports}.yaml"
    text = (data_folder("topologies") / "ultracluster.yaml").read_text(encoding="utf-8")
    text = text.replace("value: 128", f"value: {ports}").replace("value: 1\n", "value: 3\n", 1)
    path.write_text(text, encoding="utf-8")
    return path


@st.composite
def scenarios(draw: st.DrawFn) -> dict[str, Any]:
    """Draw replicas that lie across servers of 16 chips at all places, with one or two impaired links."""
    tp, pp, dp = draw(st.sampled_from([(1, 6, 24), (2, 5, 24), (4, 3, 24), (4, 6, 12), (8, 3, 12)]))
    entries = [
        {"name": str(number), "of": draw(st.sampled_from(KINDS)), "speed": 0.1, "count": draw(st.integers(1, 3))}
        for number in range(draw(st.integers(0, 2)))
    ]
    if draw(st.booleans()):
        entries.append({"name": "failed", "of": "efa", "failed": True, "count": 1})
    return {
        "cluster__server": "trn2.48xlarge",
        "cluster__servers": -(-tp * pp * dp // 16),
        "layout__order": ["cp", *draw(st.permutations(["tp", "dp", "pp"]))],
        "layout__tp": tp,
        "layout__pp": pp,
        "layout__dp": dp,
        "training__global_batch": 2 * dp,
        "model__tied_embeddings": draw(st.sampled_from(["true", "false"])),
        "model__layers": pp,
        "collectives__algorithm": draw(st.sampled_from(["auto", "ring", "direct"])),
        "run__seed": draw(st.integers(0, 9)),
        "perturbations": json.dumps(entries),
    }


def built(folder: Path, ports: int, scenario: dict[str, Any]) -> tuple[Scenario, Machine]:
    loaded = load_small(folder, **scenario, cluster__fabric=of_ports(folder, ports))
    return loaded, build_machine(loaded)


drawn = given(ports=st.sampled_from([12, 32]), scenario=scenarios())


@drawn
def test_all_ranks_pay_what_the_first_of_them_does(folder: Path, ports: int, scenario: dict[str, Any]) -> None:
    # Law: whatever leaves a server, and whatever is wrong there, a rank sends what the one sends that is priced for it: the
    # same bytes on the same kinds of links, in the same time.
    loaded, machine = built(folder, ports, scenario)
    spec = build_step(loaded, machine, build_rates(loaded), folding=True)
    communication = Communication(machine.fabric, spec, loaded.collectives.algorithm_for)
    groups = sharing_groups(spec, machine.meeting_tier, machine.blocks)
    for replica in range(spec.mesh.size("dp")):
        like = groups.classes[groups.class_of(replica)].like
        for stage in pipeline_stages(spec):
            for tensor in range(spec.mesh.size("tp")):
                own, payer = Coordinates(tensor, stage.number, replica), groups.payer(tensor, stage.number, like)
                prices = [communication.prices(at, stage.exchanges, stage.buckets) for at in (own, payer)]
                assert prices[0] is prices[1], (own, payer)


@drawn
def test_a_message_costs_what_it_would_as_the_first(folder: Path, ports: int, scenario: dict[str, Any]) -> None:
    # Law: prices are kept by what messages have in common, and so that nothing is forgotten that tells them apart.
    _, machine = built(folder, ports, scenario)
    cluster, placement = machine.cluster, machine.placement
    for rank in range(0, machine.mesh.ranks - 20, 5):
        for other in (rank + 1, rank + 7, rank + 20):
            alone = ClosedFormFabric(cluster, placement, machine.impairments)
            assert machine.fabric.send(rank, other, 1e6) == alone.send(rank, other, 1e6), (rank, other)
