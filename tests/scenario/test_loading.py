import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from trnsim.documents import names
from trnsim.errors import InputError, Problem
from trnsim.scenario import Collectives, Scenario, load, sha256

Problems = Callable[..., list[Problem]]
Base = Callable[..., Scenario]
Write = Callable[..., Path]

HF = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_hidden_layers": 36,
    "vocab_size": 128256,
    "tie_word_embeddings": False,
}
INLINE = "{layers: 36, hidden_size: 4096, attention_heads: 32, ffn_size: 14336, vocabulary: 32000}"


# --- one report ----------------------------------------------------------------------------------------------------


def test_the_report_of_the_design(write: Write) -> None:
    # an unknown key taints pp, which it probably means, and not tp: keys and rules in one report, in the order of the file
    path = write({"  tp: 8\n  pp: 9\n": "  pipeline: 9\n  tp: 24\n", "sequence_length: 8192": "sequence_length: 8208"})
    with pytest.raises(InputError) as error:
        load(path)
    assert str(error.value) == (
        f"{path}: 2 problems\n"
        "  line 13  layout.pipeline  unknown key; did you mean layout.pp?\n"
        "  line 14  layout.tp = 24   128 attention heads cannot be split 24 ways; the divisors near it are 16 and 32"
    )
    assert error.value.exit_code == 2


def test_schema_references_and_rules_come_together(problems: Problems) -> None:
    # an unknown key, an unknown model, a wrong type, a broken rule about other keys: four problems at once
    found = problems(
        changes={
            "  servers: 16": "  servers: 16\n  color: red",
            "model: llama3.1-405b": "model: llama9",
            "  global_batch: 2304": "  global_batch: 2304\n  micro_batch: one",
            "  pp: 9": "  pp: 10",
        }
    )
    assert {(problem.line, problem.subject) for problem in found} == {
        (6, "cluster.color"),
        (8, "model = llama9"),
        (12, "training.micro_batch = one"),
        (16, "layout.pp = 10"),
    }


@pytest.mark.parametrize(
    ("key", "rule"),
    [("cluster.servers", "whole replicas"), ("layout.tp", "attention heads"), ("training.global_batch", "no multiple")],
)
def test_no_rule_is_tried_on_a_faulty_key(problems: Problems, key: str, rule: str) -> None:
    # the stand-in of a faulty value never shows in another problem
    found = problems(f"{key}=nonsense")
    assert [problem.subject for problem in found] == [f"{key} = nonsense"]
    assert not any(rule in problem.message for problem in found)


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("  color: red", "layout.color"),
        ("  tpp: 8", "layout.tpp"),
        ("  tensor: 8", "layout.tensor"),
        ('  "t.p": 8', 'layout."t.p"'),
        ("layout.tp: 8", '"layout.tp"'),
        ("operations: {}", "operations"),
    ],
)
def test_an_unknown_key_hides_no_rule_about_the_others(problems: Problems, line: str, key: str) -> None:
    # what it may mean is in doubt only where the user did not write that key as well: the heads are still counted
    found = problems(changes={"  tp: 8": "  tp: 24", "  dp: auto": f"  dp: auto\n{line}"})
    assert [problem.line for problem in found if problem.key == key] == [16]
    assert any(problem.message.startswith("128 attention heads cannot be split 24 ways") for problem in found)
    assert "training.sequence_length" in {problem.key for problem in found}


def test_an_unknown_variant_is_a_problem_of_the_key_that_asks_for_it(problems: Problems) -> None:
    # with the variants that there are, at the line of the scenario and not of the catalog
    server = "trn3-gen2-ultraserver"
    (problem,) = problems(changes={f"  server: {server}": f"  server: {server}@nope"})
    assert (problem.key, problem.line, problem.value) == ("cluster.server", 4, f"{server}@nope")
    assert problem.message == 'unknown variant "nope"; known: pessimistic'
    (problem,) = problems("cluster.software=neuron-trn1@nope")
    assert (problem.key, problem.message) == ("cluster.software", 'unknown variant "nope"; known: selective')


def test_missing_tables_and_keys(tmp_path: Path) -> None:
    # each missing key is one problem that says what the key is; rules about the rest are still tried
    path = tmp_path / "a.yaml"
    path.write_text(
        "schema: 1\ncluster: {servers: 2}\nmodel: llama3-8b\ntraining: {sequence_length: 4096}\nlayout: {tp: 5}\n"
    )
    with pytest.raises(InputError) as error:
        load(path)
    found = {problem.key: problem for problem in error.value.problems}
    assert set(found) == {"cluster.server", "training.global_batch", "layout.tp", "training.sequence_length"}
    assert found["cluster.server"].message.startswith("missing; server of the catalog")
    assert found["cluster.server"].line == 2
    assert found["layout.tp"].message.startswith("32 attention heads cannot be split 5 ways")


