"""Laws of replicas that sit alike."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from small import load_small

from trnsim.documents import data_folder
from trnsim.errors import InputError
from trnsim.simulation.machine import build_machine, build_rates, build_step
from trnsim.training import Communication
from trnsim.training.communication import Coordinates
from trnsim.training.sharing_groups import sharing_groups
from trnsim.training.stages import pipeline_stages

if TYPE_CHECKING:
    from pathlib import Path

KINDS = ("efa", "tor-leaf", "leaf-spine", "neuronlink-xy")


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("replicas")


@pytest.fixture(scope="session")
def small_switches(folder: Path) -> Path:
    """Write a fabric of 12-port switches, the lowest 3:1 oversubscribed: 9 chips a switch group, out of step with servers."""
    text = (data_folder("topologies") / "ultracluster.yaml").read_text(encoding="utf-8")
    path = folder / "small-switches.yaml"
    path.write_text(text.replace("value: 128", "value: 12").replace("value: 1\n", "value: 3\n", 1), encoding="utf-8")
    return path


@st.composite
def machines(draw: st.DrawFn) -> dict[str, Any]:
    """Draw replicas that lie across servers of 16 chips at all places, with one or two impaired links."""
    tp, pp, dp = draw(st.sampled_from([(1, 6, 8), (2, 5, 9), (4, 3, 12), (4, 6, 6), (8, 3, 6), (3, 4, 8)]))
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


@given(machine=machines())
def test_all_ranks_pay_what_the_first_of_them_does(folder: Path, small_switches: Path, machine: dict[str, Any]) -> None:
    # Law: whatever leaves a server, and whatever is wrong there, a rank sends what the one sends that is priced for it: the
    # same bytes on the same kinds of links, in the same time.
    try:
        scenario = load_small(folder, **machine, cluster__fabric=small_switches)
    except InputError as error:  # what is drawn is too small for its ranks
        assume("model" not in str(error) and "layout" not in str(error))
        raise
    place = build_machine(scenario)
    spec = build_step(scenario, place, build_rates(scenario), folding=True)
    communication = Communication(place.fabric, spec, scenario.collectives.algorithm_for)
    stages = pipeline_stages(spec)
    groups = sharing_groups(spec, place.meeting_tier, place.blocks)
    for replica in range(spec.mesh.size("dp")):
        like = groups.classes[groups.class_of(replica)].like
        for stage in stages:
            for tensor in range(spec.mesh.size("tp")):
                own, payer = Coordinates(tensor, stage.number, replica), groups.payer(tensor, stage.number, like)
                prices = [communication.prices(at, stage.exchanges, stage.buckets) for at in (own, payer)]
                assert prices[0] is prices[1], (own, payer)
