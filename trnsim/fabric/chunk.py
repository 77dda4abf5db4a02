"""Programs as single messages that queue at links, for checking on small machines what the flow fidelity says."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from trnsim.collectives.cargo import Pieces
from trnsim.collectives.patterns import SWITCH, Everyone, Hops
from trnsim.collectives.program import Move, Phase
from trnsim.engine.clock import picoseconds
from trnsim.engine.messages import Exchange, Path, Send, exchange
from trnsim.errors import InputError, Problem
from trnsim.fabric.limits import MOST_CHUNK_RANKS
from trnsim.fabric.network_steps import seated
from trnsim.fabric.price import MESSAGE
from trnsim.parallel import Group
from trnsim.topology.network import Touches

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from trnsim.fabric.closed_form import ClosedFormFabric
    from trnsim.fabric.price import Task
    from trnsim.topology.network import Network, Routes

    Integers = NDArray[np.int64]

__all__ = ["MOST_EVENTS", "ChunkFabric", "chunk_s"]

MOST_EVENTS = 2 * 10**7
"""Events of messages that are followed one by one, of a collective or of a step: some minutes."""

_MESSAGE_PHASE = Phase((Move(Hops(first=0, step=1, count=1, distance=1, span=2), Pieces(1)),))
"""The first of a pair sends all that there is to the second."""


def chunk_s(
    network: Network,
    members: Integers,
    phases: Sequence[Phase],
    size_bytes: float,
    *,
    step_s: float = 0.0,
    cut_through: bool = True,
) -> float:
    """Return when the last member of a group has finished a program of single messages.

    Each link serves messages in the order of their arrival, and a member begins its next step when its own messages have
    left and those for it have arrived; nobody waits for the others. See `trnsim.engine.messages`.

    Parameters
    ----------
    network
        Links and routes.
    members
        The endpoint at which each member of the group sits.
    phases
        Of the program.
    size_bytes
        Of the buffer. >= 0.
    step_s
        Time that a member takes before each step.
    cut_through
        Whether a message goes on to the next link before all of it has come.

    Raises
    ------
    InputError
        If the group has more than :data:`MOST_CHUNK_RANKS` members, or there are more than :data:`MOST_EVENTS` events.

    Examples
    --------
    Two chips of a star swap 50 kB over two links of 1 us each; with store-and-forward each link takes its time in turn.

    >>> from trnsim.collectives import Arrangement, program
    >>> from trnsim.topology.machines import machine
    >>> star = machine("star", endpoints=2, bandwidth_bytes_per_s=50e9, latency_s=1e-6)
    >>> swap = program("send-recv", "direct", Arrangement(ranks=2)).phases
    >>> [chunk_s(star, np.arange(2), swap, 100e3, cut_through=through) for through in (True, False)]
    [3e-06, 4e-06]
    """
    if len(members) > MOST_CHUNK_RANKS:
        raise _refused(
            network, f"{len(members):,} ranks are more than the {MOST_CHUNK_RANKS:,} whose messages can be followed"
        )
    exchanges = exchanges_of(network, members, phases, size_bytes, most_events=MOST_EVENTS)
    arrivals = exchange([exchanges], latencies_ps(network), cut_through=cut_through, pause_ps=picoseconds(step_s))
    return max(arrivals.ends_ps[0], default=0) / 1e12


class ChunkFabric:
    """What the ranks of a machine send one another, message by message, and over which links.

    Parameters
    ----------
    fabric
        Has the placement of the ranks, and the programs of their groups.
    network
        The links of the same machine; endpoint ``chip * ranks_per_chip + core``.

    Notes
    -----
    A collective takes the program by which the closed form prices it. What the closed form takes as a share, a chip's
    part of oversubscribed trunks or of the links that its groups use at once, is here what messages find.

    Examples
    --------
    >>> from trnsim.fabric.closed_form import ClosedFormFabric
    >>> from trnsim.fabric.price import Task
    >>> from trnsim.hardware import load_server
    >>> from trnsim.parallel import Placement
    >>> from trnsim.topology import cluster_topology
    >>> from trnsim.topology.cluster_network import cluster_network
    >>> cluster = cluster_topology(load_server("trn2.48xlarge"), 1, None)
    >>> placed = ClosedFormFabric(cluster, Placement(ranks_per_chip=1, chips=16))
    >>> chunk = ChunkFabric(placed, cluster_network(cluster))
    >>> ring = chunk.exchanges((0, 1, 2, 3), Task("all-gather", "ring", 4e6))
    >>> [(len(each.sends), each.steps) for each in ring], chunk.events((0, 1, 2, 3), Task("all-gather", "ring", 4e6))
    ([(5, 3)], 39)
    """

    def __init__(self, fabric: ClosedFormFabric, network: Network) -> None:
        self.network = network
        self._fabric = fabric
        self._found: dict[tuple[tuple[int, ...], Task], list[Exchange]] = {}

    @property
    def latencies_ps(self) -> list[int]:
        """The latency of each link in whole picoseconds."""
        return latencies_ps(self.network)

    def exchanges(self, ranks: tuple[int, ...], task: Task) -> list[Exchange]:
        """Return what the members of a group send one another; of a message, the sender comes first.

        Raises
        ------
        InputError
            If that takes more than :data:`MOST_EVENTS` events.
        """
        if (ranks, task) not in self._found:
            members = np.array([self._endpoint(rank) for rank in ranks])
            self._found[ranks, task] = exchanges_of(
                self.network, members, self._phases(ranks, task), task.size_bytes, most_events=MOST_EVENTS
            )
        return self._found[ranks, task]

    def events(self, ranks: tuple[int, ...], task: Task) -> int:
        """Return about how many events a task takes."""
        return sum(events_of(each) for each in self.exchanges(ranks, task))

    def _endpoint(self, rank: int) -> int:
        placement = self._fabric.placement
        return placement.endpoint(rank) * placement.ranks_per_chip + placement.slot(rank).core

    def _phases(self, ranks: tuple[int, ...], task: Task) -> Sequence[Phase]:
        if task.op == MESSAGE:
            return (_MESSAGE_PHASE,)
        group = Group(ranks[0], ranks[1] - ranks[0], len(ranks))
        return self._fabric.program(task.op, task.algorithm, group).phases


def latencies_ps(network: Network) -> list[int]:
    """Return the latency of each link in whole picoseconds."""
    found: list[int] = np.rint(network.latency_s * 1e12).astype(np.int64).tolist()
    return found


def exchanges_of(
    network: Network, members: Integers, phases: Sequence[Phase], size_bytes: float, *, most_events: int
) -> list[Exchange]:
    """Return what the members of a group send one another in a program.

    Parameters
    ----------
    network, members, phases, size_bytes
        As for `chunk_s`.
    most_events
        How many events it may take.

    Raises
    ------
    InputError
        If it takes more.
    """
    exchanges, events = [], 0
    for channel, phase in _by_channel(phases):
        _refuse_many(network, events + phase.steps * _least_transfers(phase, len(members)), most_events)
        exchanges.append(Exchange(_sends(network, members, phase, size_bytes), phase.steps, channel))
        events += events_of(exchanges[-1])
        _refuse_many(network, events, most_events)
    return exchanges


def _by_channel(phases: Sequence[Phase]) -> Iterator[tuple[int, Phase]]:
    """Yield the phases with the number of their channel: one, or as many as moves where no phase keeps them in step."""
    apart = not any(phase.keeps_step for phase in phases) and len({len(phase.moves) for phase in phases}) == 1
    for phase in phases:
        if apart:
            yield from ((channel, replace(phase, moves=(move,))) for channel, move in enumerate(phase.moves))
        else:
            yield 0, phase


def events_of(exchange: Exchange) -> int:
    """Return about how many events an exchange takes: one for each member of each step, one for each link of a message."""
    crossings = sum(len(send.path) for sends in exchange.sends for send in sends)
    return exchange.steps * (len(exchange.sends) + crossings)


def _least_transfers(phase: Phase, members: int) -> int:
    """Count the transfers of a step where they are too many to be listed."""
    return sum(members * (move.pattern.span - 1) for move in phase.moves if isinstance(move.pattern, Everyone))


def _refuse_many(network: Network, events: int, most: int) -> None:
    if events > most:
        raise _refused(network, f"{events:,} or more events are more than the {most:,} that end in minutes")


def _sends(network: Network, members: Integers, phase: Phase, size_bytes: float) -> list[list[Send]]:
    """Return the messages of each member in one step; the switch that reduces is one more member, the last."""
    sends: list[list[Send]] = [[] for _ in range(len(members) + 1)]
    for move in phase.moves:
        sources, targets = move.pairs(len(members))
        weights = move.weights(len(members))
        share = np.ones(len(sources)) if weights is None else weights
        bytes_sent = [Fraction(each) * move.fraction * Fraction(size_bytes) for each in share.tolist()]
        routes = network.routes(seated(members, sources), seated(members, targets), Touches(*move.touches))
        for transfer, path in _paths(network, routes, bytes_sent):
            sends[sources[transfer]].append(Send(_number(targets[transfer], members), path))
    return sends


def _paths(network: Network, routes: Routes, bytes_sent: Sequence[Fraction]) -> Iterator[tuple[int, Path]]:
    """Yield for each path its transfer, and its links with how long the transfer's bytes keep them busy."""
    rates = network.bytes_per_s[routes.link].tolist()
    crossings = list(zip(routes.link.tolist(), routes.weight.tolist(), rates, strict=True))
    bounds = routes.first.tolist()
    rows = zip(routes.transfer.tolist(), routes.parts.tolist(), bounds, bounds[1:], strict=False)
    for transfer, parts, start, end in rows:
        size = bytes_sent[transfer] / parts
        yield transfer, tuple((link, _busy_ps(size * weight, rate)) for link, weight, rate in crossings[start:end])


def _busy_ps(size: Fraction, bytes_per_s: int) -> int:
    """Return for how long a message keeps a link busy, in whole picoseconds."""
    return -(-size.numerator * 10**12 // (size.denominator * bytes_per_s))


def _number(rank: int, members: Integers) -> int:
    return len(members) if rank == SWITCH else int(rank)


def _refused(network: Network, message: str) -> InputError:
    return InputError([Problem("", f"{message}; use flow")], file=network.name)