def test_an_empty_table_and_a_missing_schema(tmp_path: Path) -> None:
    # schema, cluster, model and training are due
    path = tmp_path / "a.yaml"
    path.write_text("name: x\ncluster:\n")
    with pytest.raises(InputError) as error:
        load(path)
    messages = {problem.key: problem.message for problem in error.value.problems}
    assert set(messages) == {"schema", "cluster", "model", "training"}
    assert messages["schema"] == "missing; version of this format: 1"
    assert messages["cluster"] == "a table of keys is due"


@pytest.mark.parametrize(
    ("override", "subject", "message"),
    [
        ("layout.cp=2", "layout.cp = 2", "context parallelism is not modelled yet"),
        ("layout.ep=4", "layout.ep = 4", "expert parallelism is not modelled yet"),
        ("schedule.kind=zero_bubble", "schedule.kind = zero_bubble", "not modelled yet"),
        ("run.fidelity=packet", "run.fidelity = packet", "choose from closed_form, flow, chunk"),
        ("training.precision=fp4", "training.precision = fp4", "not modelled yet"),
        ("operations={mtbf: 1}", "operations", "months of failures and checkpoints are not modelled yet"),
    ],
)
def test_later_work_is_refused_by_name(problems: Problems, override: str, subject: str, message: str) -> None:
    # one problem each, and nothing else follows from it
    (problem,) = problems(override)
    assert problem.subject == subject
    assert message in problem.message


@pytest.mark.parametrize(
    ("word", "key"),
    [
        ("tensor", "tp"),
        ("pipeline", "pp"),
        ("data", "dp"),
        ("context", "cp"),
        ("expert", "ep"),
        ("tensor_parallel_size", "tp"),
        ("pipeline_parallel_size", "pp"),
        ("data_parallel_size", "dp"),
        ("context_parallel_size", "cp"),
        ("expert_parallel_size", "ep"),
        ("tensor_model_parallel_size", "tp"),
    ],
)
def test_words_from_elsewhere_point_to_the_key(problems: Problems, word: str, key: str) -> None:
    # in its table and at the top
    (inside,), (outside,) = problems(f"layout.{word}=2"), problems(f"{word}=2")
    assert inside.message == outside.message == f"unknown key; did you mean layout.{key}?"


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("cluster.server=trn2-ultra", "did you mean trn2-ultraserver"),
        ("cluster.software=neuron-trn9", "did you mean neuron-trn1 or neuron-trn2 or neuron-trn3?"),
        ("cluster.fabric=ultraclusters", "did you mean ultracluster"),
        ("model=llama3.1-405", "did you mean llama3.1-405b"),
        ("schedule.kind=1f2b", "did you mean 1f1b? choose from 1f1b, breadth-first, gpipe, interleaved-1f1b"),
        ("training.precision=bfloat16", "choose from bf16, fp8"),
        ("collectives.algorithm=rings", "did you mean ring"),
        ("collectives.algorithm={all-reduc: ring}", "did you mean all-reduce?"),
        ("collectives.algorithm={all-reduce: {rack: ring}}", 'unknown tier "rack"'),
        ("collectives.algorithm=[ring]", "auto, an algorithm, or a table of operations is due"),
        ("training.recompute=some", 'not "some"'),
        ("training.recompute=[LlamaRMSNorm, norm]", 'unknown operator "norm"'),
        ("training.recompute=7", "none, selective, full or a list of operators is due"),
        ("layout.rank=core", "choose from chip, logical_core"),
        ("layout.dp=most", 'a whole number of at least 1, or "auto", is due'),
        ("layout.dp=0", 'a whole number of at least 1, or "auto", is due'),
        ("layout.zero=true", "0, 1, 2 or 3 is due"),
        ("layout.zero=4", "0, 1, 2 or 3 is due"),
        ("layout.zero_group=1", 'a whole number of at least 2, "all" or "server" is due'),
        ("layout.zero_group=host", 'a whole number of at least 2, "all" or "server" is due'),
        ("training.prefetch=0", "a number of at least 1 is due"),
        ("training.states=adam", "choose from master, fp32, bf16"),
        ("layout.sequence_parallel=no", "true or false is due"),
        ("layout.stages=14", "a list of layers per stage is due"),
        ("layout.stages=[]", "a list of layers per stage is due"),
        ("layout.dp=1e13", 'a number of at most 1,000,000,000,000, or "auto", is due'),
        ("layout.order[0]=tp", "did you mean layout.order?"),
        ("model=", "a model of the catalog, the path of a file, or a table of its keys is due"),
        ("model=[llama3-8b]", "a model of the catalog, the path of a file, or a table of its keys is due"),
        ("schema=true", "choose from 1"),
        ("cluster.server=trn3-gen2-ultraserver@", 'unknown variant ""; known: pessimistic'),
        ("cluster.server=../servers/trn2.48xlarge", "no such file"),
        ("cluster.server=~nobody-of-that-name/x", "no such file"),
        ("cluster.server=.", "a directory, not a file"),
        ("collectives.algorithm={all-reduce: {server: }}", "the name of an algorithm of all-reduce is due"),
        ("collectives.algorithm={all-reduce: ring, AllReduce: direct}", "collective all-reduce stands there twice"),
        ("collectives.algorithm={all-reduce: {server: ring, Server: ring}}", "tier server stands there twice"),
        ("training.sequence_length=" + 5000 * "9", "a whole number is due"),
        ("layout.stages=[14, -1]", "a number of at least 0 is due"),
        ("run.steps=0", "a number of at least 1 is due"),
        ("run.seed=-1", "a number of at least 0 is due"),
        ("training.sequence_length=0", "a number of at least 1 is due"),
        ("training.global_batch=.nan", "a whole number is due"),
        ("training.global_batch=1e30", "a number of at most 10,000,000,000 is due"),
        ("cluster.servers=-4", "a number of at least 1 is due"),
        ("cluster.servers=1.5", "a whole number is due"),
        ("schema=2", "choose from 1"),
    ],
)
def test_bad_values(problems: Problems, override: str, message: str) -> None:
    # rules 21, 22, 28, 29, 31: one problem, marked as an override, with what is due or the list of what there is
    (problem,) = problems(override)
    assert problem.overridden
    assert message in problem.message


