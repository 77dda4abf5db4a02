"""What a program does on a network, in words and numbers that a reader can check."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from trnsim.collectives.patterns import Everyone, Hops, Shift, SwitchTransfers, Tour
from trnsim.record import Record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trnsim.collectives.patterns import Pattern
    from trnsim.collectives.program import Phase, Program
    from trnsim.fabric.bounds import Bounds
    from trnsim.fabric.network_fabric import Fidelity, NetworkFabric

__all__ = ["LATENCY", "Explanation", "PhaseShare", "explain"]

LATENCY = "latency"
"""What bounds a program whose links are idle most of the time."""


class PhaseShare(Record):
    """One phase of a program on a network.

    Parameters
    ----------
    moves
        Who sends to whom, one text per move.
    steps
        How often.
    step_s
        Time of one step.
    busiest_link
        Ends of the link that takes longest; empty if no link is crossed.
    busiest_kind
        Its kind.
    busiest_bytes
        What it carries in one step.
    busiest_s
        Time that this takes.
    """

    moves: tuple[str, ...]
    steps: int
    step_s: float
    busiest_link: str
    busiest_kind: str
    busiest_bytes: float
    busiest_s: float


class Explanation(Record):
    """A program on a network.

    Parameters
    ----------
    phases
        One after the other.
    time_s
        Of the whole program.
    bytes_by_kind
        Bytes over all links of a kind, in all steps; a byte counts on every link that it crosses.
    busiest
        The phase whose busiest link takes most of the time; None where no link is crossed.
    bounds
        Times that no algorithm can beat.
    """

    phases: tuple[PhaseShare, ...]
    time_s: float
    bytes_by_kind: Mapping[str, float]
    busiest: PhaseShare | None
    bounds: Bounds

    @property
    def steps(self) -> int:
        """Steps of all phases."""
        return sum(phase.steps for phase in self.phases)

    @property
    def bound_by(self) -> str:
        """The kind of link that is busiest for most of the time, or ``"latency"`` where that is more."""
        parts: defaultdict[str, float] = defaultdict(float)
        for phase in self.phases:
            parts[phase.busiest_kind] += phase.steps * phase.busiest_s
        parts[LATENCY] = self.time_s - sum(parts.values())
        return max(parts, key=lambda part: parts[part])

    @property
    def above_bound(self) -> float:
        """How many times the largest bound the program takes; 1 at the bound, and for nothing at all."""
        return self.time_s / self.bounds.largest_s if self.bounds.largest_s else 1.0


def explain(fabric: NetworkFabric, program: Program, size_bytes: float, fidelity: Fidelity = "flow") -> Explanation:
    """Return what a program does on the network of a fabric.

    Parameters
    ----------
    fabric
        Network, group and latencies.
    program
        Of as many ranks as the group has members.
    size_bytes
        Of the buffer. >= 0.
    fidelity
        How it is timed; the time of one step is that of ``flow`` where messages are followed one by one.

    Raises
    ------
    ValueError, InputError
        As for `NetworkFabric.time_s`.

    Examples
    --------
    >>> from trnsim.collectives import Arrangement, program
    >>> from trnsim.fabric.network_fabric import NetworkFabric
    >>> from trnsim.topology.machines import machine
    >>> star = NetworkFabric(machine("star", endpoints=4, bandwidth_bytes_per_s=50e9, latency_s=1e-6))
    >>> found = explain(star, program("all-to-all", "direct", Arrangement(ranks=4)), 4e9)
    >>> found.steps, found.bytes_by_kind, found.bound_by, f"{found.above_bound:.4f}"
    (1, {'up': 12000000000.0, 'down': 12000000000.0}, 'up', '1.0000')
    >>> found.busiest.busiest_link, found.busiest.busiest_bytes, found.busiest.busiest_s
    ('chip 0 -> switch', 3000000000.0, 0.06)
    """
    time_s = fabric.time_s(program, size_bytes, fidelity)
    phases = tuple(_share(fabric, phase, size_bytes, fidelity) for phase in program.phases)
    carried: defaultdict[str, float] = defaultdict(float)
    for phase in program.phases:
        for kind, share in fabric.loads(phase).bytes_by_kind.items():
            carried[kind] += phase.steps * share * size_bytes
    crossing = [phase for phase in phases if phase.busiest_link]
    busiest = max(crossing, key=lambda phase: phase.steps * phase.busiest_s, default=None)
    return Explanation(phases, time_s, dict(carried), busiest, fabric.bounds(program.op, size_bytes))


def _share(fabric: NetworkFabric, phase: Phase, size_bytes: float, fidelity: Fidelity) -> PhaseShare:
    network, loads = fabric.network, fabric.loads(phase)
    step_s = fabric.step_s(phase, size_bytes, "flow" if fidelity == "chunk" else fidelity)
    moves = tuple(_words(move.pattern) for move in phase.moves)
    if not loads.bytes_by_kind:
        return PhaseShare(moves, phase.steps, step_s, "", LATENCY, 0.0, 0.0)
    busiest_s = loads.seconds_per_byte * size_bytes
    return PhaseShare(
        moves=moves,
        steps=phase.steps,
        step_s=step_s,
        busiest_link=network.link_name(loads.busiest),
        busiest_kind=network.kinds[network.kind[loads.busiest]],
        busiest_bytes=busiest_s * int(network.bytes_per_s[loads.busiest]),
        busiest_s=busiest_s,
    )


def _words(pattern: Pattern) -> str:
    """Say who sends to whom."""
    among = f"among {pattern.span}" if pattern.stride == 1 else f"among {pattern.span} that are {pattern.stride} apart"
    match pattern:
        case Everyone():
            return f"each to all others, {among}"
        case Shift():
            return f"each to the one {pattern.distance:+d}, {among}"
        case Tour():
            return f"each to the next on a tour, {among}"
        case SwitchTransfers():
            return f"each to the switch, {among}" if pattern.up else f"the switch to each, {among}"
        case Hops():
            return f"{pattern.count} each to the one {pattern.distance:+d}, {among}"
        case _:
            return f"along trees, {among}"
