"""The critical path: without a gap, only along what somebody waited for, and the same with and without folding."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from drawn_steps import (
    Apart,
    DrawnPrices,
    layouts,
    loaded,
    new_bodies,
    of_drawn_prices,
    on_other_links,
    palettes,
    slow_chips,
    speeds,
    team_layouts,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from small import load_small

from trnsim.engine import Activity, last_step
from trnsim.simulation.machine import build_machine
from trnsim.simulation.simulated import run_engine
from trnsim.training import contract, contraction, critical_path

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from drawn_steps import Drawn

    from trnsim.fabric import Price
    from trnsim.training import Leg, Member, Teams


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("paths")


def check_path(
    folder: Path, layout: dict[str, Any], chips: dict[int, float], palette: list[Price], seed: int, speed: float
) -> None:
    drawn = of_drawn_prices(folder, layout, chips, palette, seed, speed)
    prices = DrawnPrices(drawn.spec, [*palette, on_other_links(palette[0])], seed, columns=8)

    def path_of(members: Sequence[Member], member_of: Callable[[int], Member]) -> list[Leg]:
        window = last_step([member.cohort for member in members])
        last = next(member for member in members if member.cohort is window.last)
        return critical_path(member_of, drawn.spec, prices, window, last.node.first_rank)

    alone, _ = drawn.live(drawn.unfolded)
    path = path_of(alone, alone.__getitem__)
    window = last_step([member.cohort for member in alone])
    assert [window.end_ps, *(leg.start_ps for leg in path)] == [*(leg.end_ps for leg in path), window.start_ps]
    for leg in path[:-1]:  # nobody waits on the path: it takes what it takes alone, and longer only on shared links
        work = leg.operation if isinstance(leg.operation, Activity) else leg.transfer.course  # type: ignore[union-attr]
        took_ps = leg.end_ps - leg.start_ps
        assert took_ps >= work.duration_ps
        assert took_ps == work.duration_ps or layout["run__fidelity"] == "flow"
    folded, _ = drawn.live(drawn.folded)
    colours = drawn.folded.colouring.colours
    assert said(path_of(folded, lambda rank: folded[colours[rank]])) == said(path)
    teams = teams_of(drawn, prices)
    if teams is not None and teams.holds:
        views = {view.cohort.key: view for view in teams.members}  # type: ignore[attr-defined]  # a view has one
        assert said(path_of(teams.members, lambda rank: views[teams.found.key_of(rank)])) == said(path)


def teams_of(drawn: Drawn, prices: DrawnPrices) -> Teams | None:
    """Play a step by teams, if that is tried."""
    shared, machine = drawn.scenario.run.fidelity == "flow", build_machine(drawn.scenario)
    spec = replace(drawn.spec, folding=True)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(contraction, "Replicas", Apart)  # prices are drawn for each
        found = contract(spec, prices, machine.meeting_tier, machine.blocks, links_are_shared=shared)
    return None if found is None else found.play(new_bodies(links_are_shared=shared))


def said(path: list[Leg]) -> list[object]:
    return [(leg.rank, leg.operation.name, leg.ranks, leg.start_ps, leg.end_ps) for leg in path]


drawn = given(
    layout=st.one_of(layouts(), team_layouts()),
    chips=slow_chips,
    palette=palettes,
    seed=st.integers(0, 9),
    speed=speeds,
)

test_drawn_paths = settings(max_examples=100)(drawn(check_path))

test_many_drawn_paths = pytest.mark.slow(settings(max_examples=4000)(drawn(check_path)))


@settings(max_examples=30)
@given(layout=layouts(most_rounds=1), chip=st.integers(0, 3))
def test_the_path_has_no_gap_where_single_messages_are_followed(
    folder: Path, layout: dict[str, Any], chip: int
) -> None:
    # a chip that does everything a hundred times as slow as others is the one that all wait for
    slow = json.dumps([{"name": "slow", "of": "chips", "speed": 0.01, "at": [f"server 0/chip {chip}"]}])
    layout |= {"run__fidelity": "chunk", "training__tensor_parallel_overlap": "none", "cluster__servers": 2}
    scenario = loaded(folder, layout, perturbations=slow)
    run = run_engine(scenario, build_machine(scenario), folding=False)
    last = run.last.node.first_rank
    path = critical_path(run.members_by_rank(), run.spec, run.communication, run.window, last, are_together=False)
    assert [run.window.end_ps, *(leg.start_ps for leg in path)] == [*(leg.end_ps for leg in path), run.window.start_ps]
    worked = Counter[float]()
    for leg in path:
        if isinstance(leg.operation, Activity):
            worked[run.spec.slow.get(leg.rank, 1.0)] += leg.end_ps - leg.start_ps
    assert not run.spec.slow or worked[0.01] > worked[1.0]


def test_collectives_that_queue_follow_each_other(folder: Path) -> None:
    # Over a slow NIC the first sum of gradients outlasts the backward pass by far: all others queue behind it, and were
    # joined while it went on. So the rest of the backward pass is not on the path.
    nic = json.dumps([{"name": "nic", "of": "efa", "speed": 0.05, "at": ["server 1/chip 0"]}])
    wide = {"cluster__servers": 2, "layout__tp": 2, "layout__pp": 1, "layout__dp": 144, "training__global_batch": 144}
    buckets = {"training__bucket_parameters": "1e5", "model__layers": 4}
    scenario = load_small(folder, **wide, **buckets, run__fidelity="closed_form", perturbations=nic)
    run = run_engine(scenario, build_machine(scenario), folding=True)
    last = run.last.node.first_rank
    path = critical_path(run.members_by_rank(), run.spec, run.communication, run.window, last)
    gathers, sums = ([f"{what} {number}" for number in range(6)] for what in ("weights", "gradients"))
    assert [leg.operation.name for leg in path] == [*gathers, "optimizer", *sums[::-1], "backward", "forward"]
    backward_s = sum(activity.duration_s for activity in run.last.plan.passes[0].segments)
    assert path[-2].operation.duration_s < backward_s / 4  # type: ignore[union-attr]  # an activity
