"""The keys of a scenario file: one field each, with its meaning, its default and what it may be."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from trnsim.documents import WHOLE, Choice, Table
from trnsim.scenario.algorithms import AlgorithmTable, read_algorithms
from trnsim.scenario.perturbation_table import PerturbationTable  # noqa: TC001 - pydantic reads it
from trnsim.schedules import interleaved_names, schedule_names
from trnsim.workload import recomputed_operators

__all__ = ["LATER_TABLES", "SYNONYMS", "ScenarioFile", "json_schema"]

LATER_TABLES: Final = {
    "operations": "months of failures and checkpoints",
}
"""Tables of later work, refused by name."""

SYNONYMS: Final = {
    **{
        spelling.format(word): axis
        for word, axis in (
            ("tensor", "tp"),
            ("pipeline", "pp"),
            ("data", "dp"),
            ("context", "cp"),
            ("expert", "ep"),
            ("tensor_model", "tp"),
            ("pipeline_model", "pp"),
            ("expert_model", "ep"),
        )
        for spelling in ("{}", "{}_parallel", "{}_parallel_size")
    },
    "virtual_pipeline_model_parallel_size": "virtual_stages",
    "virtual_pipeline_size": "virtual_stages",
    "overlap_p2p_comm": "sends",
    "zero1": "zero",
    "zero_stage": "zero",
    "fsdp": "zero",
    "sharding_strategy": "zero",
    "data_parallel_shard_degree": "zero_group",
    "hybrid_shard": "zero_group",
    "sp": "sequence_parallel",
    "pipeline_cuts": "stages",
    "micro_batch_size": "micro_batch",
    "mbs": "micro_batch",
    "global_batch_size": "global_batch",
    "gbs": "global_batch",
    "batch_size": "global_batch",
    "seq_length": "sequence_length",
    "seq_len": "sequence_length",
    "encoder_seq_length": "sequence_length",
    "dtype": "precision",
    "attention_implementation": "attention",
    "attn_impl": "attention",
    "activations_checkpoint_recompute": "recompute",
    "topology": "fabric",
    "nodes": "servers",
    "num_nodes": "servers",
    "instances": "servers",
    "family": "software",
}
"""Words that users bring from Megatron and NeuronX Distributed, and the key that each stands for."""


_MOST_COUNTED: Final = 10**12


def _only_one(what: str) -> BeforeValidator:
    """Refuse a degree above 1 as later work, and leave everything else to the check of the type."""

    def check(value: Any) -> Any:
        if isinstance(value, int | float) and not isinstance(value, bool) and value > 1:
            raise ValueError(f"{what} is not modelled yet; 1 is the only degree")
        return value

    return BeforeValidator(check)


def _zero(value: Any) -> Any:
    whole = isinstance(value, int | float) and not isinstance(value, bool)
    if not whole or value not in {0, 1, 2, 3}:
        raise ValueError("0, 1, 2 or 3 is due: how much the data-parallel ranks share")
    return int(value)


def _zero_group(value: Any) -> Any:
    if isinstance(value, str) and value.casefold() in {"all", "server"}:
        return value.casefold()
    whole = isinstance(value, int | float) and not isinstance(value, bool) and float(value).is_integer()
    if not whole or not 2 <= value <= _MOST_COUNTED:
        raise ValueError('a whole number of at least 2, "all" or "server" is due')
    return int(value)


def _version(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("choose from 1")  # noqa: TRY004 - pydantic reports a ValueError as a problem of the file
    return value


def _model(value: Any) -> Any:
    if not isinstance(value, str | dict):
        raise ValueError("a model of the catalog, the path of a file, or a table of its keys is due")  # noqa: TRY004
    return value


def _count_or_auto(value: Any) -> Any:
    if isinstance(value, str) and value.casefold() == "auto":
        return "auto"
    whole = isinstance(value, int | float) and not isinstance(value, bool) and float(value).is_integer() and value >= 1
    if not whole:
        raise ValueError('a whole number of at least 1, or "auto", is due')
    if value > _MOST_COUNTED:
        raise ValueError(f'a number of at most {_MOST_COUNTED:,}, or "auto", is due')
    return int(value)


def _recompute(value: Any) -> Any:
    if not isinstance(value, str | list) or not all(isinstance(name, str) for name in value):
        raise ValueError("none, selective, full or a list of operators is due")
    names = value.casefold() if isinstance(value, str) else value
    recomputed_operators(names)
    return names


def _stages(value: Any) -> Any:
    if value is not None and (not isinstance(value, list) or not value):
        raise ValueError("a list of layers per stage is due, for instance [19, 21, 21, 19]")
    return value


CountOrAuto = Annotated[
    int | Literal["auto"],
    BeforeValidator(_count_or_auto),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 1}, {"const": "auto"}]}),
]
Axis = Annotated[str, Choice("tp", "cp", "dp", "pp", "ep")]
Servers = Annotated[int, Field(ge=1, le=10_000_000), WHOLE]
Tokens = Annotated[int, Field(ge=1, le=1_000_000_000), WHOLE]
Sequences = Annotated[int, Field(ge=1, le=10_000_000_000), WHOLE]
Degree = Annotated[int, Field(ge=1, le=100_000_000), WHOLE]
Layers = Annotated[int, Field(ge=0, le=1_000_000), WHOLE]
OnlyOne = Annotated[int, Field(ge=1, le=1), WHOLE]


class ClusterTable(Table):
    """The machine."""

    server: str = Field(description="server of the catalog, as name or name@variant, or the path of a file")
    servers: Servers = Field(default=1, description="how many of them")
    fabric: str | None = Field(
        default=None, description="scale-out network: a name in topologies/ or a path; due from two servers on"
    )
    lnc: Annotated[int, Field(ge=1, le=8), WHOLE] | None = Field(
        default=None, description="physical NeuronCores per logical one; by default that of the chip; Trainium only"
    )
    allow_idle: bool = Field(default=False, description="whether the layout may leave chips of the cluster idle")
    software: str | None = Field(
        default=None, description="software family of the catalog, or a path; by default that of the chip"
    )


class TrainingTable(Table):
    """What one step trains on, and how."""

    sequence_length: Tokens = Field(description="tokens of a sequence")
    global_batch: Sequences = Field(description="sequences of a step")
    micro_batch: Annotated[int, Field(ge=1, le=1_000_000), WHOLE] = Field(
        default=1, description="sequences of one forward pass"
    )
    precision: Annotated[str, Choice("bf16", "fp8", "mxfp8", later=("fp4", "mxfp4", "nvfp4", "fp32"))] = Field(
        default="bf16", description="number format of the matrix products: which peak of the chip they use"
    )
    fp8_matmuls: Annotated[str, Choice("all", "linear")] = Field(
        default="all",
        description="which matrix products are in fp8 or mxfp8: all, or the linear operators of the layers, as recipes have it",
    )
    fp8_operands: bool = Field(
        default=False,
        description="whether those linear operators also read, keep and gather their operands in fp8 or mxfp8, not in bf16",
    )
    attention: Annotated[str, Choice("flash", "unfused")] = Field(
        default="flash",
        description="core attention as one fused kernel, or with scores in memory as Megatron-LM had it before 2023",
    )
    gradient_dtype: Annotated[str, Choice("fp32", "bf16")] = Field(
        default="fp32", description="number format in which gradients are kept and accumulated"
    )
    reduce_dtype: Annotated[str, Choice("fp32", "bf16")] | None = Field(
        default=None, description="number format in which gradients travel; by default that in which they are kept"
    )
    states: Annotated[str, Choice("master", "fp32", "bf16")] = Field(
        default="master",
        description="Adam's bytes a parameter, gradient apart: master 2 + 12 (bf16 weight; fp32 master, mean, variance), "
        "fp32 4 + 8 (the weight is its own master), bf16 2 + 4 (stochastic rounding)",
    )
    fused_update: bool = Field(
        default=True, description="whether Adam is one kernel; else it needs 12 bytes more a parameter while it updates"
    )
    optimizer_offload: bool = Field(
        default=False,
        description="whether Adam's states stay in the memory of the host and pass through the chip while it updates",
    )
    cross_entropy: Annotated[str, Choice("fused", "eager")] = Field(
        default="fused",
        description="how the loss is computed: fused, 6 bytes a logit; eager, as PyTorch does it step by step in fp32, 14",
    )
    recompute: Annotated[
        str | list[str],
        BeforeValidator(_recompute),
        WithJsonSchema(
            {"anyOf": [{"enum": ["none", "selective", "full"]}, {"type": "array", "items": {"type": "string"}}]}
        ),
    ] = Field(
        default="selective",
        description="what runs again in the backward pass: none, selective (core attention), full, or a list of operators",
    )
    recompute_early_stop: bool = Field(
        default=False,
        description="whether recompute ends with the last tensor that the backward pass needs, as PyTorch's checkpoint does",
    )
    bucket_parameters: CountOrAuto = Field(
        default="auto", description="parameters of a gradient bucket; auto is max(40e6, 1e6 x dp), as Megatron has it"
    )
    data_parallel_overlap: Annotated[str, Choice("none", "buckets", "prefetch")] | None = Field(
        default=None,
        description="what travels beside the passes: none; buckets of gradients; prefetch: weights as well, ahead of the "
        "blocks that need them; by default as the software family has it, prefetch instead of buckets under ZeRO-3",
    )
    tensor_parallel_overlap: Annotated[str, Choice("none", "ring")] = Field(
        default="none",
        description="whether the all-gathers and reduce-scatters of sequence parallelism go round in a ring beside the matmul "
        "that they feed or that feeds them, all but one of tp parts",
    )
    prefetch: Annotated[int, Field(ge=1, le=10_000), WHOLE] = Field(
        default=1, description="blocks whose weights are gathered ahead under ZeRO-3 with prefetch"
    )


class LayoutTable(Table):
    """Which rank does what."""

    rank: Annotated[str, Choice("chip", "logical_core")] = Field(default="chip", description="what one rank is")
    order: list[Axis] = Field(
        default=["tp", "cp", "dp", "pp"], description="axes from the innermost (neighbouring ranks) to the outermost"
    )
    tp: Degree = Field(default=1, description="tensor-parallel degree")
    cp: Annotated[OnlyOne, _only_one("context parallelism")] = Field(default=1, description="context-parallel degree")
    pp: Degree = Field(default=1, description="pipeline-parallel degree: the number of stages")
    ep: Annotated[OnlyOne, _only_one("expert parallelism")] = Field(default=1, description="expert-parallel degree")
    dp: CountOrAuto = Field(default="auto", description="data-parallel degree; auto takes every rank that is left")
    zero: Annotated[int, BeforeValidator(_zero), WithJsonSchema({"enum": [0, 1, 2, 3]})] = Field(
        default=1,
        description="what data-parallel ranks share: 0 nothing, 1 the optimizer, 2 gradients too, 3 weights too (FSDP)",
    )
    zero_group: Annotated[
        int | Literal["all", "server"],
        BeforeValidator(_zero_group),
        WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 2}, {"enum": ["all", "server"]}]}),
    ] = Field(
        default="all",
        description="data-parallel ranks that share: all, those of one server, or so many; fewer than all is hybrid sharding",
    )
    reshard_after_forward: bool = Field(
        default=True, description="whether ZeRO-3 drops gathered weights after the forward pass and gathers them again"
    )
    sequence_parallel: bool | None = Field(
        default=None,
        description="whether norms and residuals are split over the tensor-parallel ranks; by default if tp > 1",
    )
    stages: Annotated[list[Layers] | None, BeforeValidator(_stages)] = Field(
        default=None,
        description="layers of each stage, or of each virtual stage in the order of the model; by default split evenly, the "
        "last stages one more",
    )
    rules: Annotated[str, Choice("nxd", "megatron")] = Field(
        default="nxd", description="whose rules for stages and vocabulary hold: NeuronX Distributed's or Megatron's"
    )


class ScheduleTable(Table):
    """The order of forward and backward passes."""

    kind: Annotated[
        str,
        Choice(
            *schedule_names(),
            later=(
                "zero-bubble",
                "zb-h1",
                "zb-h2",
                "zb-v",
                "dualpipe",
                "dualpipe-v",
            ),
        ),
    ] = Field(default="1f1b", description="name of the pipeline schedule")
    virtual_stages: Annotated[int, Field(ge=1, le=100_000), WHOLE] = Field(
        default=1, description=f"virtual stages on each pipeline stage; above 1 for {' and '.join(interleaved_names())}"
    )
    sends: Annotated[str, Choice("blocking", "overlapped")] | None = Field(
        default=None,
        description="whether a rank waits until a message to another stage has arrived, or works beside it; by default as "
        "is usual for the schedule",
    )


class CollectivesTable(Table):
    """How collectives are carried out."""

    algorithm: Annotated[
        AlgorithmTable, BeforeValidator(read_algorithms), WithJsonSchema({"type": ["string", "object"]})
    ] = Field(
        default_factory=lambda: read_algorithms("auto"),
        description="auto (the fastest of direct, recursive-halving-doubling, ring and hierarchical), the name of an algorithm, or a table: "
        "{all-reduce: {server: ring, cluster: auto}}",
    )
    policy: Annotated[str, Choice("fastest", "neuron")] = Field(
        default="fastest",
        description="how auto chooses: fastest by predicted time; neuron, inside a server, by Neuron's rules for sizes",
    )


class RunTable(Table):
    """How the step is simulated."""

    steps: Annotated[int, Field(ge=1, le=100_000), WHOLE] = Field(default=2, description="steps to simulate")
    seed: Annotated[int, Field(ge=0, lt=2**64), WHOLE] = Field(
        default=0, description="seed of the run: which chips and links perturbations strike"
    )
    fidelity: Annotated[str, Choice("closed_form", "flow", "chunk")] = Field(
        default="flow",
        description=(
            "how the network is modelled: flow shares links among the transfers on them, closed_form does not, chunk follows "
            "each message of every rank"
        ),
    )
    folding: Annotated[str, Choice("auto", "off", "verify")] = Field(
        default="auto",
        description="auto simulates ranks that behave alike once, off every rank, with the same result; verify does both and compares "
        "every operation of every rank",
    )
    engine: Annotated[str, Choice("auto", "events", "replay")] = Field(
        default="auto",
        description="how time is run, with the same result: events lets SimPy wake every cohort, auto replays passes of replicas "
        "without it where they can be simulated alone, replay refuses a step that has none such",
    )
    skew: Annotated[str, Choice("on", "off")] = Field(
        default="on", description="whether stage passes and collectives lose time to skew as the software family has it"
    )
    mfu_peak: Annotated[str, Choice("chip", "tensor_engine")] = Field(
        default="chip",
        description="peak that MFU is measured against: the chip's as its maker prints it, or its tensor engines'",
    )
    trace_ranks: Degree = Field(default=16, description="most ranks that a trace shows")


class ScenarioFile(Table):
    """A scenario: all that one run needs."""

    schema_: Annotated[Literal[1], BeforeValidator(_version)] = Field(
        alias="schema", description="version of this format: 1"
    )
    name: str | None = Field(default=None, description="what the run is called; by default the name of the file")
    cluster: ClusterTable = Field(description="the machine")
    model: Annotated[str | dict[str, Any], BeforeValidator(_model)] = Field(
        description="model of the catalog, the path of a Hugging Face config.json, or its keys inline"
    )
    training: TrainingTable = Field(description="what one step trains on, and how")
    layout: LayoutTable = Field(default_factory=LayoutTable, description="which rank does what")
    schedule: ScheduleTable = Field(
        default_factory=ScheduleTable, description="the order of forward and backward passes"
    )
    collectives: CollectivesTable = Field(
        default_factory=CollectivesTable, description="how collectives are carried out"
    )
    run: RunTable = Field(default_factory=RunTable, description="how the step is simulated")
    perturbations: list[PerturbationTable] | None = Field(
        default=None, description="chips and links that are not as the datasheet has them"
    )


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of scenario files, for editors.

    Examples
    --------
    >>> json_schema()["title"]
    'trnsim scenario'
    """
    schema = ScenarioFile.model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "trnsim scenario"}
