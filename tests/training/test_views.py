"""Ranks that share parts of what they did have the fingerprint of their whole logs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from drawn_bodies import DrawnBody, bodies, openings, transfers
from hypothesis import event, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from trajectories import hold_to_their_logs

from trnsim.engine import Activity, Engine, Part, Wait
from trnsim.training.late import LateTrack
from trnsim.training.replay import Replay
from trnsim.training.sorts import Sort
from trnsim.training.tails import Tail
from trnsim.training.tracks import Track
from trnsim.training.views import Kind, Played, Roster, View

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnsim.training.contraction import Contraction
    from trnsim.training.story import RankPlan


@st.composite
def variants(draw: st.DrawFn) -> list[Replay]:
    """Draw replays that differ little: in when some ranks begin, and in what a message costs."""
    entrants, strands, shared, every = draw(bodies())
    found = [dict(entrants)]
    for _ in range(draw(st.integers(1, 3))):
        place, other = draw(st.sampled_from(list(entrants))), dict(entrants)
        plan = other[place].plan
        if plan.send_activation is not None and draw(st.booleans()):
            other[place] = other[place]._replace(plan=replace(plan, send_activation=draw(transfers)))
        else:
            other[place] = other[place]._replace(opening_ps=draw(openings))
        found.append(other)
    drawn = [DrawnBody(each, strands, shared, every) for each in found]
    return [Replay(each.entrants, each.strands, links_are_shared=each.links_are_shared) for each in drawn]


def late(track: Track, sent_ps: list[int]) -> LateTrack:
    """Return a track whose ranks send their last gradients at different times."""
    found = LateTrack.__new__(LateTrack)
    for name in Track.__slots__:
        setattr(found, name, getattr(track, name))
    found.joined_ps = None
    found.ranks = [SimpleNamespace(came_ps=None, sent_ps=each) for each in sent_ps]  # type: ignore[misc]
    return found


def new_tail(plan: RankPlan, end_ps: int) -> Tail:
    """Return a tail of one step with one reduction."""
    tail = Tail(Engine(), "stage 0", 1, "the first", plan)
    call = SimpleNamespace(ready_ps=end_ps - 2, start_ps=end_ps - 1, end_ps=end_ps)
    tail.calls.append([(Wait("gradients 0", "straggler_wait", "exposed_dp"), call)])  # type: ignore[list-item]
    tail.step_ends.append((0, 0, end_ps))
    return tail


def views_of(tracks: list[Track], zeros_ps: list[int], starts_ps: list[tuple[int, int, int]]) -> Iterator[View]:
    """Yield views of kinds of ranks, in two tails and with two updates, in each track and at all times."""
    plan, slow = (
        replace(tracks[0].plan, optimizer=Activity("optimizer", (Part("optimizer", "optimizer", duration_s),)))
        for duration_s in (5e-12, 6e-12)
    )
    first, second = (new_tail(plan, 10_000 + lane) for lane in (0, 1))
    sort = Sort(0, {0: 1})
    kinds = tuple(Kind(0, lane, 1.0, 1, number) for number, lane in enumerate((0, 0, 1)))
    tracks = [*tracks, late(tracks[0], [900, 901, 902]), late(tracks[0], [900, 900, 900])]
    for track in tracks:
        for zero_ps in zeros_ps:
            for starts in starts_ps:
                for own in ((plan, plan, plan), (plan, slow, plan)):
                    played = [Played(track, zero_ps, starts)]
                    roster = Roster(sort, 0, kinds, own, plan, 1.0, (first, first, second), played)
                    yield from (View(cast("Contraction", None), roster, number) for number in range(3))


def check(replays: list[Replay], zeros_ps: list[int], starts_ps: list[tuple[int, int, int]]) -> None:
    keys = views = 0
    for place in replays[0].teams:
        found = list(views_of([replay.teams[place] for replay in replays], zeros_ps, starts_ps))
        keys, views = keys + hold_to_their_logs(found), views + len(found)
    event(f"some share a key: {keys < views}")


times = st.sampled_from([0, 7, 50])
drawn = given(
    replays=variants(),
    zeros_ps=st.lists(times, min_size=1, max_size=2),
    starts_ps=st.lists(st.tuples(times, times, times), min_size=1, max_size=2),
)
test_drawn_views = settings(max_examples=100)(drawn(check))
test_many_drawn_views = pytest.mark.slow(settings(max_examples=2000)(drawn(check)))
