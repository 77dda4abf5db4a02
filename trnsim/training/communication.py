"""What the ranks of a mesh send each other, priced on the fabric."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from trnsim.parallel import Group
from trnsim.record import Record
from trnsim.workload import WEIGHT_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from trnsim.fabric import ClosedFormFabric, Price
    from trnsim.training.passes import Bucket
    from trnsim.training.spec import StepSpec
    from trnsim.workload import Exchange

    Algorithms = Callable[[str, bool], str]


class UnservedGroupError(ValueError):
    """A group lacks what the algorithm needs that was named for it."""

    def __init__(self, algorithm: str, message: str) -> None:
        super().__init__(message)
        self.algorithm = algorithm


class Coordinates(NamedTuple):
    """Where a rank is in the mesh: tensor rank, stage, replica."""

    tp: int
    pp: int
    dp: int


class RankPrices(Record, eq=False, dict=True):
    """What one rank's transfers cost; ranks of one stage with equal `key` behave alike until they meet others.

    `Communication` gives the same record to ranks for which all is equal, also the bytes on links.

    Parameters
    ----------
    tensor
        Price of each tensor-parallel collective, by operation and bytes.
    send_activation, send_gradient
        Price of the message to the next and to the previous stage; with several virtual stages the last stage sends
        on to the first, and the first back to the last.
    reduce, merge, gather
        Price of each bucket: to reduce its gradients over the ranks that share, to sum what they hold over the groups of
        such ranks, to gather its weights. Empty where there is nothing to exchange.
    tied
        Price of the all-reduce of a tied embedding's gradients.
    """

    tensor: dict[tuple[str, int], Price]
    send_activation: Price | None
    send_gradient: Price | None
    reduce: tuple[Price, ...]
    merge: tuple[Price, ...]
    gather: tuple[Price, ...]
    tied: Price | None

    @cached_property
    def key(self) -> tuple[object, ...]:
        """All times, and the links on which they are spent, as an initial colour."""
        tensor = tuple((use, price.spent) for use, price in self.tensor.items())
        return (*tensor, *(price and price.spent for price in self._others))

    @cached_property
    def tasks(self) -> tuple[object, ...]:
        """All that is carried out, in the order of the key."""
        return tuple(price and price.task for price in (*self.tensor.values(), *self._others))

    @property
    def _others(self) -> tuple[Price | None, ...]:
        return (self.send_activation, self.send_gradient, *self.reduce, *self.merge, *self.gather, self.tied)


def collective_skew_s(op: str, ranks: int, skew_s: float) -> float:
    r"""Time that the ranks of a collective lose to each other inside a training step.

    .. math:: \alpha \log_2 p

    for an all-reduce; half of it for each of its two halves, reduce-scatter and all-gather.

    Parameters
    ----------
    op
        Name of the collective.
    ranks
        :math:`p`, members. >= 1.
    skew_s
        :math:`\alpha`, fitted per software family.

    Examples
    --------
    >>> collective_skew_s("all-reduce", 8, 1e-4), collective_skew_s("all-gather", 8, 1e-4)
    (0.00030000000000000003, 0.00015000000000000001)
    """
    return skew_s * math.log2(ranks) * (1.0 if op == "all-reduce" else 0.5)


class Communication:
    """Prices the transfers of a training step.

    Parameters
    ----------
    fabric
        Prices programs and messages on the machine.
    spec
        The step.
    algorithms
        Algorithm for (operation, whether the group is inside one server); ``auto`` for the fastest, ``neuron`` for
        what Neuron takes by size inside a server.
    """

    def __init__(self, fabric: ClosedFormFabric, spec: StepSpec, algorithms: Algorithms) -> None:
        self.fabric = fabric
        self._spec = spec
        self._algorithms = algorithms
        self._priced: dict[tuple[str, Group, int], Price] = {}
        self._tensor: dict[tuple[int, int], dict[tuple[str, int], Price]] = {}
        self._data: dict[tuple[int, int, int, int], tuple[tuple[Price, ...], ...]] = {}
        self._records: dict[tuple[int, ...], RankPrices] = {}
        self._chosen: dict[tuple[str, int, int, int], str] = {}

    def on(self, fabric: ClosedFormFabric) -> Communication:
        """Return what the same step has to pay on another fabric."""
        return Communication(fabric, self._spec, self._algorithms)

    def prices(self, place: Coordinates, exchanges: Iterable[Exchange], buckets: Sequence[Bucket]) -> RankPrices:
        """Price everything that the rank at `place` sends."""
        mesh = self._spec.mesh
        rank = mesh.rank(place._asdict())
        tensor = self._tensor_prices(place.pp, mesh.group("tp", rank), exchanges)
        messages = self._send(rank, place, 1), self._send(rank, place, -1)
        reduce, merge, gather = self._data_prices(place, buckets)
        tied = self._tied(place)
        found = (*tensor.values(), *messages, *reduce, *merge, *gather, tied)
        record = RankPrices(tensor, *messages, reduce, merge, gather, tied)
        return self._records.setdefault((place.pp, *map(id, found)), record)

    def _tensor_prices(self, stage: int, group: Group, exchanges: Iterable[Exchange]) -> dict[tuple[str, int], Price]:
        if (stage, group.first) not in self._tensor:
            self._tensor[stage, group.first] = {
                (each.op, each.bytes): self.collective(each.op, group, each.bytes) for each in exchanges
            }
        return self._tensor[stage, group.first]

    def _data_prices(self, place: Coordinates, buckets: Sequence[Bucket]) -> tuple[tuple[Price, ...], ...]:
        """Price the reductions, merges and gathers of a rank: all members of its groups pay them."""
        number, position = divmod(place.dp, self._spec.sharding.group)
        key = (place.tp, place.pp, number, position if self._spec.sharding.copies > 1 else 0)
        if key not in self._data:
            sharing, copies = self.data_groups(place)
            gathers = self._gathers(sharing, buckets) if self._spec.sharding.zero else ()
            self._data[key] = self._reductions(sharing, buckets), self._merges(copies, buckets), gathers
        return self._data[key]

    def collective(self, op: str, group: Group, size_bytes: int) -> Price:
        """Price a collective with the algorithm that the scenario asks for.

        ``auto`` chooses for each group inside a server by itself. Between servers all groups of an axis do the
        same, as software would have it: the first of them chooses.
        """
        key = (op, group, size_bytes)
        if key not in self._priced:
            inside = self.inside_server(group)
            algorithm = self._algorithms(op, inside)
            if algorithm in {"auto", "neuron"} and not inside:
                algorithm = self._chosen.get((op, group.stride, group.size, size_bytes), "auto")
            price = self._price(op, algorithm, group, size_bytes)
            if not inside:
                self._chosen[op, group.stride, group.size, size_bytes] = price.algorithm
            self._priced[key] = price
        return self._priced[key]

    def _price(self, op: str, algorithm: str, group: Group, size_bytes: int) -> Price:
        if algorithm == "neuron" and self.inside_server(group):
            return self.fabric.by_neurons_rules(op, group, size_bytes)
        if algorithm in {"auto", "neuron"}:
            return self.fabric.best(op, group, size_bytes)
        try:
            return self.fabric.price(op, algorithm, group, size_bytes)
        except ValueError as error:
            where = "server" if self.inside_server(group) else "cluster"
            message = f"{error}; the {op} of {group.size} ranks has not; leave it out with {{{op}: {{{where}: auto}}}}"
            raise UnservedGroupError(algorithm, message) from None

    def message(self, source: int, target: int) -> Price:
        """Price an activation, or its gradient, from one rank to another."""
        return self.fabric.send(source, target, self._spec.activation_bytes)

    def inside_server(self, group: Group) -> bool:
        """Say whether all members of a group are in one server."""
        per_server = self._spec.placement.ranks_per_server
        return group.first // per_server == (group.first + group.stride * (group.size - 1)) // per_server

    def _send(self, rank: int, place: Coordinates, step: int) -> Price | None:
        pipeline, target = self._spec.pipeline, place.pp + step
        goes_round = pipeline.virtual_stages > 1
        if not (goes_round or 0 <= target < pipeline.stages):
            return None
        return self.message(rank, rank + (target % pipeline.stages - place.pp) * self._spec.mesh.stride("pp"))

    def data_groups(self, place: Coordinates) -> tuple[Group, Group]:
        """Return the data-parallel ranks that share with the rank at `place`, and those that hold what it holds."""
        group, stride = self._spec.sharding.group, self._spec.mesh.stride("dp")
        number, position = divmod(place.dp, group)
        first, same = (self._spec.mesh.rank({**place._asdict(), "dp": dp}) for dp in (number * group, position))
        return Group(first, stride, group), Group(same, stride * group, self._spec.sharding.copies)

    def _reductions(self, sharing: Group, buckets: Sequence[Bucket]) -> tuple[Price, ...]:
        sharding = self._spec.sharding
        return self._for_each(sharding.reduce_op, sharing, [sharding.reduce_bytes * b.parameters for b in buckets])

    def _merges(self, copies: Group, buckets: Sequence[Bucket]) -> tuple[Price, ...]:
        """Price the sums over groups: each rank that shares sums its part, or, where nothing is shared, all."""
        sharding = self._spec.sharding
        parts = [-(-bucket.parameters // sharding.optimizer_shards) for bucket in buckets]
        return self._for_each("all-reduce", copies, [sharding.reduce_bytes * part for part in parts])

    def _gathers(self, sharing: Group, buckets: Sequence[Bucket]) -> tuple[Price, ...]:
        return self._for_each("all-gather", sharing, [WEIGHT_BYTES * bucket.parameters for bucket in buckets])

    def _for_each(self, op: str, group: Group, sizes_bytes: Iterable[int]) -> tuple[Price, ...]:
        """Price a collective for each size; none for a group of one, which sends nothing."""
        if group.size == 1:
            return ()
        sizes = list(sizes_bytes)
        by_size = {size: self.collective(op, group, size) for size in dict.fromkeys(sizes)}
        return tuple(by_size[size] for size in sizes)

    def _tied(self, place: Coordinates) -> Price | None:
        spec = self._spec
        stages = spec.mesh.size("pp")
        if not spec.model.tied_embeddings or stages == 1 or place.pp not in (0, stages - 1):
            return None
        return self.collective("all-reduce", self.tied_group(place), spec.tied_bytes)

    def tied_group(self, place: Coordinates) -> Group:
        """Return the ranks of the first stage and the last that hold what the rank at `place` has of a tied embedding."""
        mesh = self._spec.mesh
        first = mesh.rank({**place._asdict(), "pp": 0})
        return Group(first, mesh.stride("pp") * (mesh.size("pp") - 1), 2)
