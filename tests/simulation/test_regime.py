"""In which regime a step is, and what error is stated for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from small import load_small

import trnsim
from trnsim.hardware import Sourced
from trnsim.simulation.machine import build_machine
from trnsim.simulation.memory import memory_limit_bytes
from trnsim.simulation.regime import regime
from trnsim.simulation.run import run_scenario

if TYPE_CHECKING:
    from pathlib import Path

    from trnsim.scenario import Scenario


def number(value: float) -> Sourced[float]:
    return Sourced(value, "assumed", "a law", "2026-11-30")


def with_family(scenario: Scenario, **fields: object) -> Scenario:
    return replace(scenario, cluster=replace(scenario.cluster, software=replace(scenario.cluster.software, **fields)))


def regime_of(scenario: Scenario, memory_fraction: float = 0.5) -> str:
    run = run_scenario(scenario, build_machine(scenario))
    return regime(scenario, run, int(memory_fraction * memory_limit_bytes(scenario)))


def test_the_first_that_fits(tmp_path: Path) -> None:
    # few chips: general; 64 chips that mostly compute: large; a host that takes its time: host-bound; memory before all
    few = load_small(tmp_path)
    assert regime_of(few) == "general"
    large = trnsim.load("trn3-ultraserver")
    assert regime_of(large) == "large, compute-bound"
    slow_host = with_family(few, host_layer_s=number(0.1))
    assert regime_of(slow_host) == "host-bound"
    assert regime_of(slow_host, 0.89) == "host-bound"
    assert regime_of(slow_host, 0.91) == "near the memory limit"


def test_an_error_is_stated_for_its_regime_alone(tmp_path: Path) -> None:
    scenario = load_small(tmp_path)
    known = trnsim.simulate(with_family(scenario, errors={"general": number(0.125)})).step
    assert known.error_band.kind == "measured"
    assert (known.error_band.low_s, known.error_band.high_s) == pytest.approx(
        (0.875 * known.time_s, 1.125 * known.time_s)
    )
    assert "general" in known.error_band.source
    other = trnsim.simulate(with_family(scenario, errors={"host-bound": number(0.125)})).step.error_band
    assert other.kind == "no measurement"
    assert "none of them general" in other.source
