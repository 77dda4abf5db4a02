"""Collectives that slow the passes that they go on beside."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from small import load_small

from trnsim.hardware import Sourced
from trnsim.simulation.estimate import estimate
from trnsim.simulation.machine import build_machine
from trnsim.simulation.run import run_scenario

if TYPE_CHECKING:
    from pathlib import Path

    from trnsim.scenario import Scenario

FSDP = {
    "layout__tp": 1,
    "layout__pp": 1,
    "layout__dp": 4,
    "layout__zero": 3,
    "training__data_parallel_overlap": "prefetch",
    "training__sequence_length": 4096,
    "run__steps": 1,
}


def slowed(scenario: Scenario, fraction: float | None) -> Scenario:
    number = None if fraction is None else Sourced(fraction, "assumed", "a law", "2026-11-30")
    family = replace(scenario.cluster.software, interference_fraction=number)
    return replace(scenario, cluster=replace(scenario.cluster, software=family))


def time_s(scenario: Scenario, fraction: float | None) -> float:
    return estimate(slowed(scenario, fraction)).time_s


def test_a_pass_is_longer_by_a_share_of_the_collectives_beside_it(tmp_path: Path) -> None:
    # closed form: where passes are longer than their collectives, which those of layers are and those of the embedding are
    # not, a step is longer by fraction x the time of B - 1 gathers forward, B - 1 gathers and B - 1 reductions backward,
    # of B blocks; so with all blocks it is at most, and with those of layers alone at least
    scenario = load_small(tmp_path, **FSDP, run__fidelity="closed_form", training__global_batch=4)
    run = run_scenario(slowed(scenario, None), build_machine(scenario))
    exchanges = run.members[0].plan.exchanges
    gathers, reductions = ([one.transfer.duration_s for one in found] for found in (exchanges.gather, exchanges.reduce))
    most_s = sum(gathers[:-1]) + sum(gathers[1:]) + sum(reductions[:-1])
    least_s = 2 * sum(gathers[2:-1]) + sum(reductions[1:-2])
    quarter_s, half_s = (time_s(scenario, fraction) - time_s(scenario, None) for fraction in (0.25, 0.5))
    assert 0.25 * least_s <= quarter_s <= 0.25 * most_s
    assert half_s == pytest.approx(2 * quarter_s, rel=1e-3)


def test_nothing_beside_nothing_slowed(tmp_path: Path) -> None:
    alone = load_small(tmp_path, **{**FSDP, "training__data_parallel_overlap": "none"})
    assert time_s(alone, 0.5) == time_s(alone, None)
    beside = load_small(tmp_path, **FSDP)
    assert time_s(beside, 0.0) == time_s(beside, None) < time_s(beside, 0.5)


@pytest.mark.parametrize(("zero", "overlap"), [(1, "buckets"), (1, "prefetch"), (2, "buckets"), (3, "prefetch")])
def test_folding_is_exact_with_interference(tmp_path: Path, zero: int, overlap: str) -> None:
    changes = {
        "layout__zero": zero,
        "training__data_parallel_overlap": overlap,
        "layout__tp": 2,
        "run__folding": "verify",
    }
    scenario = slowed(load_small(tmp_path, **{**FSDP, **changes}), 0.5)
    run_scenario(scenario, build_machine(scenario))  # `verify` compares every operation of every rank