def test_names_are_read_without_regard_to_case_and_dashes(base: Base) -> None:
    # rule 29
    scenario = base(
        "schedule.kind=GPipe", "training.precision=FP8", "training.gradient_dtype=BF-16", "layout.rules=NxD",
        "collectives.algorithm={AllReduce: Ring}", "layout.rank=Chip", "layout.order=[TP, CP, PP, DP]", "layout.dp=Auto",
    )  # fmt: skip
    assert (scenario.schedule.kind, scenario.training.precision, scenario.training.gradient_dtype) == (
        "gpipe",
        "fp8",
        "bf16",
    )
    assert scenario.collectives.algorithm_for("all-reduce", inside_server=True) == "ring"
    assert scenario.layout.order == ("tp", "cp", "pp", "dp")


def test_numbers_are_those_of_yaml_1_2(base: Base) -> None:
    # rule 28: 7e9 and 2.304e3 are whole numbers
    scenario = base("training.bucket_parameters=7e9", "training.global_batch=2.304e3")
    assert (scenario.training.bucket_parameters, scenario.training.global_batch) == (7_000_000_000, 2304)


# --- references ----------------------------------------------------------------------------------------------------


def test_a_model_is_a_name_a_file_or_inline(base: Base, write: Write) -> None:
    # an existing path beats a name; inline keys are those of the catalog
    config = write().parent / "models" / "llama3-8b"
    config.parent.mkdir()
    config.write_text(json.dumps(HF))
    assert base("model=llama3-8b").model.layers == 32
    assert base(f"model={config}").model.layers == 36
    assert base(f"model={INLINE}").model.parameters > 0
    assert base(f"model={json.dumps(HF)}").model.kv_heads == 8


