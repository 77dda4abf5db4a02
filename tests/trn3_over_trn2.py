"""Trainium3 against Trainium2 at 9,216 chips: the same training with one cause of difference changed at a time."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

from msgspec.structs import replace

import trnsim
from trnsim.hardware.software import REGIMES

if TYPE_CHECKING:
    from trnsim import Result
    from trnsim.hardware import Server
    from trnsim.scenario import Scenario

PRECISIONS = ("bf16", "fp8")
CAUSES = ("as it is", "peak of Trainium3", "HBM of Trainium3", "UltraServers of Trainium3", "hosts of Trainium3")
"""What a Trainium2 cluster gets, one after the other, until it is the Trainium3 cluster."""


def load(name: str, precision: str, *overrides: str) -> Scenario:
    """Load a scenario for one step, because the steps are equal.

    Its software family counts as measured: that spares the two runs at the ends of the family's ranges.
    """
    scenario = trnsim.load(name, ["run.steps=1", f"training.precision={precision}", *overrides])
    family = scenario.cluster.software
    measured = replace(family, errors=dict.fromkeys(REGIMES, family.scale_skew_fraction))
    return replace(scenario, cluster=replace(scenario.cluster, software=measured))


@cache
def simulate(name: str, precision: str, *overrides: str) -> Result:
    """Simulate one step of a scenario, once."""
    return trnsim.simulate(load(name, precision, *overrides))


def with_server(scenario: Scenario, server: Server) -> Scenario:
    """Return a scenario on other servers."""
    return replace(scenario, cluster=replace(scenario.cluster, server=server))


@cache
def chain(precision: str) -> tuple[Result, ...]:
    """Simulate the clusters on the way from Trainium2 to Trainium3, one per cause."""
    trn2, trn3 = load("trn2-cluster", precision), load("trn3-cluster", precision)
    server, chip = trn2.cluster.server, trn3.cluster.server.chip
    peak = replace(server.chip, peak_flops_per_s=chip.peak_flops_per_s)
    memory = replace(peak, memory_bandwidth_bytes_per_s=chip.memory_bandwidth_bytes_per_s)
    between = (
        with_server(trn2, replace(server, chip=peak)),
        with_server(trn2, replace(server, chip=memory)),
        with_server(trn3, replace(trn3.cluster.server, chips_per_host=server.chips_per_host)),
    )
    ends = simulate("trn2-cluster", precision), simulate("trn3-cluster", precision)
    return (ends[0], *(trnsim.simulate(scenario) for scenario in between), ends[1])


def factors(precision: str) -> tuple[float, ...]:
    """Return by what each cause multiplies the tokens per second; nothing for the start."""
    rates = [result.step.tokens_per_s for result in chain(precision)]
    return tuple(after / before for before, after in pairwise(rates))


def speedup(precision: str, *overrides: str, of_both: bool = True) -> float:
    """Return tokens per second of Trainium3 over Trainium2, with overrides of both or of Trainium3 only."""
    trn3 = simulate("trn3-cluster", precision, *overrides)
    trn2 = simulate("trn2-cluster", precision, *(overrides if of_both else ()))
    return trn3.step.tokens_per_s / trn2.step.tokens_per_s
