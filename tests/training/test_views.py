"""Ranks that share parts of what they did have the fingerprint of their whole logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from drawn_bodies import DrawnBody, bodies, openings, transfers
from hypothesis import event, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from trajectories import hold_to_their_logs

from trnsim.engine import Engine
from trnsim.training.replay import Replay
from trnsim.training.tails import Tail
from trnsim.training.views import Kind, Played, Roster, View

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnsim.training.tracks import Track


@st.composite
def variants(draw: st.DrawFn) -> list[Replay]:
    """Draw replays that differ little: in when some ranks begin, and in what a message costs."""
    entrants, neighbours, shared = draw(bodies())
    found = [dict(entrants)]
    for _ in range(draw(st.integers(1, 3))):
        place, other = draw(st.sampled_from(list(entrants))), dict(entrants)
        plan = other[place].plan
        if plan.send_activation is not None and draw(st.booleans()):
            other[place] = other[place]._replace(plan=replace(plan, send_activation=draw(transfers)))
        else:
            other[place] = other[place]._replace(opening_ps=draw(openings))
        found.append(other)
    drawn = [DrawnBody(each, neighbours, shared) for each in found]
    return [Replay(each.entrants, each.neighbours, links_are_shared=each.links_are_shared) for each in drawn]


def views_of(tracks: list[Track], zeros_ps: list[int], starts_ps: list[tuple[int, int]]) -> Iterator[View]:
    """Yield views of two kinds of ranks in each track, at all times, of which two with other updates and tails."""
    plan = tracks[0].plan
    slow = replace(plan, optimizer=replace(plan.optimizer, parts=plan.optimizer.parts * 2))
    tails = {lane: Tail(Engine(), "stage 0", 1, "the first", plan) for lane in (0, 1)}
    for lane, tail in tails.items():
        tail.calls.append([])
        tail.step_ends.append((0, 0, 1000 + lane))
    kinds = tuple(Kind(0, lane, 1.0, 1, lane) for lane in tails)
    for track in tracks:
        for zero_ps in zeros_ps:
            for starts in starts_ps:
                for own in ((plan, plan), (plan, slow)):
                    roster = Roster(kinds, own, plan, 1.0, 1, tails, [Played(track, zero_ps, starts)])
                    yield from (View(roster, number, (0, 0, 0, 0, 1.0, 0), "stage 0", "the first") for number in (0, 1))


def check(replays: list[Replay], zeros_ps: list[int], starts_ps: list[tuple[int, int]]) -> None:
    keys = views = 0
    for place in replays[0].teams:
        found = list(views_of([replay.teams[place] for replay in replays], zeros_ps, starts_ps))
        keys, views = keys + hold_to_their_logs(found), views + len(found)
    event(f"some share a key: {keys < views}")


times = st.integers(0, 50)
drawn = given(
    replays=variants(),
    zeros_ps=st.lists(times, min_size=1, max_size=2),
    starts_ps=st.lists(st.tuples(times, times), min_size=1, max_size=2),
)
test_drawn_views = settings(max_examples=100)(drawn(check))
test_many_drawn_views = pytest.mark.slow(settings(max_examples=2000)(drawn(check)))
