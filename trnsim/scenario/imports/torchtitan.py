"""torchtitan: the TOML of a training.

References
----------
pytorch/torchtitan, torchtitan/config/job_config.py at 000204a4 and models/llama3 at 10503c1c, read 2026-11-30.
"""

from __future__ import annotations

import math
import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from trnsim.documents import Document, read_toml, refuse_unknown
from trnsim.scenario.imports.keys import Key, Vocabulary, by_key, count, count_or_rest, one_of, text, words
from trnsim.scenario.imports.machine import Asked, place
from trnsim.scenario.imports.pipeline import write_virtual_stages
from trnsim.scenario.imports.shape import named_shape
from trnsim.workload import load_model

if TYPE_CHECKING:
    from pathlib import Path

    from trnsim.scenario.imports.translation import Translation
    from trnsim.workload import Transformer

__all__ = ["TOOL", "VOCABULARY", "read", "translate"]

TOOL: Final = "a configuration of torchtitan"

_FLAVORS: Final = {"8B": "llama3-8b", "70B": "llama3-70b", "405B": "llama3.1-405b"}
"""Flavors of torchtitan's llama3 whose shape is in the catalog."""

_SCHEDULES: Final = {
    "1F1B": "1f1b",
    "GPipe": "gpipe",
    "Interleaved1F1B": "interleaved-1f1b",
    "LoopedBFS": "breadth-first",
    "InterleavedZeroBubble": "zero-bubble",
    "ZBVZeroBubble": "zb-v",
    "DualPipeV": "dualpipe-v",
}
_LOOPED: Final = frozenset(_SCHEDULES) - {"1F1B", "GPipe"}

VOCABULARY: Final = Vocabulary(
    keys={
        "model.name": Key(text),
        "model.flavor": Key(text),
        "model.converters": Key(words),
        "training.local_batch_size": Key(count),
        "training.global_batch_size": Key(count_or_rest),
        "training.seq_len": Key(count, "training.sequence_length"),
        "training.mixed_precision_param": Key(one_of("bfloat16", "float32")),
        "training.mixed_precision_reduce": Key(one_of("bfloat16", "float32")),
        "parallelism.data_parallel_replicate_degree": Key(count),
        "parallelism.data_parallel_shard_degree": Key(count_or_rest),
        "parallelism.fsdp_reshard_after_forward": Key(one_of("default", "always", "never")),
        "parallelism.tensor_parallel_degree": Key(count, "layout.tp"),
        "parallelism.pipeline_parallel_degree": Key(count, "layout.pp"),
        "parallelism.context_parallel_degree": Key(count, "layout.cp"),
        "parallelism.expert_parallel_degree": Key(count, "layout.ep"),
        "parallelism.pipeline_parallel_schedule": Key(one_of(*_SCHEDULES)),
        "parallelism.pipeline_parallel_microbatch_size": Key(count),
        "parallelism.pipeline_parallel_layers_per_stage": Key(count),
        "parallelism.pipeline_parallel_split_points": Key(words),
        "activation_checkpoint.mode": Key(one_of("none", "selective", "full")),
        "activation_checkpoint.selective_ac_option": Key(text),
    },
    not_modelled={
        "activation_checkpoint": "details of selective recompute",
        "fault_tolerance": "replicas that come and go",
        "float8": "which matmuls use fp8, and what travels in it; here every matmul does",
        "mx": "which matmuls use mxfp8; here every matmul does",
        "optimizer.early_step_in_backward": "the optimizer inside the backward pass",
        "parallelism.disable_loss_parallel": "the loss on whole logits",
        "parallelism.enable_async_tensor_parallel": "overlap of tensor-parallel communication with matmuls",
        "parallelism.expert_tensor_parallel_degree": "tensor parallelism of experts",
        "parallelism.module_fqns_per_model_part": "modules of each stage; write layout.stages by hand",
        "parallelism.pipeline_parallel_first_stage_less_layers": "a shorter first stage; write layout.stages by hand",
        "parallelism.pipeline_parallel_last_stage_less_layers": "a shorter last stage; write layout.stages by hand",
        "parallelism.pipeline_parallel_schedule_csv": "a schedule from a file",
        "quantize": "which matmuls use low precision; here every matmul does",
        "training.enable_cpu_offload": "weights and optimizer state on the host",
    },
    without_effect=by_key(
        {
            "checkpoints": "checkpoint",
            "time-outs and traces of communication": "comm",
            "the compiler": "compile training.compile parallelism.enable_compiled_autograd",
            "checks of values": "debug",
            "modules of the user": "experimental",
            "names and folders": "job",
            "the learning rate": "lr_scheduler",
            "logs and profiles": "memory_estimation metrics profiling",
            "the tokenizer, and what is printed": "model",
            "the optimizer's settings": "optimizer",
            "how context parallelism exchanges keys and values": "parallelism.context_parallel_rotate_method",
            "length of the training, data, random numbers": "training",
            "validation": "validation",
        }
    ),
)

