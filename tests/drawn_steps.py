"""Steps drawn at random: small meshes of every shape on small servers, and transfers of a few picoseconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from hypothesis import reject
from hypothesis import strategies as st
from machines import single_chip_server, switched_server, torus_server
from msgspec.structs import replace
from small import load_small

from trnsim.engine import Engine, refine
from trnsim.errors import InputError
from trnsim.fabric import Price, Task
from trnsim.simulation.machine import build_machine, build_rates, build_step
from trnsim.training import Bodies, Communication, RankPrices, Rates, Steady, fold, populate, sharing_groups, slow_ranks
from trnsim.training.communication import Coordinates
from trnsim.training.replicas import ReplicaClass, Replicas

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from trnsim.hardware import Server
    from trnsim.scenario import Scenario
    from trnsim.training import Bucket, Folding, Member, StepSpec
    from trnsim.workload import Exchange

SERVERS = [single_chip_server(), torus_server([2, 2]), torus_server([3]), switched_server(2, 1, 2)]
shapes = st.sampled_from(
    [(2, 2, 2), (2, 3, 1), (1, 3, 2), (1, 2, 4), (2, 3, 2), (2, 1, 4), (4, 2, 1), (1, 4, 2), (1, 1, 4), (1, 1, 1)]
)
"""Sizes of tp, pp, dp: most have all three, because there transfers of several axes meet."""
team_shapes = st.sampled_from([(2, 2, 2), (2, 3, 2), (2, 2, 3), (3, 2, 2), (2, 4, 2), (4, 2, 2)])


@st.composite
def layouts(
    draw: st.DrawFn, most_rounds: int = 2, shapes: st.SearchStrategy[tuple[int, int, int]] = shapes
) -> dict[str, Any]:
    """Draw what a scenario says about a small mesh and what it does; a round is two microbatches or as many as stages."""
    tp, pp, dp = draw(shapes)
    kind = draw(st.sampled_from(["1f1b", "gpipe", "interleaved-1f1b", "breadth-first"])) if pp > 1 else "1f1b"
    virtual_stages = 2 if kind in {"interleaved-1f1b", "breadth-first"} else 1
    rounds = draw(st.integers(1, most_rounds))
    return {
        "layout__order": ["cp", *draw(st.permutations(["tp", "dp", "pp"]))],
        "layout__tp": tp,
        "layout__pp": pp,
        "layout__dp": dp,
        "layout__zero": draw(st.integers(0, 3)),
        "layout__zero_group": draw(st.sampled_from(["all", 2])) if dp == 4 else "all",
        "layout__reshard_after_forward": draw(st.sampled_from(["true", "false"])),
        "layout__rank": draw(st.sampled_from(["chip", "logical_core"])),
        "model__layers": pp * virtual_stages * draw(st.integers(1, 2)),
        "model__tied_embeddings": draw(st.sampled_from(["true", "false"])),
        "training__global_batch": rounds * dp * (pp if virtual_stages > 1 else 2),
        "training__bucket_parameters": draw(st.sampled_from(["1e6", "20e6"])),
        "training__data_parallel_overlap": draw(st.sampled_from(["buckets", "prefetch", "none"])),
        "training__prefetch": draw(st.integers(1, 3)),
        "training__recompute": draw(st.sampled_from(["none", "selective", "full"])),
        "training__tensor_parallel_overlap": draw(st.sampled_from(["none", "none", "ring"])),
        "schedule__kind": kind,
        "schedule__virtual_stages": virtual_stages,
        "schedule__sends": draw(st.sampled_from(["blocking", "overlapped"])),
        "run__steps": draw(st.integers(1, 2)),
        "run__fidelity": draw(st.sampled_from(["flow", "flow", "closed_form"])),
    }


@st.composite
def team_layouts(draw: st.DrawFn, shapes: st.SearchStrategy[tuple[int, int, int]] = team_shapes) -> dict[str, Any]:
    """Draw a layout in which tensor groups may be teams."""
    layout = draw(layouts())
    layout["layout__zero"] %= 2
    layout["layout__zero_group"] = "all"
    layout["schedule__kind"] = "1f1b" if layout["schedule__virtual_stages"] == 2 else layout["schedule__kind"]
    layout["schedule__virtual_stages"], layout["schedule__sends"] = 1, "blocking"
    layout["training__data_parallel_overlap"] = draw(st.sampled_from(["buckets", "buckets", "none"]))
    tp, pp, dp = draw(shapes)
    layout |= {"layout__tp": tp, "layout__pp": pp, "layout__dp": dp, "model__layers": pp * draw(st.integers(1, 2))}
    layout["training__global_batch"] = dp * draw(st.sampled_from([1, 2, 3, 5, 9]))
    return layout


def loaded(folder: Path, layout: dict[str, Any], **overrides: Any) -> Scenario:
    try:
        return load_small(folder, **layout, **overrides)
    except InputError:  # what is drawn contradicts itself
        reject()


slow_chips = st.dictionaries(st.integers(0, 7), st.sampled_from([0.3, 0.7, 0.95]), max_size=2)


def slowed(spec: StepSpec, chips: dict[int, float]) -> StepSpec:
    """Return the step with some chips slower than the others."""
    impairments = replace(spec.impairments, chips=chips)
    slow = slow_ranks(spec.mesh, spec.placement, impairments)
    return replace(spec, impairments=impairments, slow=slow)


def on_server(scenario: Scenario, server: Server) -> Scenario:
    """Move a scenario to as many small servers as it takes."""
    servers = -(-scenario.ranks // (server.chips * scenario.ranks_per_chip))
    return replace(scenario, cluster=replace(scenario.cluster, server=server, servers=servers))


class Drawn(NamedTuple):
    """A step with its ranks, unfolded and folded."""

    scenario: Scenario
    spec: StepSpec
    unfolded: Folding
    folded: Folding

    def live(self, folding: Folding, *, is_watched: bool = False) -> tuple[tuple[Member, ...], int]:
        """Let the cohorts live; return them, and how many passes were not simulated because a steady state was found."""
        engine = Engine(links_are_shared=self.scenario.run.fidelity == "flow")
        steady = Steady(engine) if is_watched else None
        members = populate(engine, self.spec, folding, steady)
        engine.run()
        if steady is not None:
            steady.settle()
        return members, steady.turns if steady else 0


def of_a_scenario(folder: Path, layout: dict[str, Any], chips: dict[int, float], server: Server) -> Drawn:
    """Return blocks of a model, priced on small servers that groups and replicas straddle."""
    scenario = on_server(loaded(folder, layout, cluster__servers=4), server)
    machine = build_machine(scenario)
    spec = slowed(build_step(scenario, machine, build_rates(scenario), folding=False), chips)
    communication = Communication(machine.fabric, spec, scenario.collectives.algorithm_for)
    unfolded, folded = (
        fold(replace(spec, folding=folding), communication, sharing_groups(spec, machine.meeting_tier, machine.blocks))
        for folding in (False, True)
    )
    return Drawn(scenario, spec, unfolded, folded)


class DrawnPrices(Communication):
    """Transfers of a few picoseconds: links bind everywhere, and much happens at the same instant.

    All members of a group pay the same; of equal groups only some do, but tensor ranks that are equal modulo `columns`.
    One of so many prices as `rare` says is drawn by itself; the others cost what all that is called the same does.
    """

    def __init__(self, spec: StepSpec, palette: Sequence[Price], seed: int, columns: int, rare: int = 1) -> None:
        self._spec = spec
        self._columns = columns
        self._rare = rare
        self._palette = palette
        self._seed = seed

    def prices(
        self, place: tuple[int, int, int], exchanges: Iterable[Exchange], buckets: Sequence[Bucket]
    ) -> RankPrices:
        spec, (tensor, stage, replica) = self._spec, place
        tensor %= self._columns
        last, goes_round, sharding = spec.mesh.size("pp") - 1, spec.virtual_stages > 1, spec.sharding
        is_tied = spec.model.tied_embeddings and last and stage in {0, last}

        def for_each(what: str, where: int, *, is_due: bool) -> tuple[Price, ...]:
            return tuple(self._price(what, number, tensor, stage, where) for number in range(len(buckets) * is_due))

        return RankPrices(
            tensor={(each.op, each.bytes): self._price(each, stage, replica) for each in exchanges},
            send_activation=self._price("activation", tensor, stage, replica) if stage < last or goes_round else None,
            send_gradient=self._price("gradient", tensor, stage, replica) if stage or goes_round else None,
            reduce=for_each("reduce", replica // sharding.group, is_due=sharding.group > 1),
            merge=for_each("merge", replica % sharding.group, is_due=sharding.copies > 1),
            gather=for_each("gather", replica // sharding.group, is_due=sharding.group > 1 and sharding.zero > 0),
            tied=self._price("tied", tensor, replica) if is_tied else None,
        )

    def _price(self, *key: object) -> Price:
        number = self._number(key)
        if number % self._rare:
            number = self._number(key[0])
        return self._palette[number % len(self._palette)]

    def _number(self, key: object) -> int:
        return crc32(repr((self._seed, key)).encode())


def drawn_price(alone_ps: int, busy_ps: dict[str, int]) -> Price:
    """Return the price of a transfer, given as its time alone and its times on links."""
    busy_s = {kind: each * 1e-12 for kind, each in busy_ps.items()}
    return Price((alone_ps + sum(busy_ps.values())) * 1e-12, {}, "efa", Task("drawn", "drawn", 0.0), busy_s)


def on_other_links(price: Price) -> Price:
    """Return a price of the same time, spent on links of the other kind."""
    other = {"efa": "sled", "sled": "efa"}
    return replace(price, busy_s={other[kind]: busy_s for kind, busy_s in price.busy_s.items()})


def of_drawn_prices(
    folder: Path,
    layout: dict[str, Any],
    chips: dict[int, float],
    palette: list[Price],
    seed: int,
    speed: float,
    interference: float = 0.0,
    columns: int = 8,
    rare: int = 1,
) -> Drawn:
    """Return the same blocks and groups; operators and transfers of some picoseconds, so that every link binds."""
    scenario = loaded(folder, layout)
    machine = build_machine(scenario)
    rates = Rates(speed, speed / 10, 1.0, 1.0, {}, "hidden", 0.0, 0.0, 0.0, 0.0, interference_fraction=interference)
    spec = slowed(build_step(scenario, machine, rates, folding=False), chips)
    prices = DrawnPrices(spec, [*palette, on_other_links(palette[0])], seed, columns, rare)
    unfolded = fold(spec, prices, sharing_groups(spec, machine.meeting_tier, machine.blocks))
    colouring = refine([node.colour for node in unfolded.nodes], unfolded.meetings, unfolded.neighbours)
    return Drawn(scenario, spec, unfolded, replace(unfolded, colouring=colouring))


busy_times = st.dictionaries(st.sampled_from(["efa", "sled"]), st.integers(1, 60), min_size=1, max_size=2)
palettes = st.lists(st.builds(drawn_price, st.integers(0, 15), busy_times), min_size=1, max_size=5)
speeds = st.sampled_from([1e21, 5e21, 1e24])


class Apart(Replicas):
    """Replicas of which no two sit alike."""

    def __init__(self, spec: StepSpec, *_: object) -> None:
        self._spec = spec
        self.classes = [ReplicaClass(replica, 1, replica) for replica in range(spec.mesh.size("dp"))]

    @property
    def likes(self) -> list[int]:
        return [each.like for each in self.classes]

    def class_of(self, replica: int) -> int:
        return replica

    def payer(self, tensor: int, stage: int, like: int) -> Coordinates:
        return Coordinates(tensor, stage, like)


def new_bodies(*, links_are_shared: bool) -> Bodies:
    return Bodies(
        lambda start_ps: Engine(links_are_shared=links_are_shared, start_ps=start_ps),
        links_are_shared=links_are_shared,
        replays=True,
    )
