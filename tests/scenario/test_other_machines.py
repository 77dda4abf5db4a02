"""Machines that are not Trainium: rules 15 to 17 are not theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from trnsim.errors import Problem
    from trnsim.scenario import Scenario

GPUS = (
    "cluster.server=dgx-h100",
    "cluster.servers=2",
    "cluster.fabric=infiniband-ndr",
    "model=llama3-8b",
    "layout.tp=1",
    "layout.pp=1",
    "training.global_batch=16",
)


def test_a_gpu_is_one_rank_and_has_no_lnc(base: Callable[..., Scenario]) -> None:
    # 2 servers x 8 GPUs; the family of the chip; no line about logical cores
    scenario = base(*GPUS)
    assert (scenario.ranks, scenario.ranks_per_chip, scenario.cluster.lnc) == (16, 1, None)
    assert scenario.cluster.software.name == "megatron-h100"
    assert "logical cores" not in scenario.derived
    assert "cluster.lnc" not in scenario.defaults


@pytest.mark.parametrize(
    ("override", "key", "message"),
    [
        ("cluster.lnc=2", "cluster.lnc", "h100 has no NeuronCores; leave the key out"),
        ("layout.rank=logical_core", "layout.rank", "h100 has no logical cores; each chip is one rank: chip"),
        ("collectives.policy=neuron", "collectives.policy", "Neuron does not run on h100; choose fastest"),
        ("training.optimizer_offload=true", "training.optimizer_offload", "no host_bandwidth of dgx-h100"),
        ("run.mfu_peak=tensor_engine", "run.mfu_peak", "has no peak of its tensor engines"),
    ],
)
def test_what_belongs_to_trainium_is_refused_elsewhere(
    problems: Callable[..., list[Problem]], override: str, key: str, message: str
) -> None:
    # rule 16: logical NeuronCores are of Trainium only, and so is what AWS's software and datasheets know
    (problem,) = problems(*GPUS, override)
    assert problem.key == key
    assert message in problem.message


def test_a_chip_without_fp8_refuses_it(problems: Callable[..., list[Problem]]) -> None:
    # rule 21: the peak of the dtype is due, and A100 has none for fp8
    (problem,) = problems(*GPUS, "cluster.server=dgx-a100", "cluster.fabric=infiniband-hdr", "training.precision=fp8")
    assert "a100-80 has no dense peak for it; it has bf16, fp32" in problem.message


@pytest.mark.parametrize("chips", [1, 3, 5, 7])
def test_any_number_of_gpus_of_a_node_may_be_used(base: Callable[..., Scenario], chips: int) -> None:
    # rule 15 is Trainium's: a job may leave any number of GPUs idle
    overrides = (*GPUS, "cluster.servers=1", "cluster.allow_idle=true", f"layout.dp={chips}")
    assert base(*overrides, f"training.global_batch={chips}").ranks == chips
