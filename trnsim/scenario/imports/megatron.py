"""Megatron-LM: its arguments in a command, a shell script, a file of arguments, or a log that prints them."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any, Final

from trnsim.documents import Document, read_text, shorten
from trnsim.errors import InputError, Problem
from trnsim.scenario.imports.machine import Asked, place
from trnsim.scenario.imports.megatron_keys import LISTS, SAME, VOCABULARY
from trnsim.scenario.imports.megatron_shape import shape
from trnsim.scenario.imports.pipeline import write_stages, write_virtual_stages
from trnsim.scenario.imports.shell import options_of

if TYPE_CHECKING:
    from pathlib import Path

    from trnsim.scenario.imports.shell import Option
    from trnsim.scenario.imports.translation import Translation
    from trnsim.workload import Transformer

__all__ = ["TOOL", "VOCABULARY", "read", "translate"]

TOOL: Final = "arguments of Megatron-LM"

_PRINTED: Final = re.compile(r"(?:^|[\s:\]>])([a-z]\w*) \.{2,} ?(.*)$")
_PRINTED_AT_LEAST: Final = 3

_SHARDED: Final = {"no_shard": 0, "optim": 1, "optim_grads": 2, "optim_grads_params": 3}
_MODULES: Final = {
    "core_attn": ("core_attention",),
    "layernorm": ("input_norm", "post_attention_norm"),
    "mlp": ("mlp_up", "activation", "mlp_down"),
}


def read(path: Path) -> tuple[Document, tuple[str, ...]]:
    """Read the arguments of a file, and say what was taken though a condition or a later option may change it."""
    text = read_text(path)
    document, remarks = _printed(path, text) or _written(path, text)
    if not document.data:
        message = "no arguments: neither options (--num-layers 96) nor a log's list of them (num_layers ...... 96)"
        raise InputError([Problem("", message)], file=str(path))
    return document, remarks


def translate(translation: Translation) -> None:
    """Write what the keys of the table do not say alone."""
    model = shape(translation)
    _layout(translation, model)
    dp = _machine(translation)
    _training(translation, dp)
    _recompute(translation, model)
    _precision(translation)


def _printed(path: Path, text: str) -> tuple[Document, tuple[str, ...]] | None:
    """Return the arguments that a log prints, one a line, or ``None`` where it is no such log."""
    data: dict[str, Any] = {}
    lines: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if found := _PRINTED.search(line):
            data.setdefault(found[1], _literal(found[2].strip()))
            lines.setdefault(found[1], number)
    return (Document(str(path), path, data, lines), ()) if len(data) >= _PRINTED_AT_LEAST else None


def _literal(text: str) -> Any:
    if text[:1] in {"[", "("}:
        try:
            value = ast.literal_eval(text[:10_000])
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            return text
        return list(value) if isinstance(value, list | tuple) else text
    return None if text == "None" else text.removeprefix("torch.")


def _written(path: Path, text: str) -> tuple[Document, tuple[str, ...]]:
    """Return the options of a script; of several the last counts, unless a condition stands between them."""
    data: dict[str, Any] = {}
    lines: dict[str, int] = {}
    problems: list[Problem] = []
    remarks: list[str] = []
    conditional: set[str] = set()
    for option in options_of(text):
        name, value = _argument(option)
        known = name in VOCABULARY.keys
        if known and name in data and data[name] != value:
            before = f"line {lines[name]} says {_shown(data[name])}"
            if option.conditional or name in conditional:
                message = f"{before}, and a condition decides between them; keep one"
                problems.append(Problem(name, message, option.line, _shown(value)))
            remarks.append(f"{name} = {_shown(value)}: line {option.line} comes later; {before}")
        if option.conditional:
            conditional.add(name)
        data[name], lines[name] = value, option.line
    if problems:
        raise InputError(problems, file=str(path))
    taken = sorted(conditional & VOCABULARY.keys.keys())
    remarks += [
        f"{name} = {_shown(data[name])}: a condition around line {lines[name]} is taken as true" for name in taken
    ]
    return Document(str(path), path, data, lines), tuple(remarks)


def _argument(option: Option) -> tuple[str, Any]:
    """Return the argument that an option sets, and its value."""
    name, value = SAME.get(option.name, (option.name, None))
    if value is not None:
        return name, value
    if name in LISTS:
        return name, list(option.values)
    return name, option.values[0] if option.values else True


def _shown(value: Any) -> str:
    return shorten(str(value))


def _layout(translation: Translation, model: Transformer | None) -> None:
    value, entries = translation.value, translation.entries
    translation.choose("layout.rules", "megatron", "padding of the vocabulary and stages as Megatron has them")
    if value("use_tp_pp_dp_mapping"):
        translation.write("layout.order", ["tp", "cp", "pp", "dp"], "use_tp_pp_dp_mapping")
    if entries.get("layout.tp", 1) > 1:
        split = value("sequence_parallel", False)
        origin = "sequence_parallel" if "sequence_parallel" in translation.document.data else "no --sequence-parallel"
        translation.write("layout.sequence_parallel", split, origin)
    _sharding(translation)
    if model is not None:
        _pipeline(translation, model.layers)


def _sharding(translation: Translation) -> None:
    value = translation.value
    if value("use_torch_fsdp2"):
        translation.write("layout.zero", 3, "use_torch_fsdp2")
        if value("torch_fsdp2_reshard_after_forward") is False:
            translation.write("layout.reshard_after_forward", False, "torch_fsdp2_reshard_after_forward")
    elif value("use_megatron_fsdp"):
        strategy = value("data_parallel_sharding_strategy", "no_shard")
        translation.write("layout.zero", _SHARDED[strategy], f"data_parallel_sharding_strategy {strategy}")
    elif value("use_distributed_optimizer"):
        translation.write("layout.zero", 1, "use_distributed_optimizer")
    else:
        translation.choose("layout.zero", 0, "Megatron's default, without use_distributed_optimizer")
    if value("optimizer_cpu_offload"):
        translation.write("training.optimizer_offload", True, "optimizer_cpu_offload")
    overlap = "none" if not value("overlap_grad_reduce") else "buckets"
    overlap = "prefetch" if value("overlap_grad_reduce") and value("overlap_param_gather") else overlap
    reason = "as overlap_grad_reduce and overlap_param_gather have it; both are off by default"
    translation.choose("training.data_parallel_overlap", overlap, reason)


def _pipeline(translation: Translation, layers: int) -> None:
    value, pp = translation.value, translation.entries.get("layout.pp", 1)
    virtual = value("num_virtual_stages_per_pipeline_rank") or value("virtual_pipeline_model_parallel_size")
    origin = "num_virtual_stages_per_pipeline_rank"
    if virtual is None and (each := value("num_layers_per_virtual_pipeline_stage")) is not None:
        virtual, rest = divmod(layers, pp * each)
        origin = f"{layers} layers / (pp {pp} x num_layers_per_virtual_pipeline_stage {each})"
        if rest:
            translation.refuse("num_layers_per_virtual_pipeline_stage", f"{origin} is not whole")
    write_virtual_stages(translation, virtual or 1, origin)
    if (virtual or 1) > 1 and value("overlap_p2p_comm") is not None:
        sends = "overlapped" if value("overlap_p2p_comm") else "blocking"
        translation.write("schedule.sends", sends, "overlap_p2p_comm")
    ends = (value("decoder_first_pipeline_num_layers"), value("decoder_last_pipeline_num_layers"))
    less = (
        int(value("account_for_embedding_in_pipeline_split", False)),
        int(value("account_for_loss_in_pipeline_split", False)),
    )
    if any(ends) or any(less):
        write_stages(translation, layers, ends, less)


def _machine(translation: Translation) -> int | None:
    each, nodes, world = (translation.value(key) for key in ("nproc_per_node", "nnodes", "world_size"))
    origin = f"world_size {world}"
    if world is None and each is not None:
        world, origin = each * (nodes or 1), f"nproc_per_node {each} x nnodes {nodes or 1}"
    asked = Asked(rank="chip", why="a GPU of the file becomes a chip", ranks=world, origin=origin)
    return place(translation, asked)


def _training(translation: Translation, dp: int | None) -> None:
    translation.due("seq_length", "training.sequence_length")
    micro = translation.due("micro_batch_size", "training.micro_batch")
    if "training.global_batch" not in translation.entries and micro is not None and dp is not None:
        reason = f"Megatron's default: micro_batch_size {micro} x dp {dp:,}"
        translation.choose("training.global_batch", micro * dp, reason)


def _recompute(translation: Translation, model: Transformer | None) -> None:
    granularity = translation.value("recompute_granularity")
    if granularity is None:
        translation.choose("training.recompute", "none", "Megatron's default, without recompute_granularity")
    elif granularity == "full":
        translation.write("training.recompute", "full", "recompute_granularity")
        _part_of_the_layers(translation, model)
    else:
        _modules(translation)


def _part_of_the_layers(translation: Translation, model: Transformer | None) -> None:
    """Say where full recompute is not that of every layer, each alone."""
    method, number = translation.value("recompute_method"), translation.value("recompute_num_layers", 1)
    pp = translation.entries.get("layout.pp", 1)
    if method == "block" and model is not None and number * pp < model.layers:
        what = f"only {number} layers of each stage are recomputed there, all of them here: more time, less memory"
        translation.leave_out("recompute_num_layers", what)
    elif method == "uniform" and number > 1:
        what = f"one checkpoint for {number} layers; here one for each: activations differ"
        translation.leave_out("recompute_num_layers", what)


def _modules(translation: Translation) -> None:
    named = translation.value("recompute_modules", ("core_attn",))
    operators = [operator for name in named for operator in _MODULES.get(name, ())]
    if tuple(named) == ("core_attn",):
        translation.write("training.recompute", "selective", "recompute_granularity")
    else:
        translation.write("training.recompute", operators or "none", "recompute_modules")
    others = [name for name in named if name not in _MODULES]
    if others:
        translation.leave_out(
            "recompute_modules", f"{', '.join(map(shorten, others))} is not an operator of a dense layer"
        )


def _precision(translation: Translation) -> None:
    value = translation.value
    half = "bf16" if value("bf16") else "fp16" if value("fp16") else ""
    if value("fp8"):
        translation.write("training.precision", "fp8", "fp8")
    elif half == "bf16":
        translation.write("training.precision", "bf16", "bf16")
    elif half == "fp16":
        translation.choose("training.precision", "bf16", "fp16 has as many bytes, and runs at the peak of bf16")
    else:
        translation.choose("training.precision", "fp32", "Megatron's default, without bf16 or fp16")
    if half == "fp16" and not value("accumulate_allreduce_grads_in_fp32"):
        reason = "gradients in fp16, as wide, without accumulate_allreduce_grads_in_fp32"
        translation.choose("training.gradient_dtype", "bf16", reason)
    elif value("grad_reduce_in_bf16"):
        translation.write("training.gradient_dtype", "bf16", "grad_reduce_in_bf16")
    else:
        reason = "Megatron sums gradients in fp32 unless told otherwise"
        translation.choose("training.gradient_dtype", "fp32", reason)
