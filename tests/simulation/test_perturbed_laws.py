"""Laws of perturbed machines: folding changes nothing, whatever is slow, degraded or has failed."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from drawn_steps import layouts, team_layouts
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from small import simulate_small

from trnsim.documents import data_folder
from trnsim.errors import InputError
from trnsim.units import parse_time

if TYPE_CHECKING:
    from pathlib import Path


class Kind(NamedTuple):
    """What a server has: chips, logical cores of a chip, kinds of links, kinds of places."""

    chips: int
    cores: int
    links: tuple[str, ...]
    units: tuple[str, ...]


SERVERS = {
    "trn3-gen2-ultraserver": Kind(144, 4, ("sled-switch", "rack-switch", "cross-rack"), ("chip", "sled", "rack")),
    "trn2.48xlarge": Kind(16, 4, ("neuronlink-xy",), ("chip",)),
    "trn1.32xlarge": Kind(16, 2, ("neuronlink",), ("chip",)),
}
any_shapes = st.tuples(st.sampled_from([1, 2, 4, 8]), st.integers(1, 4), st.integers(1, 6))
team_shapes = st.tuples(st.sampled_from([2, 4, 8]), st.integers(1, 4), st.integers(2, 6))
"""Sizes of tp, pp, dp."""


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
def machines(draw: st.DrawFn, drawn_layouts: st.SearchStrategy[dict[str, Any]]) -> dict[str, Any]:
    """Draw a small machine for such layouts, with one to three perturbations that bind."""
    name = draw(st.sampled_from(list(SERVERS)))
    server, layout = SERVERS[name], draw(drawn_layouts)
    ranks = layout["layout__tp"] * layout["layout__pp"] * layout["layout__dp"]
    assume(ranks <= 96)
    chips = -(-ranks // (server.cores if layout["layout__rank"] == "logical_core" else 1))
    kinds = ["chips", "chips", *server.links, "efa", "tor-leaf"]
    entries = []
    for number in range(draw(st.integers(1, 3))):
        of = draw(st.sampled_from(kinds))
        entry: dict[str, Any] = {"name": f"p{number}", "of": of}
        if of != "chips" and draw(st.booleans()) and of != "tor-leaf":
            entry["failed"] = True
        else:
            entry["speed"] = draw(st.sampled_from([0.02, 0.3, 0.7, 0.95]))
        if of == "chips" and draw(st.booleans()):
            struck = draw(st.sets(st.integers(0, chips - 1), min_size=1, max_size=3))
            entry["at"] = [f"server {chip // server.chips}/chip {chip % server.chips}" for chip in sorted(struck)]
        elif of != "tor-leaf" and draw(st.booleans()):
            entry |= {"count": 1, "each": draw(st.sampled_from([*server.units, "server"]))}
        else:
            entry["count"] = draw(st.integers(1, 2 if of == "tor-leaf" else 4))
        entries.append(entry)
    return layout | {
        "cluster__server": name,
        "cluster__servers": max(2, -(-chips // server.chips)),
        "collectives__algorithm": draw(st.sampled_from(["auto", "ring", "direct", "hierarchical"])),
        "run__steps": draw(st.integers(1, 3)),
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
    for run in ({"run__folding": "off"}, {"run__engine": "events"}):
        other = simulate_small(folder, **machine, cluster__fabric=small_switches, **run)
        assert folded.provenance.fingerprint == other.provenance.fingerprint
        assert (folded.step, folded.links) == (other.step, other.links)
        assert folded.derived.get("pace") == other.derived.get("pace")
        assert [cost.cost_s for cost in folded.perturbations] == [cost.cost_s for cost in other.perturbations]


perturbed = given(machine=machines(layouts(shapes=any_shapes)))
contracted = given(machine=machines(team_layouts(shapes=team_shapes)))

test_folding_changes_nothing_on_perturbed_machines = settings(max_examples=40)(perturbed(check_folding))
test_teams_change_nothing = settings(max_examples=40)(contracted(check_folding))

test_folding_changes_nothing_on_many_machines = pytest.mark.slow(settings(max_examples=1000)(perturbed(check_folding)))
test_many_teams_change_nothing = pytest.mark.slow(settings(max_examples=1000)(contracted(check_folding)))


def check_names(folder: Path, small_switches: Path, machine: dict[str, Any]) -> None:
    # A step that one slow chip or impaired link makes longer has it on its critical path; so it is named, or what a group
    # does for its sake. Where links are shared it may also hold up what is on the path, and not be on it; and of several steps
    # the last may begin late for some ranks.
    entry = json.loads(machine["perturbations"])[0]
    alone = {key: value for key, value in entry.items() if key not in {"at", "each"}} | {"count": 1}
    alone_on = machine | {"perturbations": json.dumps([alone]), "run__fidelity": "closed_form", "run__steps": 1}
    try:
        found = simulate_small(folder, **alone_on, cluster__fabric=small_switches)
    except InputError as error:
        assume("layout.dp" not in str(error) and "cut" not in str(error))
        raise
    (cost,) = found.perturbations
    if cost.cost_s > 0:
        pace = found.derived["pace"]
        assert cost.places[0] in pace or "in place of" in pace
        longer = (parse_time(text) for text in re.findall(r"about (\S+ \S+) longer", pace))
        assert cost.cost_s <= sum(longer) * 1.01  # without it the path is so much shorter, and others may be longer


test_what_costs_is_named = settings(max_examples=60)(perturbed(check_names))

test_what_costs_is_named_on_many_machines = pytest.mark.slow(settings(max_examples=2000)(perturbed(check_names)))


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


WIDE = {"cluster__servers": 2, "layout__tp": 2, "layout__pp": 1, "layout__dp": 144, "training__global_batch": 144}
TORUS = {"cluster__server": "trn2.48xlarge", "layout__tp": 4, "layout__pp": 2, "layout__dp": 2}


@pytest.mark.parametrize("fidelity", ["flow", "closed_form"])
@pytest.mark.parametrize(
    ("machine", "entry", "said"),
    [
        (WIDE, ("chips", 0.5, "server 1/chip 3"), "server 1/chip 3 at 0.5 of its speed (work of stage 0, about "),
        (WIDE, ("efa", 0.1, "server 1/chip 0"), "efa of server 1/chip 0 at 0.1 of its bandwidth (gradients of stage 0"),
        (WIDE, ("efa", 0.0, "server 1/chip 0"), "efa of server 1/chip 0, which has failed ("),
        (WIDE, ("tor-leaf", 0.1, "tor 1"), "tor-leaf of tor 1 at 0.1 of its bandwidth (gradients of stage 0"),
        (
            TORUS,
            ("neuronlink-xy", 0.1, "server 0/chip 4-chip 5"),
            "server 0/chip 4-chip 5 at 0.1 of its bandwidth (tensor collectives of stage 1",
        ),
        (
            TORUS,
            ("neuronlink-xy", 0.0, "server 0/chip 4-chip 5"),
            "server 0/chip 4-chip 5, which has failed (tensor collectives of stage 1",
        ),
        (
            TORUS,
            ("neuronlink-xy", 0.01, "server 0/chip 1-chip 5"),
            "server 0/chip 1-chip 5 at 0.01 of its bandwidth (",
        ),
        (
            TORUS,
            ("chips", 0.5, "server 0/chip 15"),
            "server 0/chip 15 at 0.5 of its speed (work of stage 1, about ",
        ),
        (
            TORUS,
            ("efa", 0.5, "server 0/chip 15"),
            "no slow chip or impaired link is on the critical path; longest on it: work of stage",
        ),
    ],
)
def test_what_sets_the_pace_is_named(
    folder: Path, small_switches: Path, machine: dict[str, Any], entry: tuple[str, float, str], said: str, fidelity: str
) -> None:
    of, speed, place = entry
    left = {"speed": speed} if speed else {"failed": True}
    perturbation = json.dumps([{"name": "it", "of": of, "at": [place], **left}])
    run = {"run__fidelity": fidelity, "cluster__fabric": small_switches, "perturbations": perturbation}
    assert (
        simulate_small(folder, **{"cluster__servers": 2, **machine}, **run)
        .derived["pace"]
        .removeprefix("set on the critical path by ")
        .startswith(said)
    )


@pytest.mark.parametrize(
    ("of", "place", "idles"),
    [
        ("chips", "server 1/chip 143", True),
        ("efa", "server 1/chip 143", True),
        ("sled-switch", "server 2/chip 0", True),
        ("sled-switch", "server 1/chip 143", False),  # others might send over it
        ("chips", "server 1/chip 0", False),
        ("efa", "server 1", False),
        ("tor-leaf", "tor 0", False),
    ],
)
def test_who_strikes_chips_without_ranks_is_told_so(folder: Path, of: str, place: str, idles: bool) -> None:
    entry = json.dumps([{"name": "it", "of": of, "speed": 0.5, "at": [place]}])
    wide: dict[str, Any] = WIDE | {"cluster__servers": 3, "layout__dp": 76, "training__global_batch": 76}
    found = simulate_small(folder, **wide, perturbations=entry)
    warned = "perturbation it has no effect: it strikes chips that no rank is on" in found.warnings
    assert warned == idles
    assert not (idles and found.perturbations[0].cost_s)


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
