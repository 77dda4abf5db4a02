"""Every rule of an input, broken on purpose: the key, its line, its value, the arithmetic and the nearest valid choice."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

import trnsim.hardware
from trnsim.documents import read_document
from trnsim.errors import InputError, Problem
from trnsim.scenario import Scenario, load
from trnsim.scenario.draft import read_draft
from trnsim.scenario.rules import broken_rules

Problems = Callable[..., list[Problem]]
Base = Callable[..., Scenario]


def only(found: list[Problem]) -> Problem:
    (problem,) = found
    return problem


# --- degrees -------------------------------------------------------------------------------------------------------


def test_dp_is_derived_and_the_degrees_multiply_to_the_ranks(base: Base) -> None:
    # tp x pp x dp = servers x chips x ranks per chip: 8 x 9 x dp = 16 x 144 x 1
    scenario = base()
    assert (scenario.layout.dp, scenario.ranks, scenario.ranks_per_chip) == (32, 2304, 1)
    assert scenario.derived["dp"] == "32 = 2,304 ranks / (tp 8 x pp 9)"


def test_a_logical_core_as_rank_makes_four_of_a_chip(base: Base) -> None:
    # Trn3 at LNC 2: 8 / 2 = 4 ranks a chip; at LNC 1: 8
    assert base("layout.rank=logical-core").layout.dp == 128
    assert base("layout.rank=logical_core", "cluster.lnc=1").layout.dp == 256


def test_degrees_that_do_not_divide_name_the_nearest_that_do(problems: Problems) -> None:
    # 2304 = 28 x (8 x 10) + 64; the divisors of 2304 / 8 = 288 near 10 are 9 and 12
    problem = only(problems(changes={"  pp: 9": "  pp: 10"}))
    assert (problem.key, problem.line, problem.value, problem.capacity) == ("layout.pp", 14, "10", False)
    assert "2,304 ranks = 28 x (tp 8 x pp 10 = 80) + 64" in problem.message
    assert "the nearest pp that divides is 9 or 12" in problem.message


def test_a_tp_that_does_not_divide_is_named_itself(problems: Problems) -> None:
    # 2304 / 9 = 256; the divisors of 256 near 20 are 16 and 32; 128 heads, 8192 tokens break on 20 as well
    found = {problem.message.partition(";")[0]: problem for problem in problems("layout.tp=20")}
    (message,) = (problem.message for problem in found.values() if "whole replicas" in problem.message)
    assert "the nearest tp that divides is 16 or 32" in message


def test_no_degree_alone_helps(problems: Problems) -> None:
    # neither 2304 / 7 nor 2304 / 10 is whole: the divisors of 2304 near 70 are 64 and 72
    messages = [problem.message for problem in problems("layout.tp=10", "layout.pp=7")]
    assert any("the nearest replica that divides has 64 or 72 ranks" in message for message in messages)


def test_more_ranks_than_the_cluster_has_is_a_matter_of_capacity(write: Callable[..., Path]) -> None:
    # 8 x 9 x 64 = 4608 > 2304 = 16 x 144; ceil(4608 / 144) = 32 servers, or dp 2304 / 72 = 32; exit code 3
    with pytest.raises(InputError) as error:
        load(write({"dp: auto": "dp: 64"}))
    problem = only(list(error.value.problems))
    assert (error.value.exit_code, problem.key, problem.line, problem.value) == (3, "layout.dp", 15, "64")
    assert problem.message == (
        "tp 8 x pp 9 x dp 64 = 4,608 ranks, and the cluster has 16 servers x 144 chips x 1 rank a chip = 2,304 ranks; "
        "it takes 32 servers, or dp 32"
    )


def test_one_replica_that_is_larger_than_the_cluster(write: Callable[..., Path]) -> None:
    # 128 x 9 = 1152 > 144 = 1 x 144: 8 servers
    with pytest.raises(InputError) as error:
        load(write(), ["layout.tp=128", "cluster.servers=1"])
    problem = only(list(error.value.problems))
    assert (error.value.exit_code, problem.key) == (3, "layout.tp")
    assert "one replica takes tp 128 x pp 9 = 1,152 ranks" in problem.message
    assert "it takes 8 servers" in problem.message


def test_a_broken_rule_beside_a_small_cluster_is_an_input_error(write: Callable[..., Path]) -> None:
    # exit code 2 wins over 3
    with pytest.raises(InputError) as error:
        load(write(), ["layout.dp=64", "layout.stages=[126]"])
    assert error.value.exit_code == 2


def test_idle_chips_only_where_they_are_allowed(problems: Problems, base: Base) -> None:
    # rule 2: 8 x 9 x 31 = 2232 < 2304; 72 idle
    problem = only(problems("layout.dp=31", "training.global_batch=2232"))
    assert (problem.key, problem.capacity) == ("layout.dp", False)
    assert "tp 8 x pp 9 x dp 31 = 2,232 ranks" in problem.message
    assert "72 stay idle; dp 32 uses all" in problem.message
    scenario = base("layout.dp=31", "training.global_batch=2232", "cluster.allow_idle=true")
    assert scenario.derived["idle ranks"] == "72 of 2,304; numbers per chip divide by all 2,304 chips"


def test_dp_auto_leaves_the_rest_idle_where_that_is_allowed(base: Base) -> None:
    # floor(2304 / (8 x 10)) = 28 replicas, 64 ranks idle
    scenario = base("layout.pp=10", "cluster.allow_idle=true", "training.global_batch=280")
    assert (scenario.layout.dp, scenario.ranks) == (28, 2240)
    assert scenario.derived["idle ranks"].startswith("64 of 2,304")


def test_order_names_every_axis_above_one_once(problems: Problems, base: Base) -> None:
    # a mesh needs a stride for each axis
    messages = [problem.message for problem in problems("layout.order=[tp, pp, pp]")]
    assert messages == [
        "pp stands twice; each axis has one place",
        "dp is above 1 and has no place in the order; list it",
    ]
    assert only(problems("layout.order=[tp]")).message == "pp, dp are above 1 and have no place in the order; list them"
    assert base("layout.order=[tp, pp, dp]").layout.order == ("tp", "pp", "dp")


# --- batch ---------------------------------------------------------------------------------------------------------


def test_microbatches_are_the_batch_over_micro_batch_and_dp(base: Base) -> None:
    # 2304 / (1 x 32) = 72; 2304 / (2 x 32) = 36
    assert base().microbatches == 72
    assert base("training.micro_batch=2").microbatches == 36


@pytest.mark.parametrize(
    ("batch", "nearest"),
    [(2300, "batches are 2,272 and 2,304"), (2305, "batches are 2,304 and 2,336"), (10, "batch is 32")],
)
def test_a_batch_is_never_rounded(problems: Problems, batch: int, nearest: str) -> None:
    # rule 3: multiples of 1 x 32 below and above
    problem = only(problems(changes={"global_batch: 2304": f"global_batch: {batch}"}))
    assert (problem.key, problem.line, problem.value) == ("training.global_batch", 10, str(batch))
    assert problem.message == (
        f"{batch:,} sequences are no multiple of micro_batch 1 x dp 32 = 32; the nearest {nearest}"
    )


def test_fewer_microbatches_than_stages_are_warned_about(base: Base) -> None:
    # rule 6: M + p - 1 = 2 + 9 - 1 = 10 slots
    (warning,) = base("training.global_batch=64").warnings
    assert warning.startswith("2 microbatches are fewer than 9 stages: of the 2 + 8 = 10 slots")
    assert base("training.global_batch=288").warnings == ()


def test_a_huge_step_is_warned_about(base: Base) -> None:
    # 12,224 x 8,192 = 100.1 M tokens > 100 M; 12,192 x 8,192 = 99.9 M is not
    (warning,) = base("training.global_batch=12224").warnings
    assert warning.startswith("one step has 12,224 x 8,192 = 100 M tokens")
    assert base("training.global_batch=12192").warnings == ()


# --- shapes --------------------------------------------------------------------------------------------------------


def test_heads_are_a_multiple_of_tp(problems: Problems) -> None:
    # rule 7: 128 mod 24 = 8; the divisors of 128 near 24 are 16 and 32
    found = problems(changes={"  tp: 8": "  tp: 24", "  sequence_length: 8192": "  sequence_length: 8208"})
    problem = next(problem for problem in found if "attention heads" in problem.message)
    assert (problem.key, problem.line, problem.value) == ("layout.tp", 13, "24")
    assert problem.message == "128 attention heads cannot be split 24 ways; the divisors near it are 16 and 32"


def test_kv_heads_are_copied_until_they_divide(base: Base) -> None:
    # rule 7: 8 heads x 2 copies = 16 = tp; 8 heads on tp 8 need one copy
    assert base().layout.kv_replication == 1
    scenario = base("layout.tp=16")
    assert scenario.layout.kv_replication == 2
    assert scenario.derived["kv heads"] == "8 x 2 copies for tp 16"


INLINE = "{layers: 126, hidden_size: 4096, attention_heads: %d, kv_heads: %d, head_dim: 64, ffn_size: 12288, vocabulary: 32000}"


def test_kv_heads_from_tp_on_are_a_multiple_of_it(problems: Problems, base: Base) -> None:
    # rule 7: 6 mod 4 = 2 is refused; 5 heads below tp 8 are copied to lcm(5, 8) = 40 = 5 x 8
    problem = only(problems("layout.tp=4", f"model={INLINE % (36, 6)}"))
    assert problem.message == "6 key and value heads cannot be split 4 ways; the divisors near it are 3 and 6"
    assert base(f"model={INLINE % (40, 5)}").layout.kv_replication == 8


def test_the_width_of_the_mlp_is_a_multiple_of_tp(problems: Problems) -> None:
    # 12288 = 2^12 x 3: 12288 / 9 is not whole
    found = problems("layout.tp=9", "layout.pp=8", f"model={INLINE % (36, 9)}", "training.sequence_length=9000")
    assert [problem.message for problem in found] == [
        "the MLP's width 12288 cannot be split 9 ways; the divisors near it are 8 and 12"
    ]


def test_vocabulary_is_padded_as_the_rules_have_it(base: Base) -> None:
    # rule 8: NxD pads 128,256 to a multiple of tp 8 (it is one); Megatron to one of 128 x 8 = 1024: 126 x 1024 = 129,024
    assert base().layout.vocabulary == 128256
    assert base().derived["vocabulary"] == "128,256, not padded"
    megatron = base("layout.rules=megatron")
    assert megatron.layout.vocabulary == 129024
    assert megatron.derived["vocabulary"] == "129,024 = 128,256 padded by 768 (megatron rules)"


def test_no_more_stages_than_layers(problems: Problems) -> None:
    # rule 4: pp 128 > 126 layers; 16 x 144 / (2 x 128) = 9 replicas
    problem = only(problems("layout.pp=128", "layout.tp=2", "training.global_batch=2304"))
    assert (problem.key, problem.value) == ("layout.pp", "128")
    assert problem.message == "126 layers cannot fill 128 stages; at most 126"


def test_layers_that_do_not_divide(problems: Problems, base: Base) -> None:
    # rule 4: NxD gives the last stages one more, 126 = 2 x 3 + 30 x 4; Megatron refuses, 126 has the divisors 21 and 42
    changes = ("layout.pp=32", "layout.tp=8")
    assert base(*changes).layout.stages == (3, 3, *(4,) * 30)
    assert base(*changes).derived["stages"] == "2 x 3 + 30 x 4 layers"
    problem = only(problems(*changes, "layout.rules=megatron"))
    assert problem.key == "layout.pp"
    assert "126 layers cannot be split into 32 equal stages" in problem.message
    assert "the divisors near it are 21 and 42" in problem.message


def test_a_stated_split_has_every_stage_and_every_layer(problems: Problems, base: Base) -> None:
    # rule 4: 9 stages that sum to 126, under either rules
    split = [10, *[14] * 7, 18]
    assert base(f"layout.stages={split}", "layout.rules=megatron").layout.stages == tuple(split)
    found = problems(f"layout.stages={split[1:]}")
    assert [problem.message for problem in found] == [
        "8 stages are listed, and pp is 9",
        "14 + 14 + 14 + 14 + 14 + 14 + 14 + 18 = 116 layers, and Llama 3.1 405B has 126: 10 too few",
    ]
    problem = only(problems("layout.stages=[14, 14, 14, 14, 14, 14, 14, 14, 16]"))
    assert problem.message.endswith("= 128 layers, and Llama 3.1 405B has 126: 2 too many")


def test_sequence_parallelism_splits_the_sequence(problems: Problems, base: Base) -> None:
    # rule 9: 8190 mod 8 = 6; without sequence parallelism it may be odd
    problem = only(problems(changes={"sequence_length: 8192": "sequence_length: 8190"}))
    assert (problem.key, problem.line, problem.value) == ("training.sequence_length", 9, "8190")
    assert problem.message.endswith("8,190 mod 8 = 6; the nearest lengths are 8,184 and 8,192")
    assert base("training.sequence_length=8190", "layout.sequence_parallel=false").training.sequence_length == 8190


def test_sizes_that_no_model_has(problems: Problems) -> None:
    # rule 22: refused at the model, and nothing is counted with them
    problem = only(problems(f"model={(INLINE % (32, 8)).replace('126', '1e9')}"))
    assert problem.key == "model"
    assert problem.message == "layers of inline are 1,000,000,000, and at most 10,000 can be simulated"


@pytest.mark.parametrize(
    ("overrides", "passes", "key", "choice", "chosen"),
    [
        (
            ("training.global_batch=32e6",),
            "1,000,000 microbatches x 9 stages x 2 steps = 36,000,000",
            "training.global_batch",
            "at most 8,888,864 sequences a step",
            "8888864",
        ),
        (
            ("run.steps=2e4",),
            "72 microbatches x 9 stages x 20,000 steps = 25,920,000",
            "run.steps",
            "at most 7,716 steps",
            "7716",
        ),
        (
            ("run.folding=off", "training.global_batch=46080"),
            "1,440 microbatches x 2,304 ranks x 2 steps = 13,271,040",
            "run.folding",
            "run.folding: auto simulates ranks that behave alike once, with the same result",
            "auto",
        ),
        (
            ("run.fidelity=chunk", "training.global_batch=46080"),
            "1,440 microbatches x 2,304 ranks x 2 steps = 13,271,040",
            "run.fidelity",
            "run.fidelity: flow simulates ranks that behave alike once",
            "flow",
        ),
    ],
)
def test_more_passes_than_can_be_simulated(
    problems: Problems, base: Base, overrides: tuple[str, ...], passes: str, key: str, choice: str, chosen: str
) -> None:
    # rule 22: 2 x microbatches x stages (or ranks) x steps; the choice that the message names is legal
    problem = only(problems(*overrides))
    assert (problem.key, problem.capacity) == (key, False)
    assert problem.message == f"2 x {passes} passes, and 10,000,000 is the most that is simulated; {choice}"
    assert base(*overrides, f"{key}={chosen}").layout.dp == 32


def test_a_run_that_does_not_end(problems: Problems) -> None:
    # rule 22: 2 steps of 32 x 1e9 tokens of 6 N + 12 L a d s FLOPs on 2,304 chips of 671 TFLOP/s
    layers, heads, width, length = 126, 128, 128, 10**9
    least_s = (6 * 403_747_897_344 + 12 * layers * heads * width * length) * 64 * length / (2304 * 671e12)
    problem = only(problems(f"training.sequence_length={length}", "training.global_batch=32"))
    assert problem.key == "training.global_batch"
    assert f"64,000,000,000 tokens in 2 steps take {least_s:,.0f} s at the peak of 2,304 chips" in problem.message


# --- machine -------------------------------------------------------------------------------------------------------

ONE_TRN2 = (
    "cluster.server=trn2.48xlarge",
    "cluster.servers=1",
    "cluster.fabric=",
    "cluster.allow_idle=true",
    "model=llama3-8b",
    "layout.pp=1",
)


@pytest.mark.parametrize(
    ("chips", "legal"), [(1, True), (2, False), (4, True), (6, False), (8, True), (12, False), (16, True)]
)
def test_chips_in_use_on_one_trn2_instance(write: Callable[..., Path], chips: int, legal: bool) -> None:
    # rule 15: 1, 4, 8 or 16 chips
    overrides = [*ONE_TRN2, "layout.tp=1", f"layout.dp={chips}", f"training.global_batch={chips}"]
    if legal:
        assert load(write(), overrides).ranks == chips
        return
    with pytest.raises(InputError, match=f"uses {chips} chips of the last instance.*may use 1, 4, 8 or 16"):
        load(write(), overrides)


@pytest.mark.parametrize(("cores", "legal"), [(1, True), (4, False), (8, True), (16, True), (24, False), (32, True)])
def test_neuron_cores_in_use_on_one_trn1_instance(write: Callable[..., Path], cores: int, legal: bool) -> None:
    # rule 15: 1, 2, 8 or 32 NeuronCores; 16 is reported to work and warned about
    overrides = [
        *ONE_TRN2,
        "cluster.server=trn1.32xlarge",
        "layout.rank=logical_core",
        "layout.tp=1",
        f"layout.dp={cores}",
        f"training.global_batch={cores}",
    ]
    if legal:
        warned = any("reported to work" in warning for warning in load(write(), overrides).warnings)
        assert warned == (cores == 16)
        return
    with pytest.raises(InputError, match=f"uses {cores} NeuronCores of the last instance"):
        load(write(), overrides)


def test_only_the_last_instance_of_many_may_be_used_in_part(base: Base, problems: Problems) -> None:
    # rule 15: 16 + 8 chips leave 8 on the second instance, which is allowed; 16 + 6 are not
    two = (*ONE_TRN2, "cluster.servers=2", "cluster.fabric=ultracluster", "layout.tp=1")
    assert base(*two, "layout.dp=24", "training.global_batch=24").ranks == 24
    assert "uses 6 chips" in only(problems(*two, "layout.dp=22", "training.global_batch=22")).message


@pytest.mark.parametrize(
    ("server", "lnc", "legal"),
    [
        ("trn1.32xlarge", 1, True),
        ("trn1.32xlarge", 2, False),
        ("trn2.48xlarge", 2, True),
        ("trn2.48xlarge", 1, True),
        ("trn2.48xlarge", 4, False),
    ],
)
def test_logical_core_configurations(write: Callable[..., Path], server: str, lnc: int, legal: bool) -> None:
    # rule 16: 1 on Trn1; 1 or 2 on Trn2 and Trn3
    overrides = [*ONE_TRN2, f"cluster.server={server}", f"cluster.lnc={lnc}", "layout.tp=8", "training.global_batch=64"]
    if legal:
        assert load(write(), overrides).cluster.lnc == lnc
        return
    with pytest.raises(InputError, match=r"cluster.lnc = \d +trainium\d has LNC"):
        load(write(), overrides)


@pytest.mark.parametrize(("lnc", "ranks"), [(1, 128), (2, 64)])
def test_ranks_of_one_trn2_instance(base: Base, lnc: int, ranks: int) -> None:
    # rule 16: 16 chips x 8 / LNC
    scenario = base(
        *ONE_TRN2, f"cluster.lnc={lnc}", "layout.rank=logical_core", "layout.tp=8", "training.global_batch=128"
    )
    assert scenario.ranks == ranks


def test_defaults_of_lnc_and_software_are_those_of_the_chip(base: Base) -> None:
    # LNC 2 but on Trn1; the family of the chip
    trn1 = base(*ONE_TRN2, "cluster.server=trn1.32xlarge", "layout.tp=8", "training.global_batch=64")
    assert (trn1.cluster.lnc, trn1.cluster.software.name) == (1, "neuron-trn1")
    assert (base().cluster.lnc, base().cluster.software.name) == (2, "neuron-trn3")


def test_a_server_without_efa_is_alone(problems: Problems) -> None:
    # rule 17
    problem = only(
        problems(
            *ONE_TRN2, "cluster.server=trn1.2xlarge", "cluster.servers=4", "layout.tp=1", "training.global_batch=4"
        )
    )
    assert (problem.key, problem.value) == ("cluster.servers", "4")
    assert "no EFA and no collectives between instances" in problem.message


def test_several_servers_need_a_fabric(problems: Problems) -> None:
    # nothing is guessed: the message lists the topologies
    problem = only(problems(changes={"  fabric: ultracluster\n": ""}))
    assert (problem.key, problem.line) == ("cluster.fabric", 3)
    assert "16 servers need a fabric: infiniband-hdr" in problem.message


def test_a_fabric_whose_tiers_cannot_hold_the_chips(write: Callable[..., Path]) -> None:
    # 64 x 64 x 64 x 128 = 33,554,432 < 300,000 x 144 = 43,200,000; an input error, not one of capacity
    with pytest.raises(InputError) as error:
        load(write(), ["cluster.servers=300000", "training.global_batch=600000"])
    problem = only(list(error.value.problems))
    assert (error.value.exit_code, problem.key, problem.value) == (2, "cluster.servers", "300000")
    assert "64 x 64 x 64 x 128 = 33,554,432" in problem.message


def test_a_chip_without_a_peak_for_the_precision(write: Callable[..., Path]) -> None:
    # rule 21: MFU needs the dense peak of the run's dtype
    draft, _ = read_draft(read_document(write({"global_batch: 2304": "global_batch: 2304\n  precision: fp8"})))
    assert draft.server is not None
    bf16 = {"bf16": draft.server.chip.peak_flops_per_s["bf16"]}
    old = replace(draft, server=replace(draft.server, chip=replace(draft.server.chip, peak_flops_per_s=bf16)))
    assert [problem.subject for problem in broken_rules(draft)] == []
    (problem,) = broken_rules(old)
    assert (problem.line, problem.subject) == (11, "training.precision = fp8")
    assert problem.message == "trainium3 has no dense peak for it; it has bf16"


# --- keys without effect -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("overrides", "warning"),
    [
        (("schedule.kind=gpipe",), "schedule.kind has no effect: there is one pipeline stage"),
        (("schedule.virtual_stages=1",), "schedule.virtual_stages has no effect: there is one pipeline stage"),
        (("schedule.sends=blocking",), "schedule.sends has no effect: there is one pipeline stage"),
        (("layout.stages=[32]",), "layout.stages has no effect: there is one pipeline stage"),
        (
            ("layout.sequence_parallel=true",),
            "layout.sequence_parallel has no effect: tp is 1, so there is nothing to split",
        ),
        (("layout.dp=1", "layout.zero=1"), "layout.zero has no effect: there is one data-parallel replica"),
        (
            ("layout.dp=1", "training.bucket_parameters=4e7"),
            "training.bucket_parameters has no effect: there is one data-parallel replica",
        ),
        (
            ("layout.dp=1", "collectives.algorithm=ring"),
            "collectives.algorithm has no effect: no group has two members",
        ),
        (("layout.zero=0", "layout.zero_group=2"), "layout.zero_group has no effect: ZeRO-0 shares nothing"),
        (("training.prefetch=2",), "training.prefetch has no effect: ZeRO-1 gathers no weights for a pass"),
        (
            ("layout.zero=3", "training.bucket_parameters=4e7"),
            "training.bucket_parameters has no effect: ZeRO-3 exchanges block by block",
        ),
        (
            ("layout.zero=3", "training.data_parallel_overlap=buckets", "training.prefetch=2"),
            "training.prefetch has no effect: training.data_parallel_overlap is buckets",
        ),
        (("cluster.fabric=ultracluster",), "cluster.fabric has no effect: there is one server"),
        (("training.fp8_matmuls=linear",), "training.fp8_matmuls has no effect: precision is bf16"),
        (("training.fp8_operands=true",), "training.fp8_operands has no effect: precision is bf16"),
        (("layout.dp=16",), "cluster.allow_idle has no effect: every chip is used"),
    ],
)
def test_keys_without_effect_are_warned_about(base: Base, overrides: tuple[str, ...], warning: str) -> None:
    # rules 10 and 30: only what the user wrote, and only where it changes nothing
    one_chip = (*ONE_TRN2, "layout.tp=1", "layout.dp=8", "training.global_batch=16")
    assert base(*one_chip).warnings == ()
    assert base(*one_chip, *overrides).warnings == (warning,)


def test_a_family_of_another_chip_is_warned_about(base: Base) -> None:
    # the constants were fitted on another chip
    (warning,) = base("cluster.software=neuron-trn1").warnings
    assert warning == "software family neuron-trn1 describes trainium1, not trainium3"


def test_a_chip_of_ones_own_says_itself_which_family_describes_it(write: Callable[..., Path]) -> None:
    # its name is not among the family's chips, and nobody is to be warned
    path = write({"server: trn3-gen2-ultraserver": "server: mine.yaml"})
    catalog = Path(trnsim.hardware.__file__).parent / "catalog"
    (path.parent / "chip.yaml").write_text((catalog / "chips" / "trainium3.yaml").read_text())
    server = (catalog / "servers" / "trn3-gen2-ultraserver.yaml").read_text()
    (path.parent / "mine.yaml").write_text(server.replace("chip: trainium3", "chip: chip.yaml"))
    scenario = load(path)
    assert (scenario.cluster.server.chip.name, scenario.cluster.software.name) == ("chip", "neuron-trn3")
    assert scenario.warnings == ()


def test_a_sequence_longer_than_what_the_model_learned_is_warned_about(base: Base) -> None:
    # one row of the table for each position
    gpt3 = ("model=gpt3-175b", "layout.pp=8", "training.global_batch=2304")
    (warning,) = base(*gpt3).warnings
    assert warning == "a sequence of 8,192 tokens is longer than the 2,048 positions that GPT-3 175B learns"
    assert base(*gpt3, "training.sequence_length=2048").warnings == ()


def test_what_was_read_into_a_model_is_shown(base: Base) -> None:
    # rule 26: head_dim null falls back to hidden / heads, with a note
    config = {
        "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "head_dim": None,
        "num_key_value_heads": 8, "num_hidden_layers": 36, "vocab_size": 32000, "tie_word_embeddings": False,
    }  # fmt: skip
    assert base(f"model={json.dumps(config)}").derived["model"] == "head_dim is null: hidden size 4096 / 32 heads = 128"
    assert "model" not in base("model=gpt-1t", "layout.pp=9").derived  # `describe` has the notes of the catalog


def test_the_example_of_the_readme_has_no_warning(base: Base) -> None:
    # the base scenario is the main one
    assert base().warnings == ()


# --- sharing -------------------------------------------------------------------------------------------------------


def test_groups_that_share_fill_the_data_parallel_ranks(base: Base, problems: Problems) -> None:
    # dp 32 = 4 groups of 8; 12 do not divide it, and 8 and 16 are the nearest that do.
    scenario = base("layout.zero_group=8")
    assert scenario.layout.zero_group == 8
    assert scenario.derived["hybrid sharding"] == "4 groups of 8 ranks that share = dp 32"
    problem = only(problems("layout.zero_group=12"))
    assert problem.key == "layout.zero_group"
    assert problem.message == "dp 32 is no multiple of 12 ranks that share; the nearest that divide it are 8 or 16"
    assert base().layout.zero_group == 32
    assert "hybrid sharding" not in base().derived


def test_a_server_holds_whole_groups(base: Base, problems: Problems) -> None:
    # 144 chips a server: replicas of tp 8 x pp 9 = 72 make 2 to a server; with dp innermost of pp, 18 of 8, and 32 is no
    # multiple of 18.
    assert base("layout.zero_group=server").layout.zero_group == 2
    assert base("layout.zero_group=server", "layout.zero=0").layout.zero_group == 32
    problem = only(problems("layout.zero_group=server", "layout.order=[tp, cp, dp, pp]"))
    assert "144 ranks of a server hold 18 neighbours along dp, 8 ranks apart, and dp is 32" in problem.message


def test_zero_3_gathers_ahead_unless_the_family_overlaps_nothing(base: Base) -> None:
    assert base("layout.zero=3").training.data_parallel_overlap == "prefetch"
    assert base("layout.zero=2").training.data_parallel_overlap == "buckets"
    nothing = ("layout.zero=3", "cluster.software=neuron-trn1")
    assert base(*nothing).training.data_parallel_overlap == "none"
    assert base("training.gradient_dtype=bf16").training.reduce_dtype == "bf16"
