"""Teams and tails do what every rank does alone, where all that they send meets on a few links."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING, Any

import pytest
from drawn_steps import (
    Apart,
    DrawnPrices,
    drawn_price,
    new_bodies,
    of_drawn_prices,
    on_other_links,
    palettes,
    slow_chips,
    speeds,
    team_layouts,
)
from hypothesis import HealthCheck, event, given, reject, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from trajectories import hold_to_their_logs

from trnsim.engine import fingerprint
from trnsim.simulation.machine import build_machine
from trnsim.training import contract, contraction, resumption
from trnsim.training.resumption import idle_ps

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from trnsim.fabric import Price


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contraction, "Replicas", Apart)


def rows(cohort: Any) -> list[object]:
    done = [(row.operation.name, *row[1:]) for log in (cohort.log, cohort.stream) for row in log.rows()]
    return [*done, *cohort.step_ends]


def compare(
    folder: Path,
    layout: dict[str, Any],
    chips: dict[int, float],
    palette: list[Price],
    seed: int,
    speed: float,
    columns: int = 8,
    rare: int = 1,
    earlier_ps: Sequence[int] = (0,),
) -> str:
    """Hold teams and tails against one process for each rank; say what came of it."""
    shared = layout["run__fidelity"] == "flow"
    drawn = of_drawn_prices(folder, layout, chips, palette, seed, speed, columns=columns, rare=rare)
    machine = build_machine(drawn.scenario)
    prices = DrawnPrices(drawn.spec, [*palette, on_other_links(palette[0])], seed, columns, rare)
    spec = replace(drawn.spec, folding=True)
    found = contract(spec, prices, machine.meeting_tier, machine.blocks, links_are_shared=shared)
    if found is None:
        reject()
    bodies = new_bodies(links_are_shared=shared)
    sooner = cycle(earlier_ps)
    with pytest.MonkeyPatch.context() as patched:  # stages of late replicas may go on from any earlier time
        patched.setattr(resumption, "idle_ps", lambda spans, until_ps: idle_ps(spans, until_ps - next(sooner)))
        teams = found.play(bodies)
    if not teams.holds:
        return "folded by ranks"
    alone, _ = drawn.live(drawn.unfolded)
    of_kind = {member.cohort.key: rows(member.cohort) for member in teams.members}  # type: ignore[attr-defined]  # a view has one
    for rank, member in enumerate(alone):
        assert of_kind[teams.found.key_of(rank)] == rows(member.cohort), drawn.spec.mesh.label(rank)
    assert sum(member.cohort.ranks for member in teams.members) == len(alone)
    assert fingerprint(member.cohort for member in teams.members) == fingerprint(member.cohort for member in alone)
    hold_to_their_logs(member.cohort for member in teams.members)
    if not any(sort.is_late for sort in teams.found.sorts):
        return "teams"
    late = "late" if len(set(teams.found.columns)) == len(teams.found.columns) else "late, some tensor ranks alike"
    return f"{late}, and some passes left out" if bodies.repeated else late


drawn = given(
    layout=team_layouts(),
    chips=slow_chips,
    palette=palettes,
    seed=st.integers(0, 9),
    speed=speeds,
    columns=st.sampled_from([1, 2, 8, 8]),
    rare=st.sampled_from([1, 1, 5, 20]),
    earlier_ps=st.lists(st.sampled_from([0, 0, 30, 300]), min_size=1, max_size=5),
)


def check_teams(apart: None, folder: Path, **what: Any) -> None:
    event(compare(folder, **what))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("teams")


NO_FIXTURES = [HealthCheck.function_scoped_fixture]  # what is patched is the same for all examples

test_teams_do_what_their_ranks_do_alone = settings(max_examples=200, suppress_health_check=NO_FIXTURES)(
    drawn(check_teams)
)
test_teams_do_what_their_ranks_do_alone_often = pytest.mark.slow(
    settings(max_examples=5000, suppress_health_check=NO_FIXTURES)(drawn(check_teams))
)


FOUND = {
    "layout__order": ["cp", "tp", "dp", "pp"],
    "layout__tp": 2,
    "layout__pp": 2,
    "layout__dp": 2,
    "layout__zero": 0,
    "layout__rank": "chip",
    "model__layers": 2,
    "model__tied_embeddings": "true",
    "training__bucket_parameters": "1e6",
    "training__data_parallel_overlap": "buckets",
    "training__recompute": "none",
    "schedule__kind": "1f1b",
    "schedule__sends": "blocking",
    "run__steps": 1,
    "run__fidelity": "flow",
}
ONE_PS = [drawn_price(0, {"efa": 1})] * 2


def test_reductions_of_all_ranks_of_a_team_may_meet_its_passes(apart: None, folder: Path) -> None:
    # Found by the law: the second tensor rank is reduced on other links than the first, on which the passes are as well.
    layout = FOUND | {"layout__dp": 3, "training__global_batch": 3}
    assert compare(folder, layout, {}, ONE_PS, seed=5, speed=1e21) == "late"


def test_who_has_the_last_gradient_works_before_others_have_it(apart: None, folder: Path) -> None:
    # Found by the law: a slow rank has the last gradient before its mate, and is through with its first matmuls earlier.
    layout = FOUND | {"layout__order": ["cp", "dp", "tp", "pp"], "training__recompute": "selective"}
    layout["training__global_batch"] = 2
    assert compare(folder, layout, {0: 0.3, 1: 0.3}, ONE_PS, seed=5, speed=1e21) == "late"


def test_a_late_replica_in_a_steady_state_comes_to_the_reductions_in_time(apart: None, folder: Path) -> None:
    # Found by the law: what is left out of the passes of late replicas would bring them to the reductions too early.
    layout = FOUND | {"layout__tp": 4, "training__global_batch": 10}
    assert compare(folder, layout, {}, ONE_PS[:1], seed=0, speed=5e21) == "late, and some passes left out"


def test_tensor_ranks_with_equal_reductions_of_unlike_stages_are_told_apart(apart: None, folder: Path) -> None:
    # Found by the law: ranks that send a gradient at different times to ranks that pay the same as each other.
    one_on_each = [drawn_price(0, {kind: 1}) for kind in ("efa", "sled")]
    assert compare(folder, FOUND | {"training__global_batch": 2}, {}, one_on_each, seed=3, speed=1e21) == "late"


def test_tails_part_where_late_replicas_meet_them(apart: None, folder: Path) -> None:
    # Found by the law: tensor ranks that pay the same for a reduction, one of which comes to it on a link that is in use.
    layout = FOUND | {"layout__pp": 3, "model__layers": 3, "training__global_batch": 2}
    one_on_both = [drawn_price(0, {"efa": 1, "sled": 1})] * 2
    assert compare(folder, layout, {}, one_on_both, seed=9, speed=1e21) == "late"


def test_a_message_of_several_teams_goes_on_once(apart: None, folder: Path) -> None:
    # Found by the law: two teams of a late replica send a gradient as one message, which is under way when it goes on.
    layout = FOUND | {"layout__tp": 4, "layout__pp": 3, "model__layers": 3, "training__global_batch": 4}
    palette = [drawn_price(0, {"efa": 1}), drawn_price(0, {"sled": 5})]
    assert compare(folder, layout | {"schedule__kind": "gpipe"}, {}, palette, seed=0, speed=5e21, rare=3) == "late"


def test_a_stage_does_not_go_on_while_a_message_is_on_its_links(apart: None, folder: Path) -> None:
    # The last gradient has met a pass that is over when the first reduction begins, and without it would come earlier.
    layout = FOUND | {"training__recompute": "full", "training__global_batch": 4, "model__tied_embeddings": "false"}
    palette = [drawn_price(15, {"efa": 14}), drawn_price(9, {"efa": 59})]
    assert compare(folder, layout, {}, palette, seed=8, speed=5e21) == "late"
