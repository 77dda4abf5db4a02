"""Who pays what: replicas, tensor groups and data-parallel groups, divided by what their transfers cost."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from trnsim.engine import Meeting, refine

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Mapping, Sequence

    from trnsim.fabric import Price
    from trnsim.training.communication import Coordinates
    from trnsim.training.folding import Node
    from trnsim.training.replicas import Replicas
    from trnsim.training.sorts import Lanes, Rows, Sizes
    from trnsim.training.spec import StepSpec

__all__ = ["Tails", "columns_of", "rows_of", "tails_of", "tolls_of"]


def tolls_of(nodes: Mapping[Coordinates, Node], payers: Replicas, sizes: Sizes) -> dict[int, int]:
    """Return for the replicas that are priced a number that is the same for those that pay the same."""
    numbers: dict[Hashable, int] = {}
    paid = _paid(nodes, payers, sizes, lambda node: node.prices.key)
    return {like: numbers.setdefault(found, len(numbers)) for like, found in paid.items()}


def _paid(
    nodes: Mapping[Coordinates, Node], payers: Replicas, sizes: Sizes, what: Callable[[Node], Hashable]
) -> dict[int, tuple[int, ...]]:
    """Return for the replicas that are priced what each of their ranks pays, numbered, by stage and tensor rank."""
    numbers: dict[Hashable, int] = {}
    paid = {place: numbers.setdefault(what(node), len(numbers)) for place, node in nodes.items()}
    return {
        like: tuple(paid[payers.payer(tensor, stage, like)] for stage in range(sizes.pp) for tensor in range(sizes.tp))
        for like in payers.likes
    }


def rows_of(nodes: Mapping[Coordinates, Node], payers: Replicas, sizes: Sizes) -> dict[int, Rows]:
    """Sort the ranks of each tensor group of a replica by what their messages cost, and by whom they come from."""

    def sent(node: Node) -> Hashable:
        return _spent(node.prices.send_activation), _spent(node.prices.send_gradient)

    places = [(stage, tensor) for stage in range(sizes.pp) for tensor in range(sizes.tp)]
    paid = _paid(nodes, payers, sizes, sent)
    found = {costs: _rows_of_replica(dict(zip(places, costs, strict=True)), sizes) for costs in set(paid.values())}
    return {like: found[costs] for like, costs in paid.items()}


def _rows_of_replica(costs: Mapping[tuple[int, int], Hashable], sizes: Sizes) -> Rows:
    if all(costs[stage, tensor] == costs[stage, 0] for stage, tensor in costs):
        return dict.fromkeys(costs, 0)
    places = [(stage, tensor) for stage in range(sizes.pp) for tensor in range(sizes.tp)]
    number = {place: index for index, place in enumerate(places)}
    neighbours = [tuple(number.get((stage + step, tensor), -1) for step in (-1, 1)) for stage, tensor in places]
    colours = refine([(place[0], costs[place]) for place in places], [], neighbours).colours
    names: defaultdict[int, dict[int, int]] = defaultdict(dict)
    return {
        place: names[place[0]].setdefault(colour, len(names[place[0]]))
        for place, colour in zip(places, colours, strict=True)
    }


def columns_of(spec: StepSpec, nodes: Mapping[Coordinates, Node]) -> tuple[int, ...]:
    """Return for each tensor rank the first that pays the same in all stages of all replicas, and is as slow there."""
    seen: list[list[Hashable]] = [[] for _ in range(spec.mesh.size("tp"))]
    for at, node in nodes.items():
        seen[at.tp].append((at.pp, at.dp, node.prices.key))
    for rank, speed in spec.slow.items():
        place = spec.mesh.coordinates(rank)
        seen[place["tp"]].append((place["pp"], place["dp"], speed))
    firsts: dict[Hashable, int] = {}
    return tuple(firsts.setdefault(frozenset(told), tensor) for tensor, told in enumerate(seen))


class Tails(NamedTuple):
    """The data-parallel groups of all stages, sorted.

    Attributes
    ----------
    lanes
        The tail of each.
    slowest
        By stage and tail, the speed of its slowest rank.
    payers
        By stage and tail, a node of it.
    tied
        Tails of the first stage and of the last that meet for the gradients of a tied embedding.
    """

    lanes: Lanes
    slowest: Mapping[tuple[int, int], float]
    payers: Mapping[tuple[int, int], Node]
    tied: tuple[tuple[int, int], ...]


def tails_of(
    spec: StepSpec,
    nodes: Mapping[Coordinates, Node],
    rows: Mapping[int, Rows],
    columns: Sequence[int],
    apart: Collection[int] = (),
) -> Tails:
    """Sort the data-parallel groups of each stage: those that pay the same and have the same slowest chip are one tail.

    So are not those that are in teams which come to them at different times, and in some stages those of other columns.
    """
    speeds: dict[tuple[int, int], float] = {}
    for rank, speed in spec.slow.items():
        place = spec.mesh.coordinates(rank)
        key = place["pp"], place["tp"]
        speeds[key] = min(speed, speeds.get(key, 1.0))
    paid: defaultdict[tuple[int, int], dict[object, Node]] = defaultdict(dict)
    for at, node in nodes.items():
        prices = node.prices
        spent = (*map(_spent, prices.reduce), *map(_spent, prices.gather), _spent(prices.tied))
        paid[at.pp, at.tp].setdefault(spent, node)
    gathers = any(node.prices.gather for node in nodes.values())
    at_different_times = [of for of in rows.values() if any(of.values())] if spec.sharding.overlap == "none" else []
    groups = sorted(paid)
    colours = [
        (
            group[0],
            frozenset(paid[group]),
            tuple(of[group] for of in at_different_times),
            columns[group[1]] if group[0] in apart or len(paid[group]) > 1 else None,  # several: by the tied embedding
            speeds.get(group, 1.0) if gathers else 1.0,
        )
        for group in groups
    ]
    number = {group: index for index, group in enumerate(groups)}
    last = spec.mesh.size("pp") - 1
    is_tied = spec.model.tied_embeddings and last
    pairs = [(number[0, t], number[last, t]) for t in range(spec.mesh.size("tp"))] if is_tied else []
    found = refine(colours, [Meeting("tied", ((a, 1), (b, 1))) for a, b in pairs], [()] * len(groups)).colours
    lanes: dict[tuple[int, int], int] = {}
    names: defaultdict[int, dict[int, int]] = defaultdict(dict)
    slowest: dict[tuple[int, int], float] = {}
    payers: dict[tuple[int, int], Node] = {}
    for group, colour in zip(groups, found, strict=True):
        lane = lanes[group] = names[group[0]].setdefault(colour, len(names[group[0]]))
        slowest[group[0], lane] = min(speeds.get(group, 1.0), slowest.get((group[0], lane), 1.0))
        payers.setdefault((group[0], lane), next(iter(paid[group].values())))
    tied = dict.fromkeys((lanes[groups[a]], lanes[groups[b]]) for a, b in pairs)
    return Tails(lanes, slowest, payers, tuple(tied))


def _spent(price: Price | None) -> Hashable:
    return price and price.spent
