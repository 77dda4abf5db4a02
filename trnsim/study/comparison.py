"""Scenarios side by side, each against the first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trnsim import simulation
from trnsim.record import Record
from trnsim.units import format_count

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trnsim.results import Result
    from trnsim.scenario import Scenario

__all__ = ["Comparison", "compare"]


class Comparison(Record):
    """Results side by side.

    Parameters
    ----------
    results
        At least one; the first is what the others are measured against.
    """

    results: tuple[Result, ...]

    @property
    def warnings(self) -> tuple[str, ...]:
        """What makes the results hard to compare, and what each run warned about."""
        differences = [*_different_batches(self.results), *_different_models(self.results)]
        return (*differences, *(f"{result.name}: {text}" for result in self.results for text in result.warnings))

    def values(self, position: int) -> dict[str, float]:
        """Return the numbers of one result that are compared, by name; SI units."""
        result = self.results[position]
        return {
            "time_s": result.step.time_s,
            "tokens_per_s": result.step.tokens_per_s,
            "tokens_per_s_per_chip": result.step.tokens_per_s / result.cluster.chips,
            "mfu": result.step.mfu,
            "hfu": result.step.hfu,
            "memory_bytes": result.memory.bytes,
        }

    def parts(self, position: int) -> dict[str, float]:
        """Return the parts of the step of one result; seconds."""
        return self.results[position].step.breakdown_s.parts()

    def ratios(self, position: int) -> dict[str, float | None]:
        """Return the values of one result over those of the first; None where the first is zero."""
        return _over(self.values(position), self.values(0))

    def part_ratios(self, position: int) -> dict[str, float | None]:
        """Return the parts of one result over those of the first; None where the first is zero."""
        return _over(self.parts(position), self.parts(0))

    def speedup(self, position: int) -> float:
        """Return the tokens per second of one result over those of the first."""
        return self.results[position].step.tokens_per_s / self.results[0].step.tokens_per_s

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document of the comparison: per scenario its numbers and their ratios to the first."""
        return {
            "trnsim": self.results[0].provenance.trnsim,
            "scenarios": [self._entry(position) for position in range(len(self.results))],
            "warnings": list(self.warnings),
        }

    def _entry(self, position: int) -> dict[str, Any]:
        result = self.results[position]
        return {
            "name": result.name,
            "scenario_sha256": result.provenance.scenario_sha256,
            "model": result.model.name,
            "server": result.cluster.server,
            "servers": result.cluster.servers,
            "chips": result.cluster.chips,
            "tokens": result.step.tokens,
            **self.values(position),
            "memory_limit_bytes": result.memory.limit_bytes,
            "breakdown_s": self.parts(position),
            "ratio": {**self.ratios(position), "breakdown_s": self.part_ratios(position)},
        }


def compare(scenarios: Iterable[Scenario]) -> Comparison:
    """Simulate scenarios and set them side by side.

    Parameters
    ----------
    scenarios
        At least one; each is simulated as it is drawn. The first is what the others are measured against.

    Raises
    ------
    ValueError
        If there is no scenario.
    InputError
        If one of them cannot be simulated.
    """
    results = tuple(simulation.simulate(scenario) for scenario in scenarios)
    if not results:
        raise ValueError("a comparison needs at least one scenario")
    return Comparison(results)


def _over(values: dict[str, float], first: dict[str, float]) -> dict[str, float | None]:
    return {name: value / first[name] if first[name] else None for name, value in values.items()}


def _different_batches(results: tuple[Result, ...]) -> list[str]:
    sizes = [f"{format_count(result.step.tokens)} ({result.name})" for result in results]
    if len({result.step.tokens for result in results}) == 1:
        return []
    return [f"global batches differ, so the steps do different work; tokens per step: {', '.join(sizes)}"]


def _different_models(results: tuple[Result, ...]) -> list[str]:
    if len({(result.model.name, result.model.parameters) for result in results}) == 1:
        return []
    return [f"models differ, so tokens per s do not compare: {', '.join(result.model.name for result in results)}"]