def test_a_path_is_relative_to_what_it_is_written_in(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # in a file to the file; on the command line to the working directory, as a shell completes it
    for folder, layers in (("here", 18), ("there", 36)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "config.json").write_text(json.dumps({**HF, "num_hidden_layers": layers}))
    path = write({"model: llama3.1-405b": "model: config.json"}, name="there/base.yaml")
    monkeypatch.chdir(tmp_path / "here")
    assert load("../there/base.yaml").model.layers == load(path).model.layers == 36
    assert load(path, ["model=config.json"]).model.layers == 18
    assert load("llama3-8b-trn2", ["model=config.json"]).model.layers == 18


def test_problems_of_an_inline_model_stand_at_its_keys(problems: Problems) -> None:
    # key paths and lines are those of the scenario
    found = problems(
        changes={"model: llama3.1-405b": "model:\n  layers: 0\n  hidden_size: 64\n  heads: 4\n  ffn_size: 8"}
    )
    places = {problem.key: problem.line for problem in found}
    assert places == {"model.layers": 8, "model.heads": 10, "model.attention_heads": 7, "model.vocabulary": 7}


def test_problems_of_a_named_file_stand_in_that_file(write: Write) -> None:
    # a broken model file is reported under its own name, with its own lines
    path = write({"model: llama3.1-405b": "model: broken.yaml"})
    (path.parent / "broken.yaml").write_text("layers: 2\nhidden_size: wide\n")
    with pytest.raises(InputError) as error:
        load(path, ["layout.dp=31"])
    files = {problem.file for problem in error.value.problems}
    assert files == {str(path), str(path.parent / "broken.yaml")}
    assert "  line 2  hidden_size = wide" in str(error.value)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (
            {
                **HF,
                "model_type": "mixtral",
                "architectures": ["MixtralForCausalLM"],
                "num_local_experts": 8,
                "num_experts_per_tok": 2,
            },
            "mixture of 8 experts",
        ),
    ],
)
def test_models_that_can_only_be_counted_are_refused(
    problems: Problems, config: dict[str, object], reason: str
) -> None:
    # a mixture is never read as dense
    (problem,) = problems(f"model={json.dumps(config)}")
    assert problem.key == "model"
    assert reason in problem.message
    assert "not modelled" in problem.message


def test_a_variant_of_a_server(base: Base) -> None:
    # name@variant picks the values that the file declares
    assert base("cluster.server=trn3-gen2-ultraserver@pessimistic").cluster.server.name.endswith("@pessimistic")


def test_a_model_in_place_of_a_scenario(tmp_path: Path) -> None:
    # a file with model_type or architectures is a model
    path = tmp_path / "config.json"
    path.write_text(json.dumps(HF))
    with pytest.raises(InputError, match="this is a model"):
        load(path)


def test_scenarios_are_found_by_name_and_by_path(tmp_path: Path) -> None:
    # near matches of an unknown one
    with pytest.raises(InputError, match="did you mean trn3-million"):
        load("trn3-milion")
    with pytest.raises(InputError, match="no such file"):
        load(tmp_path / "nothing.yaml")


def test_json_scenarios_are_equal_to_yaml(write: Write) -> None:
    # rule 28: the same values, the same hash
    yaml = write()
    data = {
        "schema": 1,
        "name": "base",
        "cluster": {"server": "trn3-gen2-ultraserver", "servers": 16, "fabric": "ultracluster"},
        "model": "llama3.1-405b",
        "training": {"sequence_length": 8192, "global_batch": 2304},
        "layout": {"order": ["tp", "cp", "pp", "dp"], "tp": 8, "pp": 9},
    }
    path = yaml.with_name("base.json")
    path.write_text(json.dumps(data, indent="\t"))
    assert sha256(load(path)) == sha256(load(yaml))


@pytest.mark.parametrize("name", names("scenarios"))
def test_every_scenario_of_the_package_loads(name: str) -> None:
    # no problem, and dp x tp x pp is its number of ranks
    scenario = load(name)
    layout = scenario.layout
    assert scenario.ranks == layout.tp * layout.pp * layout.dp <= scenario.cluster.chips * scenario.ranks_per_chip
    assert scenario.microbatches * scenario.training.micro_batch * layout.dp == scenario.training.global_batch


# --- what is resolved ----------------------------------------------------------------------------------------------


def test_defaults_are_those_of_the_contract(base: Base) -> None:
    # design: micro_batch 1, bf16, selective, fp32 gradients, zero 1, sequence parallelism from tp 2 on, 2 steps, seed 0
    scenario = base()
    training, layout, run = scenario.training, scenario.layout, scenario.run
    assert (training.micro_batch, training.precision, training.recompute, training.gradient_dtype) == (
        1,
        "bf16",
        "selective",
        "fp32",
    )
    assert training.data_parallel_overlap == scenario.cluster.software.data_parallel_overlap
    assert (layout.zero, layout.sequence_parallel, layout.rank, layout.rules) == (1, True, "chip", "nxd")
    assert (run.steps, run.seed, run.fidelity, run.folding, run.engine, run.skew) == (
        2,
        0,
        "flow",
        "auto",
        "auto",
        True,
    )
    assert (scenario.schedule.kind, scenario.collectives.policy) == ("1f1b", "fastest")
    assert base("layout.tp=1").layout.sequence_parallel is False
    assert load_order(base) == ("tp", "cp", "dp", "pp")


