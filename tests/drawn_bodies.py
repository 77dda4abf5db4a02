"""Bodies drawn at random: pipelines of a few stages, teams and microbatches, whose times are a few picoseconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hypothesis import strategies as st
from pipelines import plan

from trnsim.engine import Activity, Part, Transfer, Wait
from trnsim.parallel import Sharding
from trnsim.schedules import Pipeline
from trnsim.training import Exchanges, Launch, StagePasses
from trnsim.training.bodies import Entrant, Place, Strands
from trnsim.training.tolls import rows_of_replica

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trnsim.training import RankPlan


class DrawnBody(NamedTuple):
    """What a body is made of, and what each of its tensor ranks is."""

    entrants: Mapping[Place, Entrant]
    strands: Strands
    links_are_shared: bool
    every: Mapping[Place, Entrant]


busy_times = st.dictionaries(st.sampled_from(["efa", "efa", "sled"]), st.integers(1, 40), min_size=1, max_size=2)


def transfer(alone_ps: int, busy_ps: Mapping[str, int]) -> Transfer:
    busy_s = {kind: each * 1e-12 for kind, each in busy_ps.items()}
    return Transfer((alone_ps + sum(busy_ps.values())) * 1e-12, busy_s)


transfers = st.one_of(
    st.builds(transfer, st.integers(0, 15), busy_times), st.builds(transfer, st.integers(1, 40), st.just({}))
)
palettes = st.lists(transfers, min_size=1, max_size=3)
"""Few kinds of transfers: where many are alike, much happens at the same time, and links bind."""


def work(name: str, length_ps: int) -> Part:
    return Part(name, "compute", length_ps * 1e-12)


@st.composite
def activities(draw: st.DrawFn, name: str, palette: list[Transfer], teams: int, most: int) -> list[Activity]:
    """Draw what each team of a stage does in a pass: by itself at first, together from the first of some collectives on."""
    met = [work("matmuls", draw(st.integers(0, 15)))]
    for number in range(draw(st.integers(min(most, 1 if teams > 1 else 0), most))):
        sent = draw(st.sampled_from(palette))
        met[number:number] = [Part(f"all-reduce {number}", "exposed_tp", sent.duration_s, sent)]
    heads_ps = draw(st.lists(st.sampled_from([0, 0, 3, 10, 31]), min_size=teams, max_size=teams))
    rendezvous = None if len(met) == 1 else 1
    return [Activity(name, (work("head", head_ps), *met), rendezvous) for head_ps in heads_ps]


@st.composite
def bodies(draw: st.DrawFn) -> DrawnBody:
    """Draw a body; its teams come to their first collective before and after the message that they wait for.

    What messages cost is drawn for each tensor rank, and teams are those that a replica of such ranks has.
    """
    stages, ranks = draw(st.sampled_from([1, 2, 3, 3, 4, 4, 6])), draw(st.sampled_from([1, 2, 3, 3]))
    pipeline = Pipeline(stages, draw(st.sampled_from([1, 2, 3, 6, 10, 14])))
    kind, segments = draw(st.sampled_from(["1f1b", "gpipe"])), draw(st.integers(1, 3))
    palette, has_buckets = draw(palettes), draw(st.booleans())
    sent = [_sent(draw, stages, ranks, palette) for _ in range(2)]
    rows = rows_of_replica(*({place: id(each) for place, each in costs.items()} for costs in sent))
    strands = tuple(tuple(rows[stage, rank] for stage in range(stages)) for rank in range(ranks))
    most = draw(st.sampled_from([0, 2, 2])) if not any(rows.values()) else 2  # else messages meet each other alone
    teams: dict[Place, Entrant] = {}
    every: dict[Place, Entrant] = {}
    for stage in range(stages):
        names = "forward", *["backward"] * (1 + segments)
        team_of = [strand[stage] for strand in strands]
        parts = list(zip(*(draw(activities(name, palette, max(team_of) + 1, most)) for name in names), strict=True))
        opened = [draw(openings) for _ in parts]
        for rank, team in reversed(list(enumerate(team_of))):
            sends = [costs[stage, rank] for costs in sent]
            told = _plan(kind, stage, pipeline, sends, parts[team], has_buckets=has_buckets)
            teams[stage, team] = every[stage, rank] = Entrant(told, opened[team])
    return DrawnBody(teams, strands, draw(st.sampled_from([True] * 5 + [False])), every)


def _sent(draw: st.DrawFn, stages: int, ranks: int, palette: list[Transfer]) -> dict[Place, Transfer]:
    """Draw what each rank sends: all of a stage the same, but for some, as it is at the borders of racks."""
    places = [(stage, rank) for stage in range(stages) for rank in range(ranks)]
    usual = [draw(st.sampled_from(palette)) for _ in range(stages)]
    others = draw(
        st.dictionaries(st.sampled_from(places), st.sampled_from(palette), max_size=draw(st.sampled_from([1, 9])))
    )
    return {(stage, rank): others.get((stage, rank), usual[stage]) for stage, rank in places}


openings = st.lists(st.tuples(st.integers(-30, 30), st.integers(0, 90)), min_size=1, max_size=2).map(tuple)


def _plan(
    kind: str,
    stage: int,
    pipeline: Pipeline,
    sends: list[Transfer],
    parts: tuple[Activity, ...],
    *,
    has_buckets: bool,
) -> RankPlan:
    forward, backward, *segments = parts
    passes = StagePasses(forward, backward, (), tuple(segments), tuple(range(len(segments))))
    wait = Wait("gradients", "straggler_wait", "exposed_dp")
    sharding = Sharding(0, ranks=2, group=2, overlap="buckets" if has_buckets else "none")
    reduce = tuple(Launch(wait, Transfer(5e-12)) for _ in segments)
    return plan(
        kind,
        stage,
        pipeline,
        passes,
        send_activation=sends[0] if stage < pipeline.last else None,
        send_gradient=sends[1] if stage else None,
        exchanges=Exchanges(sharding, reduce),
        blocking_sends=True,
    )


def all_apart(drawn: DrawnBody) -> DrawnBody:
    """Return a body whose tensor ranks are a team each."""
    strands = tuple((rank,) * len(strand) for rank, strand in enumerate(drawn.strands))
    return DrawnBody(drawn.every, strands, drawn.links_are_shared, drawn.every)
