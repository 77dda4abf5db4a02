"""The closed-form fabric: alpha-beta prices of programs on a placed group, no other traffic about."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from msgspec import field

from trnsim.collectives import algorithm_names, program
from trnsim.collectives.policy import neuron_algorithm
from trnsim.fabric.layout import Layout, arrange, lay_out, renumbered
from trnsim.fabric.paths import Paths
from trnsim.fabric.price import MESSAGE, Cost
from trnsim.fabric.steps import step_traffic, transfer_traffic
from trnsim.fabric.struck import Bottleneck, Struck, StruckServer
from trnsim.hardware import StarScaleUp
from trnsim.parallel import Group
from trnsim.record import Record
from trnsim.topology.links import CORE_LINK
from trnsim.topology.perturbations import Impairments

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trnsim.collectives import Arrangement, Pattern, Phase, Program
    from trnsim.fabric.price import Price, Task
    from trnsim.fabric.struck import Culprit
    from trnsim.fabric.traffic import Traffic
    from trnsim.parallel import Placement
    from trnsim.topology import ClusterTopology

__all__ = ["CANDIDATES", "ClosedFormFabric"]

CANDIDATES = ("direct", "recursive-halving-doubling", "ring", "hierarchical")
"""Algorithms among which a training step chooses, as far as they know the operation; of equals the first is taken."""

RAIL_RING = "rail-ring"
"""A further one, as NCCL has it, for groups over several servers of GPUs."""

RINGS_ALONE = ("all-gather", "reduce-scatter")
"""Operations for which NCCL has nothing else there; only an all-reduce has trees."""


class LaidPhase(NamedTuple):
    """A phase: the traffic of one step, the steps, the share of the buffer per transfer, and the rings that are channels."""

    traffic: Traffic
    steps: int
    fraction: Fraction
    channels: int = 0


class LaidOut(NamedTuple):
    """An algorithm, and its phases."""

    algorithm: str
    phases: Sequence[LaidPhase]


class Place(Record, eq=False):
    """Where groups lie that lie alike, and what operations cost there.

    Parameters
    ----------
    layout
        Common to all groups of this place.
    programs
        What has been laid on the links so far, by operation and algorithm.
    costs
        What has been priced so far, by these and by what there is of impaired servers; equal costs are one.
    """

    layout: Layout
    programs: dict[tuple[str, str], LaidOut] = field(default_factory=dict)
    costs: dict[tuple[str, str, tuple[StruckServer, ...]], Cost] = field(default_factory=dict)


class ClosedFormFabric(Record, eq=False, dict=True):
    r"""Prices collectives of groups that have the machine to themselves.

    The time of a program is the sum over its phases of

    .. math:: n_{steps} \left( \max_{transfers} \alpha_{path} + \max_{links} \frac{bytes_{link}}{B_{link}} \right)

    with the bytes that the whole group puts on a link in one step: transfers of a program that meet on a link share
    it, other traffic is not there.

    Parameters
    ----------
    cluster
        The machine.
    placement
        Which rank is where.
    impairments
        Degraded and failed links. A group that touches a server with one is looked at there by itself.

    Notes
    -----
    - Inside a server bytes take the topology's route; each link gives its effective bandwidth per direction.
    - Between servers they leave by the NIC of the source's chip and arrive by that of the target's chip. What lies
      between never binds alone; with oversubscription every chip has its share of the trunks, as if all sent at
      once, up to the highest tier that a transfer of the step reaches. Bytes on the trunks are counted.
    - Logical cores of a chip are joined by core links, one for each ordered pair. Of its other links a chip's ranks
      each have their share: where g groups of one axis live on a chip, all are taken to do the same at once, and each
      has 1/g of the bandwidth of the links and of the NIC. Groups on other chips are not seen.
    - A ring visits its members in the order of ranks and pays the hops between them, except on a full square torus
      (16 chips of a Trn1 or Trn2 instance): there it runs along two cycles that share no link, both ways.
    - Steps of a phase wait for each other, so each has the latency of its longest path. The rings of a rail ring are
      channels that do not: there latencies add up along a ring, which leaves each server once. That is how NCCL counts
      (NVIDIA/nccl, src/graph/tuning.cc, commit 01afd20a).
    - Phases are synchronous and follow one another, also those of the hierarchical algorithm inside and between
      servers: where both ways are equally wide it takes up to twice what a pipelined one would. Launch times and the
      skew of ranks are not here.

    Examples
    --------
    >>> from trnsim.hardware import load_server
    >>> from trnsim.parallel import Group, Placement
    >>> from trnsim.topology import cluster_topology, load_fabric
    >>> cluster = cluster_topology(load_server("trn3-gen2-ultraserver"), 6945, load_fabric("ultracluster"))
    >>> fabric = ClosedFormFabric(cluster, Placement(ranks_per_chip=1, chips=144))
    >>> price = fabric.price("all-reduce", "ring", Group(first=0, stride=144, size=6945), size_bytes=1e9)
    >>> price.slowest_kind, price.bytes_by_kind["efa"] == 2 * 2 * 6944 * 1e9
    ('latency', True)
    """

    cluster: ClusterTopology
    placement: Placement
    impairments: Impairments = field(default_factory=Impairments)

    @cached_property
    def _paths(self) -> Paths:
        return Paths(self.cluster, self.placement.ranks_per_chip)

    @cached_property
    def _struck(self) -> Struck:
        return Struck(self._paths, self.placement, self.impairments)

    @cached_property
    def _places(self) -> dict[Group, Place]:
        return {}

    @cached_property
    def _struck_of(self) -> dict[Group, tuple[StruckServer, ...]]:
        return {}

    @cached_property
    def _messages(self) -> dict[tuple[object, ...], Cost]:
        return {}

    @cached_property
    def _costs(self) -> dict[tuple[object, ...], Cost]:
        return {}

    @cached_property
    def _by_layout(self) -> dict[Layout, Place]:
        return {}

    def price(self, op: str, algorithm: str, group: Group, size_bytes: float) -> Price:
        """Return what an operation costs by a given algorithm.

        Parameters
        ----------
        op, algorithm
            Names as in `trnsim.collectives`.
        group
            Its members. A group of one costs nothing.
        size_bytes
            The larger of one rank's input and output buffer. >= 0.

        Raises
        ------
        ValueError
            If a name is unknown, the size is negative, or the group spans servers that nothing joins.
        """
        place = self._place(group)
        if (op, algorithm) not in place.programs:
            place.programs[op, algorithm] = self._lay_out(op, algorithm, place.layout)
        return self._cost(op, algorithm, group).price(size_bytes)

    def best(self, op: str, group: Group, size_bytes: float, candidates: Iterable[str] = ()) -> Price:
        """Return the price by the fastest of several algorithms, the first of equals.

        Parameters
        ----------
        op, group, size_bytes
            As for `price`.
        candidates
            Algorithms to choose from; if empty those of `CANDIDATES` that know the operation, or if none does all that
            do and that the group can have. Over several servers of GPUs, with several members in each, the rail ring is
            one more, and of `RINGS_ALONE` the only one.
        """
        names = tuple(candidates) or self._candidates(op, group)
        return min((self.price(op, name, group, size_bytes) for name in names), key=lambda price: price.time_s)

    def _candidates(self, op: str, group: Group) -> tuple[str, ...]:
        arrangement = arrange(self._place(group).layout, self.cluster.server_topology.server)
        names = tuple(name for name in CANDIDATES if name in algorithm_names(op))
        if not names:
            return algorithm_names(op, arrangement)
        if not self._has_rails(arrangement) or RAIL_RING not in algorithm_names(op):
            return names
        return (RAIL_RING,) if op in RINGS_ALONE else (*names, RAIL_RING)

    def _has_rails(self, arrangement: Arrangement) -> bool:
        """Say whether several servers of GPUs have several members each."""
        is_star = isinstance(self.cluster.server_topology.server.scale_up, StarScaleUp)
        return is_star and 1 < arrangement.inner < arrangement.ranks

    def by_neurons_rules(self, op: str, group: Group, size_bytes: float) -> Price:
        """Return the price by the algorithm that Neuron's size rules name; by the ring where a group has no KangaRing.

        Parameters
        ----------
        op, group, size_bytes
            As for `price`; a group inside one server.
        """
        name = neuron_algorithm(size_bytes)
        known = algorithm_names(op, arrange(self._place(group).layout, self.cluster.server_topology.server))
        return self.price(op, name if name in known else "ring", group, size_bytes)

    def send(self, source: int, target: int, size_bytes: float) -> Price:
        """Return what a message from one rank to another costs.

        As for groups, every rank of a chip is taken to send at once, unless both ranks sit on one chip.

        Parameters
        ----------
        source, target
            Two different ranks.
        size_bytes
            >= 0.

        Raises
        ------
        ValueError
            If the ranks are one, the size is negative, or nothing joins their servers.

        Examples
        --------
        >>> from trnsim.hardware import load_server
        >>> from trnsim.parallel import Placement
        >>> from trnsim.topology import cluster_topology
        >>> cluster = cluster_topology(load_server("trn2.48xlarge"), 1, None)
        >>> fabric = ClosedFormFabric(cluster, Placement(ranks_per_chip=1, chips=16))
        >>> dict(fabric.send(0, 5, size_bytes=1e6).bytes_by_kind)  # one chip to the right and one down
        {'neuronlink-xy': 2000000.0}
        """
        if source == target:
            raise ValueError(f"rank {source} cannot send to itself")
        alike = self._in_common(source, target)
        if alike not in self._messages:
            self._messages[alike] = self._message(source, target)
        return self._messages[alike].price(size_bytes)

    def _in_common(self, source: int, target: int) -> tuple[object, ...]:
        """Return what messages have in common that cost the same: places in servers, a tier, and what is wrong there."""
        per_server = self.placement.ranks_per_server
        servers = source // per_server, target // per_server
        fabric, tier = self.cluster.fabric, -1
        if fabric and servers[0] != servers[1]:
            tier = fabric.meeting_tier(*map(self.placement.endpoint, (source, target)))
        wrong = tuple(map(self._struck.wrongs, servers)) if self.impairments.of_links else ()
        return source % per_server, target - source, tier, wrong

    def _message(self, source: int, target: int) -> Cost:
        group, direction = _pair(source, target)
        place, key = self._place(group), (MESSAGE, direction)
        if key not in place.programs:
            kept = self.impairments.of_links
            here, there = (0, 1) if source < target else (1, 0)
            traffic = transfer_traffic(place.layout, here, there, self._paths, is_kept=kept)
            place.programs[key] = LaidOut("direct", [LaidPhase(traffic, 1, Fraction(1))])
        return self._cost(*key, group)

    def losses(self, task: Task, ranks: Group | tuple[int, int]) -> dict[Culprit, float]:
        """Return how much longer each impaired link makes a transfer, in seconds.

        Parameters
        ----------
        task
            What is carried out, and how.
        ranks
            The members of a collective; sender and receiver of a message.
        """
        if isinstance(ranks, Group):
            group, algorithm = ranks, task.algorithm
            self.price(task.op, algorithm, group, task.size_bytes)
        else:
            group, algorithm = _pair(*ranks)
            self._message(*ranks)
        place, struck = self._place(group), self._struck_servers(group)
        groups_per_chip = self._groups_per_chip(place)
        lost_s: defaultdict[Culprit, float] = defaultdict(float)
        for traffic, steps, fraction, _ in place.programs[task.op, algorithm].phases:
            found, meant = (self._slowest(traffic, groups_per_chip, each) for each in (struck, ()))
            if found.culprit is not None:
                lost_s[found.culprit] += float(steps * fraction) * task.size_bytes * (found.seconds - meant.seconds)
            if found.late_by is not None:
                lost_s[found.late_by] += steps * (found.latency_s - meant.latency_s)
        return {culprit: lost for culprit, lost in lost_s.items() if lost > 0}

    def program(self, op: str, algorithm: str, group: Group) -> Program:
        """Return the program whose price is that of an operation; arguments and errors as for `price`."""
        return self._program(op, algorithm, self._place(group).layout)

    def link_counts(self) -> dict[str, int]:
        """Count the directed links of each kind in the cluster, core links of ranks that share a chip included."""
        cores = self.placement.ranks_per_chip
        core_links = {CORE_LINK: self.cluster.chips * cores * (cores - 1)} if cores > 1 else {}
        return core_links | self.cluster.link_counts()

    def _place(self, group: Group) -> Place:
        if group not in self._places:
            layout = self._as_priced(lay_out(group, self.placement))
            self._places[group] = self._by_layout.setdefault(layout, Place(layout))
        return self._places[group]

    def _as_priced(self, layout: Layout) -> Layout:
        """Forget which chips of its servers a group has, where that makes no difference to what it pays.

        It makes one only if a switch group that ends inside a server may hold members of two servers; and no chip then
        makes one for a group with one chip of each server, as long as no switch group ends between the two.
        """
        moved = renumbered(layout, self.cluster.server_topology.server)
        if layout.in_one_server:
            return moved
        chips = self._paths.chips
        blocks = [block for block in self._paths.blocks if block < self.cluster.chips]
        apart = chips - max(layout.spread, moved.spread)
        if all(block % chips == 0 or block <= apart for block in blocks):
            return moved
        return layout.on_first_chips(math.gcd(chips, *blocks)) if layout.spread == 0 else layout

    def _struck_servers(self, group: Group) -> tuple[StruckServer, ...]:
        """Return the servers of a group whose links are impaired."""
        if not self.impairments.of_links:
            return ()
        if group not in self._struck_of:
            self._struck_of[group] = self._struck.servers_of(group, self._place(group).layout)
        return self._struck_of[group]

    def _program(self, op: str, algorithm: str, layout: Layout) -> Program:
        return program(op, algorithm, arrange(layout, self.cluster.server_topology.server))

    def _lay_out(self, op: str, algorithm: str, layout: Layout) -> LaidOut:
        plan = self._program(op, algorithm, layout)
        traffics: dict[frozenset[tuple[Pattern, int]], Traffic] = {}
        phases = []
        for phase in plan.phases:
            moves, fraction = _in_units(phase)
            alike = frozenset(moves.items())
            if alike not in traffics:
                kept = self.impairments.of_links
                traffics[alike] = step_traffic(moves, layout, self._paths, is_kept=kept)
            channels = 0 if phase.keeps_step else len(phase.moves)
            phases.append(LaidPhase(traffics[alike], phase.steps, fraction, channels))
        return LaidOut(plan.algorithm, phases)

    def _cost(self, op: str, algorithm: str, group: Group) -> Cost:
        """Add up the phases of a program that has been laid out."""
        place, struck = self._place(group), self._struck_servers(group)
        key = (op, algorithm, struck)
        if key in place.costs:
            return place.costs[key]
        latency_s = 0.0
        seconds: dict[str, float] = defaultdict(float)
        links: dict[str, float] = defaultdict(float)
        groups_per_chip = self._groups_per_chip(place)
        for traffic, steps, fraction, channels in place.programs[op, algorithm].phases:
            kind, seconds_per_byte, step_s, *_ = self._slowest(traffic, groups_per_chip, struck)
            share = steps * fraction
            if channels:
                latency_s += traffic.way_s(channels, steps) + steps * (step_s - traffic.latency_s)
            else:
                latency_s += steps * step_s
            seconds[kind] += float(share) * seconds_per_byte
            for carrier, transfers in traffic.carried().items():
                links[carrier] += share.numerator * transfers / share.denominator
        name = place.programs[op, algorithm].algorithm
        value = (op, name, latency_s, tuple(seconds.items()), tuple(links.items()))
        if value not in self._costs:
            self._costs[value] = Cost(op, name, latency_s, dict(seconds), dict(links))
        place.costs[key] = self._costs[value]
        return place.costs[key]

    def _groups_per_chip(self, place: Place) -> int:
        return math.ceil(self.placement.ranks_per_chip / place.layout.members_per_chip)

    def _slowest(self, traffic: Traffic, groups_per_chip: int, struck: Sequence[StruckServer]) -> Bottleneck:
        """Return the slowest link of a step, and the longest latency."""
        numbers = [traffic.numbers[each.member % len(traffic.numbers)] for each in struck]
        kind, seconds = traffic.bottleneck(groups_per_chip, Counter(numbers))
        found = Bottleneck(kind, seconds, traffic.latency_s)
        different = {
            (number, each.chips, self._struck.wrongs(each.number)): (number, each)
            for number, each in zip(numbers, struck, strict=True)
        }
        for number, server in different.values():
            there = self._struck.bottleneck(traffic, number, server, groups_per_chip)
            if there.seconds > found.seconds:
                found = found._replace(kind=there.kind, seconds=there.seconds, culprit=there.culprit)
            if there.latency_s > found.latency_s:
                found = found._replace(latency_s=there.latency_s, late_by=there.late_by)
        return found


def _pair(source: int, target: int) -> tuple[Group, str]:
    """Return two ranks as a group, and which of its members sends to which."""
    return Group(min(source, target), abs(target - source), size=2), "0 to 1" if source < target else "1 to 0"


def _in_units(phase: Phase) -> tuple[dict[Pattern, int], Fraction]:
    """Return for each pattern how many transfers of one size it stands for, and that share of the buffer."""
    whole = math.lcm(*(move.fraction.denominator for move in phase.moves))
    parts = [int(move.fraction * whole) for move in phase.moves]
    largest = math.gcd(*parts) or 1
    moves: Counter[Pattern] = Counter()
    for move, part in zip(phase.moves, parts, strict=True):
        moves[move.pattern] += part // largest or 1
    return moves, Fraction(math.gcd(*parts), whole)
