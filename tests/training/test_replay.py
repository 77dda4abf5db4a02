"""A replay changes nothing: every time of every team is the one that the same body has by events."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from drawn_bodies import DrawnBody, all_apart, bodies
from hypothesis import event, given, settings
from msgspec.structs import replace
from pipelines import passes, plan

from trnsim.engine import Engine, Transfer
from trnsim.errors import SimulationStalledError
from trnsim.schedules import Pass, Pipeline, schedule
from trnsim.training import Bodies
from trnsim.training.bodies import Body, Entrant
from trnsim.training.replay import Replay, can_be_replayed
from trnsim.training.tolls import rows_of_replica

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnsim.training.bodies import Place, Team
    from trnsim.training.tracks import Track


def told(body: Body | Replay) -> dict[Place, tuple[object, ...]]:
    """Return everything that is known of each team."""
    return {
        place: (team.message_ps, team.launches_ps, team.passed_ps, *rows(team)) for place, team in body.teams.items()
    }


def rows(team: Team | Track) -> Iterator[object]:
    log = team.log
    yield [operation.name for operation in log.operations]
    yield log.times_ps.tolist()


def is_the_same(drawn: DrawnBody) -> Replay:
    """Replay a body, and simulate it by events; and so one whose tensor ranks are a team each."""
    entrants, strands, shared, _ = drawn
    assert can_be_replayed(entrants, strands)
    replay = Replay(entrants, strands, links_are_shared=shared)
    body = Body(Engine(links_are_shared=shared), entrants, strands)
    assert replay.is_over
    found = told(replay)
    assert found == told(body)
    apart = all_apart(drawn)
    ranks = told(Body(Engine(links_are_shared=shared), apart.entrants, apart.strands))
    assert ranks == {(stage, rank): found[stage, strands[rank][stage]] for stage, rank in ranks}
    if can_be_replayed(apart.entrants, apart.strands):
        assert told(Replay(apart.entrants, apart.strands, links_are_shared=shared)) == ranks
    return replay


def compare(drawn: DrawnBody) -> None:
    """Hold a replay to events, and say what happened in it."""
    replay = is_the_same(drawn)
    alone = Replay(drawn.entrants, drawn.strands, links_are_shared=False)
    teams, ranks = len(drawn.entrants), len(all_apart(drawn).entrants)
    event(
        f"left out: {replay.repeated > 0}, links bind: {told(alone) != told(replay)}, teams hold ranks: {teams < ranks}"
    )


drawn_bodies = given(drawn=bodies())
test_drawn_bodies = settings(max_examples=600)(drawn_bodies(compare))
test_many_drawn_bodies = pytest.mark.slow(settings(max_examples=5000)(drawn_bodies(compare)))


SHORT = Transfer(1e-12)


def pipeline_of(*orders: str, message: Transfer = SHORT, links_are_shared: bool = False) -> DrawnBody:
    """Return one team a stage, whose passes are given as in ``F0 B0 F1 B1``."""
    entrants = {}
    for stage, order in enumerate(orders):
        told = plan(
            "1f1b",
            stage,
            Pipeline(len(orders), 2),
            passes(3e-12, 5e-12),
            send_activation=message if stage + 1 < len(orders) else None,
            send_gradient=message if stage else None,
            blocking_sends=True,
        )
        turns = tuple(Pass(word[0], int(word[1:]), stage) for word in order.split())  # type: ignore[arg-type]
        entrants[stage, 0] = Entrant(replace(told, turns=turns), ((0, 0),))
    return DrawnBody(entrants, ((0,) * len(orders),), links_are_shared, entrants)


def test_messages_from_both_sides_share_the_links_of_who_gets_them() -> None:
    # To the second of three stages a gradient comes while an activation does.
    orders = "F0 F1 F2 B0 B1 B2", "F0 F1 B0 F2 B1 B2", "F0 B0 F1 B1 F2 B2"
    both = pipeline_of(*orders, message=Transfer(8e-12, {"efa": 8e-12}), links_are_shared=True)
    shared = is_the_same(both)
    apart = Replay(both.entrants, both.strands, links_are_shared=False)
    assert shared.teams[1, 0].passed_ps > apart.teams[1, 0].passed_ps


@pytest.mark.parametrize("shared", [True, False])
def test_ranks_whose_messages_meet_others_are_in_teams_of_their_own(*, shared: bool) -> None:
    # On the second of three stages the first rank gets activations on the kind of link that gradients come on, the other
    # one does not. Gradients of the third cost the same, and those of its first rank meet those activations.
    orders = "F0 F1 F2 B0 B1 B2", "F0 F1 B0 F2 B1 B2", "F0 B0 F1 B1 F2 B2"
    alone, meets = Transfer(8e-12, {"sled": 8e-12}), Transfer(8e-12, {"efa": 8e-12})
    entrants = dict(pipeline_of(*orders, message=meets, links_are_shared=shared).entrants)
    for stage in range(3):
        entrants[stage, 1] = entrants[stage, 0]
    entrants[0, 1] = entrants[0, 0]._replace(plan=replace(entrants[0, 0].plan, send_activation=alone))
    body = Body(Engine(links_are_shared=shared), entrants, ((0,) * 3, (1,) * 3))
    first, other = body.teams[2, 0], body.teams[2, 1]
    assert (first.passed_ps > other.passed_ps) == shared
    places = list(entrants)
    rows = rows_of_replica(
        *(
            {place: id(getattr(entrants[place].plan, of)) for place in places}
            for of in ("send_activation", "send_gradient")
        )
    )
    assert rows[2, 0] != rows[2, 1]


def bodies_of(*, replays: bool = True) -> Bodies:
    return Bodies(lambda _: Engine(), links_are_shared=False, replays=replays)


def test_who_waits_for_what_never_comes_is_named_as_by_events() -> None:
    # The first stage wants the gradient of its first microbatch back, the second the activation of another one first.
    stalled = pipeline_of("F0 B0 F1 B1", "F0 F1 B0 B1")
    assert can_be_replayed(stalled.entrants, stalled.strands)
    messages = []
    for replays in (True, False):
        with pytest.raises(SimulationStalledError) as error:
            bodies_of(replays=replays).of(stalled.entrants, stalled.strands)
        messages.append(str(error.value))
    assert messages[0] == messages[1]
    assert "receives gradient of microbatch 0" in messages[0]


@pytest.mark.parametrize("replays", [True, False])
def test_messages_that_are_not_looked_at_in_their_order_are_not_counted(*, replays: bool) -> None:
    # The second stage takes the second microbatch first, for which counting would take the first.
    crossed = pipeline_of("F0 F1 B1 B0", "F1 F0 B1 B0")
    assert not can_be_replayed(crossed.entrants, crossed.strands)
    body = bodies_of(replays=replays).of(crossed.entrants, crossed.strands)
    assert isinstance(body, Body)
    assert body.teams[1, 0].message_ps == (6 + 1, 6 + 1 + 1)


def test_a_body_is_replayed_unless_events_are_asked_for() -> None:
    drawn = pipeline_of("F0 F1 B0 B1", "F0 B0 F1 B1")
    replayed, simulated = (bodies_of(replays=replays).of(drawn.entrants, drawn.strands) for replays in (True, False))
    assert isinstance(replayed, Replay)
    assert isinstance(simulated, Body)
    assert told(replayed) == told(simulated)


def test_times_that_come_again_are_kept_once() -> None:
    few, many = (
        Replay(drawn.entrants, drawn.strands, links_are_shared=False)
        for drawn in (long_pipeline(microbatches) for microbatches in (40, 400))
    )
    kept = [sum(len(track.worked_ps.kept) for track in replay.teams.values()) for replay in (few, many)]
    assert kept[0] == kept[1] < 2 * 3 * 40
    assert few.events == many.events
    assert [len(track.log) for track in many.teams.values()] == [4 * 400, 6 * 400, 4 * 400]


def long_pipeline(microbatches: int) -> DrawnBody:
    orders = [
        [f"{turn.kind}{turn.microbatch}" for turn in turns] for turns in schedule("1f1b", Pipeline(3, microbatches))
    ]
    return pipeline_of(*map(" ".join, orders))


@pytest.mark.parametrize("own_ps", [0, 7])
def test_a_replay_serves_others_whose_ranks_come_as_its_own_did(own_ps: int) -> None:
    # The second stage waits for its message until 4 ps; who begins before that, and at no other time, is served by it.
    drawn = pipeline_of("F0 F1 B0 B1", "F0 B0 F1 B1")
    found = bodies_of()
    body = found.of(drawn.entrants, drawn.strands)
    late = {**drawn.entrants, (1, 0): drawn.entrants[1, 0]._replace(opening_ps=((own_ps, 0),))}
    assert (found.of(late, drawn.strands) is body) == (own_ps < 4)
    assert found.count == (1 if own_ps < 4 else 2)