_OLD: Final = {
    "training.batch_size": "training.local_batch_size",
    **{
        f"{table}.{name}": f"parallelism.{name}"
        for table in ("training", "experimental")
        for name in (
            "data_parallel_replicate_degree",
            "data_parallel_shard_degree",
            "tensor_parallel_degree",
            "pipeline_parallel_degree",
            "pipeline_parallel_schedule",
            "pipeline_parallel_split_points",
            "context_parallel_degree",
        )
    },
}
"""Where keys stood in earlier versions."""

_SPLIT: Final = re.compile(r"layers\.(\d+)")
_PER_OPERATOR: Final = ["input_norm", "attention_output", "attention_residual", "post_attention_norm", "activation"]


def read(path: Path) -> tuple[Document, tuple[str, ...]]:
    """Read a configuration; keys of earlier versions count as the ones they have become."""
    document = read_toml(path)
    data = {table: dict(value) if isinstance(value, dict) else value for table, value in document.data.items()}
    remarks, lines = [], dict(document.lines)
    for old, new in _OLD.items():
        (old_table, old_key), (new_table, new_key) = old.split("."), new.split(".")
        there = data.get(old_table)
        target = data.setdefault(new_table, {}) if isinstance(there, dict) and old_key in there else None
        if isinstance(there, dict) and isinstance(target, dict) and new_key not in target:
            target[new_key] = there.pop(old_key)
            lines[new] = lines.get(old, lines.get(old_table, 1))
            remarks.append(f"{new}: written as {old}, its name in earlier versions")
    return replace(document, data=data, lines=lines), tuple(remarks)


def translate(translation: Translation) -> None:
    """Write what the keys of the table do not say alone."""
    model = _shape(translation)
    if translation.entries.get("layout.tp", 1) > 1:
        translation.choose("layout.sequence_parallel", True, "torchtitan's tensor parallelism always has it")
    _schedule(translation, model)
    dp = _machine(translation)
    _sharding(translation, dp)
    _batch(translation, dp)
    _recompute(translation)
    _precision(translation)


def _shape(translation: Translation) -> Transformer | None:
    if translation.options.model is not None:
        return named_shape(translation)
    name, flavor = translation.value("model.name", "llama3"), translation.value("model.flavor")
    if name != "llama3":
        translation.refuse("model.name", "only flavors of llama3 are known; pass --model NAME|FILE")
    elif flavor is None:
        translation.need("model.flavor", "model", "; pass --model NAME|FILE")
    elif flavor not in _FLAVORS:
        translation.refuse("model.flavor", f"{refuse_unknown('flavor', flavor, _FLAVORS)}; or pass --model NAME|FILE")
    else:
        translation.choose("model", _FLAVORS[flavor], f"the catalog's model with the shape of flavor {flavor}")
        return load_model(_FLAVORS[flavor])
    return None


