"""What programs cost on a network: closed forms, fluid flows that share links fairly, or single messages."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Literal

import numpy as np

from trnsim.engine.sharing import finish_ps
from trnsim.fabric.bounds import Bounds, LowerBounds
from trnsim.fabric.concurrent import Job, ends_s
from trnsim.fabric.flow_classes import UnsettledError
from trnsim.fabric.network_steps import folded, last_of_many_ps, loads_of, paths_of
from trnsim.record import Record

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from numpy.typing import NDArray

    from trnsim.collectives.program import Move, Phase, Program
    from trnsim.fabric.network_steps import Loads, Paths, Step
    from trnsim.topology.network import Network

    Collective = tuple[Program, NDArray[np.int64], float]

__all__ = ["MOST_FOLDED", "MOST_ROUNDS", "Fidelity", "Latencies", "NetworkFabric"]

MOST_FOLDED = 100_000
"""Paths that are folded into classes; of more than these, flows are told apart as their rates differ."""

MOST_ROUNDS = 30
"""How often classes may be split. Where that is not enough, flows are told apart as their rates differ, too."""

Fidelity = Literal["closed_form", "flow", "chunk"]


class Latencies(Record):
    """What time a collective takes beside the network.

    Parameters
    ----------
    collective_s
        Once per collective. >= 0.
    step_s
        Once per step. >= 0.
    """

    collective_s: float = 0.0
    step_s: float = 0.0


class NetworkFabric:
    """A group of endpoints of a network, and what its collectives cost.

    Each step of a phase begins when the one before has ended everywhere. A transfer takes the latency of its path, and
    then occupies all links of the path until its bytes are through; one over several paths is as many flows. The step
    ends with its last transfer.

    Parameters
    ----------
    network
        Links and routes.
    members
        The endpoint at which each member of the group sits; None: member i at endpoint i, all of them.
    latencies
        Beside those of the links.

    References
    ----------
    Velho, Schnorr, Casanova, Legrand, ACM TOMACS 23(4), 2013, doi:10.1145/2517448 (validity of fluid flow models)

    Examples
    --------
    A ring all-reduce of 1 GiB over 8 hosts of a star: 2 (N - 1) (S / (N B) + latency).

    >>> from trnsim.collectives import Arrangement, program
    >>> from trnsim.topology.machines import machine
    >>> star = machine("star", endpoints=8, bandwidth_bytes_per_s=50e9, latency_s=250e-9)
    >>> ring = program("all-reduce", "ring", Arrangement(ranks=8))
    >>> f"{NetworkFabric(star).time_s(ring, 2**30) * 1e3:.6f} ms"
    '37.587964 ms'
    """

    def __init__(
        self, network: Network, members: NDArray[np.int64] | None = None, latencies: Latencies | None = None
    ) -> None:
        self.network = network
        self.members = np.arange(network.endpoints) if members is None else members
        self.latencies = latencies or Latencies()
        self._bounds = LowerBounds(network, self.members)
        self._paths: dict[Hashable, Paths] = {}
        self._loads: dict[Hashable, Loads] = {}
        self._steps: dict[Hashable, Step] = {}

    def time_s(self, program: Program, size_bytes: float, fidelity: Fidelity = "flow") -> float:
        """Return the time of a collective that has the network for itself.

        Parameters
        ----------
        program
            Of as many ranks as the group has members.
        size_bytes
            Of the buffer. >= 0.
        fidelity
            ``closed_form``: the longest latency and the busiest link of each step, one after the other. ``flow``: flows
            that share links fairly, see `trnsim.engine.sharing`. ``chunk``: messages that queue at links, see
            `trnsim.fabric.chunk`.

        Raises
        ------
        ValueError
            If the size is negative, or the program is for another number of ranks.
        InputError
            If the step has too many paths for this fidelity.
        """
        _check(program, self.members, size_bytes)
        if not program.phases:
            return 0.0
        if fidelity == "chunk":
            from trnsim.fabric.chunk import chunk_s

            step_s = self.latencies.step_s
            return self.latencies.collective_s + chunk_s(
                self.network, self.members, program.phases, size_bytes, step_s=step_s
            )
        alike: dict[Hashable, float] = {}
        total_s = self.latencies.collective_s
        for phase in program.phases:
            key = self._key(phase)
            alike[key] = alike[key] if key in alike else self.step_s(phase, size_bytes, fidelity)
            total_s += phase.steps * alike[key]
        return total_s

    def bounds(self, op: str, size_bytes: float) -> Bounds:
        """Return the times that no algorithm of an operation can beat, software latencies included."""
        latencies = self.latencies
        return self._bounds.of(op, size_bytes, collective_s=latencies.collective_s, step_s=latencies.step_s)

    def step_s(self, phase: Phase, size_bytes: float, fidelity: Literal["closed_form", "flow"] = "flow") -> float:
        """Return the time of one step of a phase."""
        if fidelity == "closed_form":
            return self.latencies.step_s + self.loads(phase).closed_form_s(size_bytes)
        return self.latencies.step_s + self._flow_ps(phase, size_bytes) / 1e12

    def loads(self, phase: Phase) -> Loads:
        """Return what one step of a phase puts on the links."""
        key = self._key(phase)
        if key not in self._loads:
            self._loads[key] = loads_of(self.network, self._paths_of(phase))
        return self._loads[key]

    def step(self, phase: Phase) -> Step:
        """Return one step of a phase, folded.

        Raises
        ------
        UnsettledError
            If its paths are too many, or too different, to be folded.
        """
        key = self._key(phase)
        if key not in self._steps:
            paths = self._paths_of(phase)
            if paths.images == 1 and len(paths.share) > MOST_FOLDED:
                raise UnsettledError(f"{len(paths.share):,} paths are too many to be folded")
            self._steps[key] = folded(self.network, paths, most_rounds=MOST_ROUNDS)
        return self._steps[key]

    def _flow_ps(self, phase: Phase, size_bytes: float) -> int:
        try:
            step = self.step(phase)
        except UnsettledError:
            return last_of_many_ps(self.network, self._paths_of(phase), size_bytes)
        return max(finish_ps(step.capacities, step.flows(size_bytes)), default=0)

    def _paths_of(self, phase: Phase) -> Paths:
        key = self._key(phase)
        if key not in self._paths:
            self._paths[key] = paths_of(self.network, self.members, phase)
        return self._paths[key]

    def _key(self, phase: Phase) -> Hashable:
        """Return what phases have in common whose steps put the same bytes on the same links."""
        return frozenset(Counter(self._key_of_move(move) for move in phase.moves).items())

    def _key_of_move(self, move: Move) -> Hashable:
        if move.weights(len(self.members)) is not None:
            return move
        return move.pattern, move.fraction, move.touches if self.network.memory is not None else None

    def concurrent_s(self, collectives: Sequence[Collective]) -> list[float]:
        """Return the end of each of several collectives that begin together and share the links.

        Parameters
        ----------
        collectives
            Program, the endpoints of its members, and bytes of the buffer.

        Raises
        ------
        ValueError, InputError
            As for `time_s`.

        Examples
        --------
        Two collectives over the same links take twice as long as one, but for the latency.

        >>> from trnsim.collectives import Arrangement, program
        >>> from trnsim.topology.machines import machine
        >>> fabric = NetworkFabric(machine("ring", endpoints=4, bandwidth_bytes_per_s=50e9, latency_s=0.0))
        >>> shift = program("send-recv", "direct", Arrangement(ranks=4))
        >>> fabric.concurrent_s([(shift, fabric.members, 4e9)] * 2), fabric.time_s(shift, 4e9)
        ([0.04, 0.04], 0.02)
        """
        named = {str(number): collective for number, collective in enumerate(collectives)}
        return list(self.in_turns_s(named, {}).values())

    def in_turns_s(
        self, collectives: Mapping[str, Collective], orders: Mapping[int, Sequence[str]]
    ) -> dict[str, float]:
        """Return the end of each of several collectives that members call in their own order.

        A collective begins when its last member calls it. An endpoint with an order calls the next one when the one
        before has ended; all others call theirs at once.

        Parameters
        ----------
        collectives
            By name: program, the endpoints of its members, and bytes of the buffer.
        orders
            Of some endpoints, the names of the collectives that they call.

        Raises
        ------
        SimulationStalledError
            If members wait for one another for ever; it names them.
        ValueError, InputError
            As for `time_s`, or if an endpoint calls what it is no member of.

        Examples
        --------
        >>> from trnsim.collectives import Arrangement, program
        >>> from trnsim.topology.machines import machine
        >>> fabric = NetworkFabric(machine("ring", endpoints=2, bandwidth_bytes_per_s=50e9, latency_s=0.0))
        >>> swap = (program("send-recv", "direct", Arrangement(ranks=2)), fabric.members, 1e9)
        >>> fabric.in_turns_s({"A": swap, "B": swap}, {0: ["A", "B"]})
        {'A': 0.01, 'B': 0.02}
        >>> fabric.in_turns_s({"A": swap, "B": swap}, {0: ["A", "B"], 1: ["B", "A"]})
        Traceback (most recent call last):
        trnsim.errors.SimulationStalledError: SimulationStalledError at 0 s: 2 collectives wait and nothing is left to happen
          "A": 1 of 2 ranks joined, missing rank 1, which waits in "B"
          "B": 1 of 2 ranks joined, missing rank 0, which waits in "A"
        """
        for program, members, size_bytes in collectives.values():
            _check(program, members, size_bytes)
        jobs = {name: Job(program.phases, members, size) for name, (program, members, size) in collectives.items()}
        latencies = self.latencies
        return ends_s(self.network, jobs, orders, collective_s=latencies.collective_s, step_s=latencies.step_s)


def _check(program: Program, members: NDArray[np.int64], size_bytes: float) -> None:
    if not size_bytes >= 0:
        raise ValueError(f"a buffer has at least 0 bytes, not {size_bytes}")
    if program.ranks != len(members):
        raise ValueError(f"a program of {program.ranks} ranks cannot run on a group of {len(members)}")
