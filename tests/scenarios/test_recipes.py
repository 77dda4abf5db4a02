"""What the scenarios promise: AWS's recipes as AWS has them, and the clusters that are compared."""

from __future__ import annotations

import pytest

import trnsim
from trnsim.workload import recomputed_operators


def test_llama_405b_on_64_trn1_is_aws_recipe() -> None:
    # 126 = 2 x 3 + 30 x 4 layers; 64 instances x 32 cores = 2,048 ranks = tp 32 x pp 32 x dp 2.
    scenario = trnsim.load("llama3.1-405b-trn1")
    layout = scenario.layout
    assert (scenario.cluster.server.name, scenario.cluster.servers, scenario.model.layers) == ("trn1.32xlarge", 64, 126)
    assert (layout.rank, layout.tp, layout.pp, layout.dp, scenario.ranks) == ("logical_core", 32, 32, 2, 2048)
    assert sorted(layout.stages) == [3] * 2 + [4] * 30
    assert scenario.training.recompute == "full"
    assert scenario.training.sequence_length == 8192


def test_llama_70b_on_8_trn2_is_aws_recipe() -> None:
    # 8 instances x 16 chips x 4 logical cores = 512 ranks = tp 32 x pp 4 x dp 4; 1,024 / 4 = 256 microbatches.
    scenario = trnsim.load("llama3-70b-trn2")
    layout = scenario.layout
    assert (scenario.cluster.server.name, scenario.cluster.servers, scenario.cluster.lnc) == ("trn2.48xlarge", 8, 2)
    assert (layout.rank, layout.tp, layout.pp, layout.dp, scenario.microbatches) == ("logical_core", 32, 4, 4, 256)
    assert layout.stages == (19, 21, 21, 19)
    assert scenario.training.recompute == recomputed_operators(["LlamaRMSNorm", "ActivationMultiplyMLP"])


def test_llama_8b_on_one_trn2() -> None:
    # 16 chips x 4 logical cores = 64 ranks = tp 16 x dp 4.
    scenario = trnsim.load("llama3-8b-trn2")
    assert (scenario.cluster.server.name, scenario.cluster.servers) == ("trn2.48xlarge", 1)
    assert (scenario.layout.tp, scenario.layout.pp, scenario.layout.dp, scenario.microbatches) == (16, 1, 4, 256)


def test_llama_7b_on_16_trn1() -> None:
    # 16 instances x 32 cores = 512 ranks = tp 8 x dp 64; 1,024 / 64 = 16 microbatches.
    scenario = trnsim.load("llama2-7b-trn1")
    assert (scenario.cluster.server.name, scenario.cluster.servers) == ("trn1.32xlarge", 16)
    assert (scenario.layout.tp, scenario.layout.pp, scenario.layout.dp, scenario.microbatches) == (8, 1, 64, 16)


def test_main_scenario() -> None:
    # 16 x 144 = 2,304 chips = tp 8 x pp 9 x dp 32; 2,304 / 32 = 72 microbatches; a replica is half an UltraServer.
    scenario = trnsim.load("llama3.1-405b-trn3")
    layout = scenario.layout
    assert scenario.cluster.chips == scenario.ranks == 2304
    assert (layout.tp, layout.pp, layout.dp, scenario.microbatches) == (8, 9, 32, 72)
    assert 2 * layout.tp * layout.pp == scenario.cluster.server.chips


@pytest.mark.parametrize(
    ("name", "server", "servers"),
    [("trn2-cluster", "trn2-ultraserver", 144), ("trn3-cluster", "trn3-gen2-ultraserver", 64)],
)
def test_compared_clusters_differ_in_their_servers_only(name: str, server: str, servers: int) -> None:
    # 144 x 64 = 64 x 144 = 9,216 chips = tp 8 x pp 9 x dp 128; 4,608 / 128 = 36 microbatches.
    scenario, other = trnsim.load(name), trnsim.load("trn3-cluster")
    assert (scenario.cluster.server.name, scenario.cluster.servers) == (server, servers)
    assert scenario.cluster.chips == scenario.ranks == 9216
    assert (scenario.model, scenario.training, scenario.layout) == (other.model, other.training, other.layout)
    layout, training = scenario.layout, scenario.training
    assert (layout.tp, layout.pp, layout.dp, layout.zero, scenario.microbatches) == (8, 9, 128, 1, 36)
    assert (layout.order, layout.sequence_parallel) == (("tp", "cp", "pp", "dp"), True)
    assert (training.global_batch, training.sequence_length, training.recompute) == (4608, 8192, "full")


@pytest.mark.parametrize("name", ["trn2-cluster", "trn3-cluster"])
def test_precision_switches_the_peak(name: str) -> None:
    # The matmuls use the fp8 peak when the scenario says so: 1,299 over 667 TFLOP/s of Trn2, 2,517 over 671 of Trn3.
    peaks = trnsim.load(name, ["training.precision=fp8"]).cluster.server.chip.peak_flops_per_s
    ratio = {"trn2-cluster": 1299 / 667, "trn3-cluster": 2517 / 671}[name]
    assert peaks["fp8"].value / peaks["bf16"].value == pytest.approx(ratio)


def test_million_chips() -> None:
    # 6,945 x 144 = 1,000,080 chips = tp 16 x pp 9 x dp 6,945; 444,480 / 6,945 = 64 microbatches; 3.6 G tokens a step.
    scenario = trnsim.load("trn3-million")
    layout, training = scenario.layout, scenario.training
    assert scenario.cluster.chips == scenario.ranks == 1_000_080
    assert (layout.tp, layout.pp, layout.dp, scenario.microbatches) == (16, 9, 6945, 64)
    assert layout.order == ("tp", "cp", "pp", "dp")
    assert (training.bucket_parameters, training.recompute, scenario.run.steps) == (7e9, "selective", 1)
    assert scenario.tokens == 444_480 * 8192
    assert len(scenario.warnings) == 1
    for op in ("all-reduce", "reduce-scatter", "all-gather"):
        assert {scenario.collectives.algorithm_for(op, inside) for inside in (True, False)} == {"ring"}


def test_gpt_1t_has_the_shape_that_was_asked_for() -> None:
    model = trnsim.load("trn3-million").model
    assert (model.layers, model.hidden_size, model.attention_heads) == (126, 25_600, 160)
    assert (model.ffn_size, model.vocabulary) == (102_400, 51_200)


@pytest.mark.parametrize(
    ("name", "server", "servers", "chips"),
    [
        ("trn2-40k", "trn2-ultraserver", 625, 40_000),
        ("trn2-100k", "trn2-ultraserver", 1563, 100_032),
        ("trn3-100k", "trn3-gen2-ultraserver", 694, 99_936),
        ("trn3-ultraserver", "trn3-gen2-ultraserver", 1, 144),
    ],
)
def test_clusters_of_many_chips(name: str, server: str, servers: int, chips: int) -> None:
    scenario = trnsim.load(name)
    assert (scenario.cluster.server.name, scenario.cluster.servers, scenario.cluster.chips) == (server, servers, chips)
    assert scenario.model.parameters == 405_853_388_800
    assert scenario.tokens <= 100_000_000
