"""Who pays what: replicas, tensor groups and data-parallel groups, divided by what their transfers cost."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from trnsim.engine import Meeting, refine

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Mapping

    from trnsim.fabric import Price
    from trnsim.training.communication import Coordinates
    from trnsim.training.folding import Node
    from trnsim.training.replicas import Replicas
    from trnsim.training.sorts import Columns, Lanes, Place, Rows, Sizes
    from trnsim.training.spec import StepSpec

__all__ = ["Tails", "columns_of", "rows_of", "rows_of_replica", "tails_of", "tolls_of"]


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
    """Sort the ranks of each tensor group of a replica into teams."""
    places = [(stage, tensor) for stage in range(sizes.pp) for tensor in range(sizes.tp)]
    activations = _paid(nodes, payers, sizes, lambda node: _spent(node.prices.send_activation))
    gradients = _paid(nodes, payers, sizes, lambda node: _spent(node.prices.send_gradient))
    known: dict[Hashable, Rows] = {}
    found = {}
    for like in payers.likes:
        costs = activations[like], gradients[like]
        if costs not in known:
            known[costs] = rows_of_replica(*(dict(zip(places, of, strict=True)) for of in costs))
        found[like] = known[costs]
    return found


def rows_of_replica(activations: Mapping[Place, Hashable], gradients: Mapping[Place, Hashable]) -> Rows:
    """Sort the ranks of each tensor group of one replica by what their messages cost, and those that these may meet.

    The passes of a group begin and end for all of its ranks together, so its ranks differ by when messages come to them and
    leave them only. A message that comes may meet, on the links of who gets it, passes and what comes from the other side,
    and nothing else: so it takes two costs to know when it comes, and six to know all four kinds of a rank.

    Parameters
    ----------
    activations, gradients
        By stage and tensor rank, what it costs to send each to the next stage and to the one before.

    Examples
    --------
    The fourth tensor rank of the first stage pays more; the third stage sends nothing that meets what it sends.

    >>> activations = {(stage, tensor): 1 for stage in range(5) for tensor in range(4)} | {(0, 3): 2}
    >>> rows = rows_of_replica(activations, dict.fromkeys(activations, 1))
    >>> [[rows[stage, tensor] for tensor in range(4)] for stage in range(5)]
    [[0, 0, 0, 1], [0, 0, 0, 1], [0, 0, 0, 1], [0, 0, 0, 0], [0, 0, 0, 0]]
    """
    names: defaultdict[int, dict[Hashable, int]] = defaultdict(dict)
    rows = {}
    for stage, tensor in activations:
        costs = tuple(
            sent.get((stage + step, tensor))
            for sent, steps in ((activations, (-2, -1, 0)), (gradients, (0, 1, 2)))
            for step in steps
        )
        rows[stage, tensor] = names[stage].setdefault(costs, len(names[stage]))
    return rows


def columns_of(spec: StepSpec, nodes: Mapping[Coordinates, Node]) -> Columns:
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
    columns: Columns,
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