def _schedule(translation: Translation, model: Transformer | None) -> None:
    value, pp = translation.value, translation.entries.get("layout.pp", 1)
    name = value("parallelism.pipeline_parallel_schedule", "1F1B")
    if pp == 1:
        _unused_without_pipeline(translation)
    if pp == 1 or model is None:
        return
    points = value("parallelism.pipeline_parallel_split_points", ())
    each = value("parallelism.pipeline_parallel_layers_per_stage")
    default = 2 if name in _LOOPED else 1
    stages = len(points) + 1 if points else math.ceil(model.layers / each) if each else default * pp
    if stages % pp:
        translation.refuse("parallelism.pipeline_parallel_degree", f"{stages} stages are no multiple of pp {pp}")
        return
    if name in _LOOPED:
        write_virtual_stages(translation, stages // pp, "parallelism.pipeline_parallel_schedule")
    translation.write("schedule.kind", _SCHEDULES[name], "parallelism.pipeline_parallel_schedule, by default 1F1B")
    if points and stages == pp:
        _stages(translation, model.layers, points)
    elif points or stages == pp:
        reason = "as even as layers go; torchtitan counts embedding and loss as layers in some versions"
        translation.remarks += (f"layout.stages is left out: {reason}",)


def _unused_without_pipeline(translation: Translation) -> None:
    for key in ("schedule", "microbatch_size", "layers_per_stage", "split_points"):
        if translation.value(f"parallelism.pipeline_parallel_{key}") is not None:
            translation.without_effect[f"parallelism.pipeline_parallel_{key}"] = "used with several stages only"


def _stages(translation: Translation, layers: int, points: tuple[str, ...]) -> None:
    """Write the layers of each stage; a point names the first layer of one."""
    found = [_SPLIT.fullmatch(point) for point in points]
    starts = [0, *(int(point[1]) for point in found if point is not None), layers]
    stages = [end - start for start, end in pairwise(starts)]
    key = "parallelism.pipeline_parallel_split_points"
    if None in found or min(stages) < 1:
        translation.refuse(
            key, f"rising layers between 1 and {layers - 1} are due, as layers.8; the first of each stage"
        )
    else:
        translation.write("layout.stages", stages, key)


def _machine(translation: Translation) -> int | None:
    replicas = translation.value("parallelism.data_parallel_replicate_degree", 1)
    shards = translation.value("parallelism.data_parallel_shard_degree", -1)
    degrees = [translation.entries.get(f"layout.{axis}", 1) for axis in ("tp", "cp", "pp")]
    known = shards > 0
    asked = Asked(
        rank="chip",
        why="a GPU of the file becomes a chip",
        ranks=math.prod(degrees) * replicas * shards if known else None,
        origin=f"data_parallel_replicate_degree {replicas} x data_parallel_shard_degree {shards} x tp x cp x pp",
    )
    return place(translation, asked)


def _sharding(translation: Translation, dp: int | None) -> None:
    """Write how much is sharded over the data-parallel ranks: nothing (DDP), or all of it (FSDP)."""
    value = translation.value
    replicas = value("parallelism.data_parallel_replicate_degree", 1)
    shards = value("parallelism.data_parallel_shard_degree", -1)
    if dp is not None and shards == -1:
        shards = dp // replicas
        if not shards or dp % replicas:
            key = "parallelism.data_parallel_replicate_degree"
            translation.refuse(key, f"{replicas} replicas do not divide dp {dp:,}")
    if shards == 1:
        translation.choose("layout.zero", 0, "data_parallel_shard_degree is 1: replicas, as DDP has them")
        return
    reshard = value("parallelism.fsdp_reshard_after_forward", "default")
    keeps = reshard == "never" or (reshard == "default" and translation.entries.get("layout.pp", 1) > 1)
    reason = f"FSDP with fsdp_reshard_after_forward {reshard}: weights are {'kept' if keeps else 'dropped'} after the forward pass"
    translation.choose("layout.zero", 3, reason)
    if keeps:
        translation.choose("layout.reshard_after_forward", False, reason)
    if replicas > 1 and shards > 1:
        translation.write("layout.zero_group", shards, "data_parallel_shard_degree")


def _batch(translation: Translation, dp: int | None) -> None:
    value = translation.value
    translation.due("training.seq_len", "training.sequence_length")
    local, total = (
        translation.due("training.local_batch_size", "training.micro_batch"),
        value("training.global_batch_size", -1),
    )
    if local is None:
        return
    if translation.entries.get("layout.pp", 1) > 1:
        micro = value("parallelism.pipeline_parallel_microbatch_size", 1)
        translation.choose("training.micro_batch", micro, "pipeline_parallel_microbatch_size, by default 1")
    else:
        translation.write("training.micro_batch", local, "training.local_batch_size")
    if total != -1:
        translation.write("training.global_batch", total, "training.global_batch_size")
    elif dp is not None:
        translation.choose(
            "training.global_batch", local * dp, f"torchtitan's default: local_batch_size {local} x dp {dp:,}"
        )
    if dp is not None and total > local * dp and translation.entries.get("layout.pp", 1) > 1:
        what = f"{total // (local * dp)} accumulations, each of which fills and drains the pipeline; here one schedule"
        translation.leave_out("training.global_batch_size", what)


def _recompute(translation: Translation) -> None:
    mode = translation.value("activation_checkpoint.mode", "selective")
    option = translation.value("activation_checkpoint.selective_ac_option", "2")
    if mode != "selective":
        translation.write("training.recompute", mode, "activation_checkpoint.mode")
        if translation.value("activation_checkpoint.selective_ac_option") is not None:
            translation.without_effect["activation_checkpoint.selective_ac_option"] = "used with mode selective only"
    elif option == "op":
        reason = "per operator, attention and every second matmul are kept there: here qkv, attention and mlp_up"
        translation.choose("training.recompute", _PER_OPERATOR, reason)
    elif option == "1":
        translation.write("training.recompute", "full", "activation_checkpoint.selective_ac_option")
    elif re.fullmatch(r"[1-9]\d{0,5}", option):
        reason = f"every layer, where selective_ac_option {option} takes one of {option}: more time, less memory"
        translation.choose("training.recompute", "full", reason)
    else:
        translation.refuse("activation_checkpoint.selective_ac_option", "op or a whole number is due")


def _precision(translation: Translation) -> None:
    value = translation.value
    converters = ",".join(value("model.converters", ()))
    low: Any = next((name for name in ("float8", "mx") if name in converters), None)
    if low is not None:
        translation.choose("training.precision", "fp8", f"converter {low}, in model.converters")
    elif value("training.mixed_precision_param", "bfloat16") == "float32":
        translation.write("training.precision", "fp32", "training.mixed_precision_param")
    else:
        translation.choose("training.precision", "bf16", "training.mixed_precision_param, by default bfloat16")
    dtype = "bf16" if value("training.mixed_precision_reduce") == "bfloat16" else "fp32"
    translation.choose("training.gradient_dtype", dtype, "training.mixed_precision_reduce, by default float32")
