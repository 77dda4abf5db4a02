"""Cases in which a careless fold is wrong: each is simulated right here, or refused.

`tests/mutations.py` breaks the code on purpose and sees these tests fail.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from small import BASE, load_small, simulate_small

import trnsim
from trnsim.engine import fingerprint
from trnsim.errors import InputError
from trnsim.fabric import Price, Task
from trnsim.simulation import simulated
from trnsim.simulation.machine import build_machine
from trnsim.simulation.run import run_scenario
from trnsim.training import Contraction

if TYPE_CHECKING:
    from pathlib import Path

    from trnsim import Result
    from trnsim.simulation.simulated import Simulated


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("counter")


def verified(folder: Path, *wrong: dict[str, Any], **overrides: Any) -> Result:
    """Simulate with and without folding; every operation of every rank is compared, and they have one fingerprint."""
    overrides["perturbations"] = json.dumps([{"name": f"p{n}", **each} for n, each in enumerate(wrong)])
    folded = simulate_small(folder, **overrides, run__folding="verify")
    assert (
        folded.provenance.fingerprint == simulate_small(folder, **overrides, run__folding="off").provenance.fingerprint
    )
    return folded


def slow(*chips: int, speed: float = 0.5) -> dict[str, Any]:
    return {"of": "chips", "speed": speed, "at": [f"server 0/chip {chip}" for chip in chips]}


def run(folder: Path, *wrong: dict[str, Any], **overrides: Any) -> Simulated:
    named = json.dumps([{"name": f"p{n}", **each} for n, each in enumerate(wrong)])
    scenario = load_small(folder, **overrides, perturbations=named)
    return run_scenario(scenario, build_machine(scenario))


RANK_LEVEL: dict[str, Any] = {"layout__tp": 1, "layout__pp": 4, "layout__dp": 6, "training__global_batch": 24}
TEAMS: dict[str, Any] = {"layout__tp": 4, "layout__pp": 2, "layout__dp": 6, "training__global_batch": 12}
A_SERVER_EACH: dict[str, Any] = {"cluster__servers": 3, "layout__tp": 16, "layout__pp": 9, "layout__dp": 3}
A_SERVER_EACH |= {"model__layers": 9, "training__global_batch": 6, "run__fidelity": "closed_form", "run__steps": 1}
TEAMS["run__fidelity"] = "closed_form"


def test_initial_colours_are_not_enough(folder: Path) -> None:
    # One slow chip in the last stage: ranks of its pipeline have the initial colours of all others, and other neighbours.
    found = verified(folder, slow(3), **RANK_LEVEL)
    assert found.engine.cohorts == 2 * 4


def test_who_shares_a_tensor_group_with_a_slow_chip_is_apart(folder: Path) -> None:
    # Its mates are as fast as anybody and leave every pass late: it, they, and whom it and they reduce with are four sorts.
    found = verified(
        folder, slow(5), layout__tp=4, layout__pp=1, layout__dp=6, training__global_batch=6, layout__zero=2
    )
    assert found.engine.cohorts == 4


def test_two_speeds_are_two_colours(folder: Path) -> None:
    found = verified(folder, slow(0, speed=0.5), slow(4, speed=0.7), **RANK_LEVEL)
    assert found.engine.cohorts == 3 * 4


@pytest.mark.parametrize("zero", [0, 2])
def test_a_degraded_link_inside_a_server_tells_its_replica_apart(folder: Path, zero: int) -> None:
    # Nobody is slow; in the second of three servers, a replica each, the switch of a sled gives a tenth to one chip. With
    # ZeRO-2 there are no teams.
    link, shape = {"of": "sled-switch", "speed": 0.1, "at": ["server 1/sled 1"]}, A_SERVER_EACH | {"layout__zero": zero}
    found, healthy = verified(folder, link, **shape), simulate_small(folder, **shape)
    assert found.engine.cohorts > healthy.engine.cohorts
    assert found.step.time_s > healthy.step.time_s


def test_a_slow_chip_tells_its_replica_apart(folder: Path) -> None:
    late = {"of": "chips", "speed": 0.5, "at": ["server 1/chip 0"]}
    found, healthy = verified(folder, late, **A_SERVER_EACH), simulate_small(folder, **A_SERVER_EACH)
    assert found.engine.cohorts > healthy.engine.cohorts
    assert found.step.time_s > healthy.step.time_s


def test_a_degraded_link_between_stages_tells_its_replica_apart(folder: Path) -> None:
    shape = {**RANK_LEVEL, "run__fidelity": "closed_form", "layout__dp": 8, "training__global_batch": 16}
    link = {"of": "sled-switch", "speed": 0.01, "at": ["server 0/sled 2"]}
    found, healthy = verified(folder, link, **shape), simulate_small(folder, **shape)
    assert found.engine.cohorts == 2 * healthy.engine.cohorts
    assert found.step.time_s > healthy.step.time_s


def test_kinds_of_links_are_part_of_a_colour() -> None:
    # Two replicas pay the same time for a message, on links of different kinds; only one kind is shared with collectives.
    prices = [Price(1e-6, {}, kind, Task("t", "t", 0.0), {kind: 1e-6}) for kind in ("sled-switch", "rack-switch")]
    assert prices[0].time_s == prices[1].time_s
    assert prices[0].spent != prices[1].spent


@pytest.mark.parametrize("algorithm", ["ring", "direct"])
def test_first_come_first_served_is_not_folded(folder: Path, algorithm: str) -> None:
    # On a link that serves its users in turn equal ranks end at different times, and in a ring it matters which two slow
    # edges are neighbours: `chunk` simulates every rank, whatever `folding` says.
    shape = {"layout__tp": 4, "layout__pp": 2, "layout__dp": 2, "training__global_batch": 4, "run__fidelity": "chunk"}
    found = simulate_small(folder, **shape, collectives__algorithm=algorithm)
    assert found.engine.cohorts == found.cluster.ranks == 16


def test_verify_says_how_much_it_compared(folder: Path) -> None:
    ranks = run(folder, slow(5), **TEAMS, run__folding="off").cohorts
    operations = sum(len(rank.log) + len(rank.stream) for rank in ranks)
    said = verified(folder, slow(5), **TEAMS).derived["verified"]
    assert said == f"{operations:,} operations of {len(ranks)} ranks are the same without folding"


def test_chunk_refuses_to_fold(folder: Path) -> None:
    with pytest.raises(InputError, match="folding"):
        simulate_small(folder, run__fidelity="chunk", run__folding="verify")


def test_mates_of_a_slow_chip_part_for_the_update(folder: Path) -> None:
    # A team through the update would be wrong: a rank whose optimizer is slow keeps its data-parallel group, not its mates.
    found = run(folder, slow(5, speed=0.2), **TEAMS, layout__zero=0, run__steps=2)
    assert isinstance(found.folding, Contraction)
    ends = Counter[int]()
    for member in found.members:
        if member.node.stage.number == 1:
            ends[member.cohort.step_ends[-1][2]] += member.cohort.ranks
    assert ends[max(ends)] == 1
    assert len(ends) == 2
    verified(folder, slow(5, speed=0.2), **TEAMS, layout__zero=0)
    verified(folder, slow(5, speed=0.2), **TEAMS, layout__zero=1)


def test_a_later_step_begins_apart(folder: Path) -> None:
    # The slow rank of a team begins the second step later than its mates, and they wait in its first collective only.
    verified(folder, slow(0, 9, 22, speed=0.05), **TEAMS, layout__zero=0, run__steps=3)


def test_paces_and_prices_tell_bodies_apart(folder: Path) -> None:
    # Slow chips in the first stage of one replica, in the second of another, in both of a third, there two speeds; a
    # degraded link in a fourth; two that are healthy: five bodies of two teams.
    wrong = slow(0, 12, 16), slow(20, speed=0.7), {"of": "sled-switch", "speed": 0.1, "at": ["server 0/sled 6"]}
    found = run(folder, *wrong, **TEAMS)
    assert isinstance(found.folding, Contraction)
    assert found.bodies is not None
    assert found.bodies.count == 5
    assert found.processes == 2 * 5 + len(found.folding.tails.slowest)
    verified(folder, *wrong, **TEAMS)


def test_a_step_that_begins_like_the_first_is_not_simulated_again(folder: Path) -> None:
    # With a gather at its end all ranks of a stage end a step together, and begin the next as they began the first.
    once, often = (run(folder, slow(0, 20), **TEAMS, layout__zero=1, run__steps=steps) for steps in (1, 5))
    assert once.bodies is not None
    assert often.bodies is not None
    assert (often.bodies.count, often.bodies.events) == (once.bodies.count, once.bodies.events)
    assert all(len(member.cohort.step_ends) == 5 for member in often.members)
    verified(folder, slow(0, 20), **TEAMS, layout__zero=1, run__steps=5)


def test_a_run_without_uplinks_needs_no_new_bodies(folder: Path) -> None:
    # What a perturbation costs is found by a run without it; trunks between switches are no matter of a replica's passes.
    shape = A_SERVER_EACH | {"run__fidelity": "flow"}
    late = {"of": "chips", "speed": 0.5, "at": ["server 1/chip 0"]}
    both = run(folder, late, {"of": "tor-leaf", "speed": 0.5, "at": ["tor 0"]}, **shape)
    assert both.bodies is not None
    count = both.bodies.count
    named = json.dumps([{"name": "late", **late}])
    scenario = load_small(folder, **shape, perturbations=named)
    alone_s = simulated.last_step_s(scenario, build_machine(scenario), folding=True, like=both)
    assert alone_s == simulated.run_engine(scenario, build_machine(scenario), folding=True).window.duration_s
    assert both.bodies.count == count


@pytest.mark.parametrize(("chips", "bodies"), [((0, 15), 2), ((64, 79), 3)])
def test_who_comes_late_to_a_collective_needs_a_body_of_its_own(
    folder: Path, chips: tuple[int, int], bodies: int
) -> None:
    # The fifth of nine tensor groups lies in two racks, so messages come to its halves at different times; there it matters
    # which of them has the slow chip. In the first group it does not, and two replicas have one body.
    late = {"of": "chips", "speed": 0.3, "at": [f"server {server}/chip {chip}" for server, chip in enumerate(chips)]}
    found = run(folder, late, **A_SERVER_EACH)
    assert found.bodies is not None
    assert found.bodies.count == bodies
    verified(folder, late, **A_SERVER_EACH)


def test_a_message_that_outlasts_the_reduction_is_folded_by_ranks(folder: Path) -> None:
    # One NIC is so slow that the last gradient to the stage before is under way when the reduction has ended: ranks of a
    # tensor group are no longer together then, which is found after the run, and all ranks are folded as without teams.
    shape = {
        "cluster__servers": 2,
        "layout__order": "[tp, cp, dp, pp]",
        "layout__tp": 4,
        "layout__pp": 8,
        "layout__dp": 9,
    }
    shape |= {"training__global_batch": 18, "run__fidelity": "closed_form", "run__steps": 1}
    nic = {"of": "efa", "at": ["server 0/chip 110"]}
    assert isinstance(run(folder, slow(5), nic | {"speed": 0.5}, **shape).folding, Contraction)
    assert not isinstance(run(folder, slow(5), nic | {"speed": 0.002}, **shape).folding, Contraction)
    verified(folder, slow(5), nic | {"speed": 0.002}, **shape)


def test_a_message_and_a_reduction_on_one_kind_of_link_slow_each_other(folder: Path) -> None:
    # Stages and replicas both in one rack: the last gradients that late replicas send slow what is reduced meanwhile.
    found = run(folder, slow(5), **(TEAMS | {"run__fidelity": "flow"})).folding
    assert isinstance(found, Contraction)
    assert any(sort.is_late for sort in found.sorts)
    verified(folder, slow(5), **(TEAMS | {"run__fidelity": "flow"}))


def test_a_stage_that_still_reduces_when_the_next_step_reaches_it_is_folded_by_ranks(folder: Path) -> None:
    # With a trunk at a fiftieth some stages reduce so long that an activation of the next step comes meanwhile.
    shape = {"cluster__server": "trn2.48xlarge", "cluster__servers": 2, "layout__order": "[tp, cp, dp, pp]"}
    shape |= {"layout__tp": 2, "layout__pp": 4, "layout__dp": 3, "training__global_batch": 3, "run__fidelity": "flow"}
    shape |= {"training__data_parallel_overlap": "none", "model__tied_embeddings": "true"}
    trunk = {"of": "efa", "speed": 0.002, "at": ["server 0/chip 15"]}
    assert isinstance(run(folder, trunk, slow(5), **shape, run__steps=1).folding, Contraction)
    assert not isinstance(run(folder, trunk, slow(5), **shape, run__steps=2).folding, Contraction)
    verified(folder, trunk, slow(5), **shape, run__steps=2)


@pytest.mark.parametrize("chips", [1, 3])
def test_teams_do_what_ranks_do_at_a_million_chips(monkeypatch: pytest.MonkeyPatch, chips: int) -> None:
    # Too many to simulate each, so one fold is held against the other: fingerprints are over all 1,000,080 ranks.
    wrong = [
        {"name": "slow", "of": "chips", "speed": 0.87, "count": chips},
        {"name": "uplinks", "of": "tor-leaf", "speed": 0.5, "count": 100},
    ]
    scenario = trnsim.load("trn3-million", [f"perturbations={json.dumps(wrong)}"])
    machine = build_machine(scenario)
    teams = simulated.run_engine(scenario, machine, folding=True)
    monkeypatch.setattr(simulated, "contract", lambda *_, **__: None)
    ranks = simulated.run_engine(scenario, machine, folding=True)
    assert (isinstance(teams.folding, Contraction), isinstance(ranks.folding, Contraction)) == (True, False)
    assert fingerprint(teams.cohorts) == fingerprint(ranks.cohorts)
    assert sum(member.cohort.ranks for member in teams.members) == 1_000_080


@pytest.mark.parametrize("fidelity", ["closed_form", "flow"])
def test_a_replay_is_one_with_events(folder: Path, fidelity: str) -> None:
    # Slow chips, which come late to the second step, and a slow trunk; in the fifth stage of nine two teams meet.
    late = {"of": "chips", "speed": 0.3, "at": ["server 0/chip 64", "server 1/chip 0"]}
    trunk = {"of": "tor-leaf", "speed": 0.5, "at": ["tor 0"]}
    named = json.dumps([{"name": "late", **late}, {"name": "trunk", **trunk}])
    shape = A_SERVER_EACH | {"run__steps": 2, "run__fidelity": fidelity, "training__global_batch": 60}
    by = {
        engine: simulate_small(folder, **shape, perturbations=named, run__engine=engine)
        for engine in ("replay", "events")
    }
    assert {engine: result.engine.engine for engine, result in by.items()} == {"replay": "replay", "events": "events"}
    assert by["replay"].provenance.fingerprint == by["events"].provenance.fingerprint
    assert by["replay"].step == by["events"].step
    assert [each.cost_s for each in by["replay"].perturbations] == [each.cost_s for each in by["events"].perturbations]


@pytest.mark.parametrize(
    ("run", "message"),
    [
        ({}, "no ranks of this step can be simulated as teams"),
        ({"run__folding": "off"}, "folding off runs every rank, and nothing of that is replayed"),
        ({"run__fidelity": "chunk"}, "fidelity chunk follows single messages, and nothing of that is replayed"),
    ],
)
def test_what_cannot_be_replayed_is_refused_if_it_must_be(folder: Path, run: dict[str, str], message: str) -> None:
    wrong = json.dumps([{"name": "slow", **slow(3)}])
    with pytest.raises(InputError, match=message):
        simulate_small(folder, **RANK_LEVEL, **run, perturbations=wrong, run__engine="replay")


@pytest.mark.parametrize(
    ("added", "changes", "place"),
    [
        ("engine: replay", ["layout.zero=3"], "line 19"),
        ("seed: 1\ncollectives: {algorithm: torus}", [], "line 20"),
        ("seed: 1", ["collectives.algorithm=torus"], "--set"),
        ("seed: 1", ["training.sequence_length=4194304"], "line 16"),  # of layout: a rank needs too much memory
    ],
)
def test_what_only_a_run_finds_has_the_line_of_its_key(
    folder: Path, added: str, changes: list[str], place: str
) -> None:
    path = folder / "late.yaml"
    path.write_text(BASE.replace("run: {steps: 2}", f"run:\n  {added}"), encoding="utf-8")
    with pytest.raises(InputError) as refused:
        trnsim.simulate(trnsim.load(path, changes))
    (problem,) = refused.value.problems
    assert (problem.place, problem.file) == (place, str(path))