def load_order(base: Base) -> tuple[str, ...]:
    return base(changes={"  order: [tp, cp, pp, dp]\n": ""}).layout.order


def test_every_default_is_listed_and_nothing_else(base: Base) -> None:
    # defaults = all keys - written keys, with the resolved value
    defaults = base().defaults
    assert defaults["cluster.lnc"] == "2"
    assert defaults["cluster.software"] == "neuron-trn3"
    assert defaults["layout.sequence_parallel"] == "true"
    assert defaults["collectives.algorithm"] == "auto"
    assert {"layout.tp", "name", "schema", "layout.dp", "layout.stages"} & set(defaults) == set()
    assert "training.micro_batch" not in base("training.micro_batch=1").defaults
    assert (
        base("layout.tp=1", changes={"  order: [tp, cp, pp, dp]\n": ""}).defaults["layout.order"] == "[tp, cp, dp, pp]"
    )


@pytest.mark.parametrize(("servers", "dp", "bucket"), [(16, 32, 40_000_000), (32, 64, 64_000_000)])
def test_buckets_grow_with_dp_as_in_megatron(base: Base, servers: int, dp: int, bucket: int) -> None:
    # max(40e6, 1e6 x dp)
    scenario = base(f"cluster.servers={servers}", "training.global_batch=4608")
    assert (scenario.layout.dp, scenario.training.bucket_parameters) == (dp, bucket)
    assert scenario.derived["bucket_parameters"] == f"{bucket:,} = max(40e6, 1e6 x dp {dp})"


def test_what_is_derived_is_shown_with_its_arithmetic(base: Base) -> None:
    # each entry repeats the numbers it comes from
    derived = base().derived
    assert derived["ranks"] == "2,304 = tp 8 x pp 9 x dp 32"
    assert derived["microbatches"] == "72 = 2,304 sequences / (micro_batch 1 x dp 32)"
    assert derived["stages"] == "9 x 14 layers"
    assert derived["logical cores"] == "9,216 = 2,304 chips x 4 at LNC 2"
    assert derived["tokens per step"] == "18.9 M = 2,304 x 8,192"


def test_operators_of_aws_are_understood(base: Base) -> None:
    # NxD's LlamaRMSNorm is both norms of a layer
    scenario = base("training.recompute=[LlamaRMSNorm, ActivationMultiplyMLP]")
    assert scenario.training.recompute == frozenset({"input_norm", "post_attention_norm", "activation"})
    assert scenario.derived["recompute"] == "activation, input_norm, post_attention_norm"


def test_algorithms_by_operation_and_tier(base: Base) -> None:
    # what is not mentioned is auto
    table = base("collectives.algorithm={all-reduce: {cluster: hierarchical}, all-gather: ring}").collectives
    assert table == Collectives(
        {
            "all-reduce": {"server": "auto", "cluster": "hierarchical"},
            "all-gather": {"server": "ring", "cluster": "ring"},
            "reduce-scatter": {"server": "auto", "cluster": "auto"},
        },
        "fastest",
    )
    assert table.algorithm_for("all-reduce", inside_server=False) == "hierarchical"


def test_a_single_server_has_no_fabric(base: Base) -> None:
    # a fabric without effect is not carried along
    assert base("cluster.servers=1", "training.global_batch=144").cluster.fabric is None


# --- hash ----------------------------------------------------------------------------------------------------------


def test_the_hash_follows_every_value_and_nothing_else(base: Base, write: Write) -> None:
    # equal for equal values, wherever the file lies and in whatever order; different for each changed number
    scenario = base()
    assert sha256(scenario) == sha256(load(write(name="elsewhere.yaml")))
    assert sha256(scenario) == sha256(base("layout.dp=32", "training.micro_batch=1"))
    changed = [
        base("run.seed=1"),
        base("layout.rules=megatron"),
        base("training.recompute=[core_attention]"),
        base("cluster.server=trn3-gen2-ultraserver@pessimistic"),
        replace(scenario, model=replace(scenario.model, vocabulary=128257)),
    ]
    assert len({sha256(each) for each in (scenario, *changed)}) == 6


def test_the_hash_does_not_depend_on_pythons_hash_seed(write: Write) -> None:
    # sets are sorted before they are hashed
    code = "import sys; from trnsim.scenario import load, sha256; print(sha256(load(sys.argv[1], sys.argv[2:])))"
    command = [sys.executable, "-c", code, str(write()), "training.recompute=[mlp_up, activation, input_norm, qkv]"]
    runs = [
        subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True, text=True)
        for seed in ("0", "1")
    ]
    assert runs[0].stdout == runs[1].stdout != ""
