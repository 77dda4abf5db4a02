"""Programs as single messages that queue at links, for checking on small machines what the flow fidelity says."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from trnsim.collectives.patterns import SWITCH
from trnsim.engine.clock import picoseconds
from trnsim.engine.messages import Exchange, Send, exchange
from trnsim.errors import InputError, Problem
from trnsim.fabric.network_steps import seated
from trnsim.topology.network import Touches

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from trnsim.collectives.program import Phase
    from trnsim.topology.network import Network, Routes

    Integers = NDArray[np.int64]

__all__ = ["MOST_EVENTS", "MOST_RANKS", "chunk_s"]

MOST_RANKS = 16_384
"""Members of the largest group whose messages are followed one by one."""

MOST_EVENTS = 10**8
"""Crossings of links by messages that are followed one by one: some minutes."""


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
        If the group has more than :data:`MOST_RANKS` members, or there are more than :data:`MOST_EVENTS` crossings.

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
    if len(members) > MOST_RANKS:
        raise _refused(
            network, f"{len(members):,} ranks are more than the {MOST_RANKS:,} whose messages can be followed"
        )
    exchanges, events = [], 0
    for phase in phases:
        sends = _sends(network, members, phase, size_bytes)
        events += phase.steps * (len(sends) + sum(len(send.path) for each in sends for send in each))
        if events > MOST_EVENTS:
            raise _refused(network, f"{events:,} or more events are more than the {MOST_EVENTS:,} that end in minutes")
        exchanges.append(Exchange(sends, phase.steps))
    latencies_ps = np.rint(network.latency_s * 1e12).astype(np.int64).tolist()
    arrivals = exchange([exchanges], latencies_ps, cut_through=cut_through, pause_ps=picoseconds(step_s))
    return max(arrivals.ends_ps[0], default=0) / 1e12


def _sends(network: Network, members: Integers, phase: Phase, size_bytes: float) -> list[list[Send]]:
    """Return the messages of each member in one step; the switch that reduces is one more member, the last."""
    sends: list[list[Send]] = [[] for _ in range(len(members) + 1)]
    for move in phase.moves:
        sources, targets = move.pairs(len(members))
        weights = move.weights(len(members))
        share = np.ones(len(sources)) if weights is None else weights
        bytes_sent = [Fraction(each) * move.fraction * Fraction(size_bytes) for each in share.tolist()]
        routes = network.routes(seated(members, sources), seated(members, targets), Touches(*move.touches))
        for transfer, parts, path in _paths(network, routes):
            busy = ((link, _busy_ps(bytes_sent[transfer] * weight / parts, rate)) for link, weight, rate in path)
            sends[sources[transfer]].append(Send(_number(targets[transfer], members), tuple(busy)))
    return sends


def _paths(network: Network, routes: Routes) -> Iterator[tuple[int, int, list[tuple[int, int, int]]]]:
    """Yield for each path its transfer, its parts, and its links with weight and bandwidth."""
    rates = network.bytes_per_s[routes.link].tolist()
    crossings = list(zip(routes.link.tolist(), routes.weight.tolist(), rates, strict=True))
    bounds = routes.first.tolist()
    rows = zip(routes.transfer.tolist(), routes.parts.tolist(), bounds, bounds[1:], strict=False)
    for transfer, parts, start, end in rows:
        yield transfer, parts, crossings[start:end]


def _busy_ps(size: Fraction, bytes_per_s: int) -> int:
    """Return for how long a message keeps a link busy, in whole picoseconds."""
    return -(-size.numerator * 10**12 // (size.denominator * bytes_per_s))


def _number(rank: int, members: Integers) -> int:
    return len(members) if rank == SWITCH else int(rank)


def _refused(network: Network, message: str) -> InputError:
    return InputError([Problem("", f"{message}; use flow")], file=network.name)
