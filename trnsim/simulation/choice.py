"""Which algorithm a collective takes at each size: the one that was named, Neuron's by its rules, or the fastest."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.structs import replace

from trnsim.collectives import algorithm, algorithm_names, program
from trnsim.errors import InputError, Problem
from trnsim.results.collective_times import Rival

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trnsim.collectives import Arrangement, Program
    from trnsim.fabric.network_fabric import Fidelity
    from trnsim.simulation.fitted import Fabrics

__all__ = ["Choice", "Chooser"]

_MOST_PIECES: Final = 1 << 14
_MOST_TRANSFERS: Final = 1 << 21
"""Ranks times different steps of a program that `auto` looks at."""


class Choice(NamedTuple):
    """The program for a size, its time, and the algorithms that were not taken, fastest first."""

    program: Program
    time_s: float
    rivals: tuple[Rival, ...]


class Chooser:
    """Finds the program for each size; programs do not depend on sizes, so the fabric finds their routes once.

    Parameters
    ----------
    fabrics
        Price them.
    op
        Operation.
    arrangement
        What algorithms may know of the group.
    fidelity
        How a program is priced.
    by_name_only
        Algorithms that are not considered unless they are named, and why.
    """

    def __init__(
        self,
        fabrics: Fabrics,
        op: str,
        arrangement: Arrangement,
        fidelity: Fidelity,
        by_name_only: Mapping[str, str],
    ) -> None:
        self._fabrics = fabrics
        self._by_name_only = by_name_only
        self._op = op
        self._arrangement = arrangement
        self._fidelity = fidelity
        self._programs: dict[tuple[str, int], Program] = {}

    def named(self, name: str, size_bytes: int) -> Choice:
        """Return the program of one algorithm.

        Raises
        ------
        InputError
            If its steps are too large for the fidelity.
        ValueError
            If the group lacks what it needs.
        """
        plan = self._best_cut(name, size_bytes)
        return Choice(plan, self._fabrics.of(plan).time_s(plan, size_bytes, self._fidelity), ())

    def fastest(self, size_bytes: int) -> Choice:
        """Return the program that takes least time; single messages are simulated for the one that flows prefer.

        An algorithm is not priced to the end if the latency or the busiest link of each of its steps already takes
        longer than another algorithm in all.

        Raises
        ------
        InputError
            If the steps of all algorithms are too large, with the reasons.
        """
        fidelity: Fidelity = "closed_form" if self._fidelity == "closed_form" else "flow"
        priced: list[tuple[float, Program]] = []
        rivals: list[Rival] = []
        plans = [self._best_cut(name, size_bytes) for name in self.considered]
        for least_s, plan in sorted(
            ((self._least_s(plan, size_bytes), plan) for plan in plans), key=lambda each: each[0]
        ):
            if priced and least_s >= min(time_s for time_s, _ in priced):
                rivals.append(Rival(plan.algorithm, least_s, at_least=True))
            else:
                priced.append((self._fabrics.of(plan).time_s(plan, size_bytes, fidelity), plan))
        (time_s, plan), *slower = sorted(priced, key=lambda each: each[0])
        rivals += [Rival(other.algorithm, other_s, at_least=False) for other_s, other in slower]
        if self._fidelity == "chunk":
            time_s = self._fabrics.of(plan).time_s(plan, size_bytes, "chunk")
        return Choice(plan, time_s, tuple(sorted(rivals, key=lambda rival: rival.time_s)))

    @property
    def considered(self) -> tuple[str, ...]:
        """Algorithms among which the fastest is sought."""
        return self._found[0]

    @property
    def left_out(self) -> dict[str, str]:
        """Algorithms that would do but are not considered, and why."""
        return self._found[1]

    @cached_property
    def _found(self) -> tuple[tuple[str, ...], dict[str, str]]:
        """Part the algorithms for which the group lacks nothing into those whose size allows to price them, and others."""
        names = algorithm_names(self._op, self._arrangement)
        if self._arrangement.ranks == 1:
            return names[:1], {}  # nothing is done, by whatever algorithm
        if self._arrangement.inner in (1, self._arrangement.ranks) and len(names) > 1:
            names = tuple(name for name in names if name != "hierarchical")  # on one level it is one of the others
        reasons = {name: self._reason_against(name) for name in names}
        considered = tuple(name for name, reason in reasons.items() if not reason)
        left_out = {name: reason for name, reason in reasons.items() if reason}
        if not considered:
            problems = [Problem(name, reason) for name, reason in left_out.items()]
            raise InputError(problems, file=self._fabrics.plain.network.name)
        return considered, left_out

    def _reason_against(self, name: str) -> str:
        if name in self._by_name_only:
            return self._by_name_only[name]
        plan = self._program(name, 1)
        if (transfers := len(plan.phases) * plan.ranks) > _MOST_TRANSFERS:
            steps = f"{len(plan.phases):,} different steps of {plan.ranks:,} ranks, {transfers:,} in all"
            return f"{steps}, are too many to try; it may be faster, and --algorithm {name} prices it alone"
        try:
            for phase in plan.phases[:1]:
                self._fabrics.of(plan).loads(phase)
        except InputError as error:
            return error.problems[0].message
        return ""

    def _best_cut(self, name: str, size_bytes: int) -> Program:
        """Return the program of an algorithm, cut into as many pieces (a power of two) as are fastest in closed form."""
        best = self._program(name, 1)
        if not algorithm(self._op, name).pipelined or not best.phases:
            return best
        best_s, pieces = self._fabrics.of(best).time_s(best, size_bytes, "closed_form"), 2
        while pieces <= _MOST_PIECES:
            finer = self._program(name, pieces)
            time_s = self._fabrics.of(finer).time_s(finer, size_bytes, "closed_form")
            if time_s >= best_s:
                break
            best, best_s, pieces = finer, time_s, 2 * pieces
        return best

    def _program(self, name: str, pieces: int) -> Program:
        if (name, pieces) not in self._programs:
            self._programs[name, pieces] = program(self._op, name, replace(self._arrangement, pieces=pieces))
        return self._programs[name, pieces]

    def _least_s(self, plan: Program, size_bytes: int) -> float:
        """Return what a program takes at least: of each step the longest latency or the time of the busiest link."""
        fabric = self._fabrics.of(plan)
        pause_s = fabric.latencies.step_s
        loads = ((phase.steps, fabric.loads(phase)) for phase in plan.phases)
        return fabric.latencies.collective_s + sum(
            steps * (pause_s + max(each.latency_s, each.seconds_per_byte * size_bytes)) for steps, each in loads
        )
