"""From a measured step to the scenario, or the scenarios, that it is compared with. Nothing here sees what was measured."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from trnsim.documents import Document
from trnsim.study.validation.groups import machine_of, model_keys, server_of, training_keys

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnsim.study.measured import MeasuredRow
    from trnsim.study.validation.groups import GroupFile, MachineTable

__all__ = ["UnclearRowError", "scenarios_of"]

_ZERO: Final = (
    ("SHARD_GRAD_OP", {"zero": 3, "reshard_after_forward": False}),
    ("HSDP", {"zero": 3, "zero_group": "server"}),
    ("FSDP", {"zero": 3}),
    ("ZeRO-3", {"zero": 3}),
    ("ZeRO-2", {"zero": 2}),
    ("ZeRO-1", {"zero": 1}),
    ("ZeRO1", {"zero": 1}),
    ("distributed optimizer", {"zero": 1}),
)
_PRECISIONS: Final = (("mxfp8", "mxfp8"), ("fp8", "fp8"), ("bf16", "bf16"), ("fp16", "bf16"))


class UnclearRowError(ValueError):
    """A row that no scenario can be made of, and why."""


def scenarios_of(row: MeasuredRow, group: GroupFile | None) -> tuple[Document, ...]:
    """Return the scenario of a measured step; several, where what is blank is tried.

    Parameters
    ----------
    row
        The row; its metric, value and unit are not looked at.
    group
        What is known of its set.

    Raises
    ------
    UnclearRowError
        If something is missing, does not fit, or is unknown to trnsim.
    """
    if group is None:
        raise UnclearRowError(
            "nothing is known of this set, and its `hardware` is no server of the catalog: machine and software would be guesses"
        )
    machine = machine_of(row, group)
    if machine is None:
        raise UnclearRowError(f"no software family describes {row.hardware or 'a machine without a name'}")
    return tuple(_document(candidate, group, machine) for candidate in _candidates(row, group))


def _candidates(row: MeasuredRow, group: GroupFile) -> Iterator[MeasuredRow]:
    """Yield the row with each combination of what is tried where it leaves the micro-batch open."""
    if row.micro_batch is not None or not group.fastest:
        yield row
        return
    columns = list(group.fastest)
    values = [dict.fromkeys(_tried(row, text) for text in group.fastest[column]) for column in columns]
    for combination in itertools.product(*values):
        candidate = replace(row, **dict(zip(columns, combination, strict=True)))
        if _divides(candidate):
            yield candidate


def _tried(row: MeasuredRow, text: str) -> int:
    """Return a value to try: a number, or `layers / pp`."""
    return (row.layers or 0) // row.pp if text == "layers / pp" else int(text)


def _divides(row: MeasuredRow) -> bool:
    """Say whether the batch splits into microbatches, and those into rounds of an interleaved schedule."""
    batch, replicas = row.global_batch or 0, (row.dp or 1) * (row.micro_batch or 1)
    return batch % replicas == 0 and (row.vpp == 1 or batch // replicas % row.pp == 0)


def _document(row: MeasuredRow, group: GroupFile, machine: MachineTable) -> Document:
    server = server_of(machine.server)
    cores = server.chip.neuron_cores
    per_chip = server.chip.logical_cores(cores.default_lnc) if group.rank == "logical_core" and cores else 1
    accelerators = _due(row.accelerators, "the number of accelerators is")
    _refuse_contradictions(row, accelerators * per_chip)
    servers = -(-accelerators // server.chips)
    model = _model(row, group)
    data: dict[str, Any] = {
        "schema": 1,
        "name": row.id,
        "cluster": {
            "server": machine.server,
            "servers": servers,
            "software": machine.software,
            "allow_idle": True,
            **({"fabric": machine.fabric} if servers > 1 else {}),
        },
        "model": model,
        "training": {
            "sequence_length": _due(row.seq, "the sequence length is"),
            "global_batch": _due(row.global_batch, "the global batch is"),
            "micro_batch": _micro_batch(row),
            "precision": _precision(row),
            "recompute": _recompute(row),
            **training_keys(row, group),
        },
        "layout": {
            "rank": group.rank,
            "tp": row.tp,
            "pp": row.pp,
            "dp": row.dp,
            "sequence_parallel": row.seq_parallel,
            **_sharing(row),
            **(_stages(row) if group.ends_count else {}),
            **group.layout,
        },
        "schedule": {
            **({"kind": "interleaved-1f1b", "virtual_stages": row.vpp} if row.vpp > 1 else {}),
            **(group.schedule if row.pp > 1 else {}),
        },
        "collectives": machine.collectives,
        "run": {"steps": 1},
    }
    return Document(row.id, Path(f"{row.id}.yaml"), data)


def _sharing(row: MeasuredRow) -> dict[str, Any]:
    """Return what data-parallel ranks share, and how many of them, as `ZeRO-1 over 8`."""
    keys: dict[str, Any] = next((dict(keys) for word, keys in _ZERO if word in row.zero_fsdp), {"zero": 0})
    group = re.search(r" over (\d+)$", row.zero_fsdp)
    return {**keys, "zero_group": int(group[1])} if group else keys


def _stages(row: MeasuredRow) -> dict[str, Any]:
    """Return the layers of each virtual stage, of which the ends have one less, where that is how they divide."""
    layers, parts = row.layers or 0, row.pp * row.vpp
    if parts < 2 or layers % parts == 0 or (layers + 2) % parts:
        return {}
    each = (layers + 2) // parts
    return {"stages": [each - 1, *[each] * (parts - 2), each - 1]}


def _refuse_contradictions(row: MeasuredRow, ranks: int) -> None:
    if row.cp > 1:
        raise UnclearRowError("context parallelism is not modelled yet")
    if row.ep > 1:
        raise UnclearRowError("expert parallelism is not modelled yet")
    degrees = row.tp * row.pp * row.cp * _due(row.dp, "the degrees are")
    if degrees != ranks:
        text = f"tp {row.tp} x pp {row.pp} x dp {row.dp} = {degrees:,}"
        raise UnclearRowError(f"degrees do not multiply to the accelerators: {text} of {ranks:,}")


def _model(row: MeasuredRow, group: GroupFile) -> str | dict[str, Any]:
    if group.models:
        if row.model not in group.models:
            raise UnclearRowError(f"{row.model} is not a decoder that trnsim knows the shape of")
        return group.models[row.model]
    hidden, heads = _due(row.hidden, "the hidden size is"), _due(row.heads, "the attention heads are")
    further = model_keys(row, group)
    if hidden % heads and "head_dim" not in further:
        raise UnclearRowError(f"a hidden size of {hidden} does not divide into {heads} heads")
    return {
        "name": row.model,
        "layers": _due(row.layers, "the layers are"),
        "hidden_size": hidden,
        "attention_heads": heads,
        "kv_heads": _due(row.kv_heads, "the key and value heads are"),
        "head_dim": hidden // heads,
        "ffn_size": _due(row.ffn, "the width of the MLP is"),
        "vocabulary": _due(row.vocab, "the vocabulary is"),
        **({"learned_positions": row.seq} if group.positions == "learned" else {}),
        **further,
    }


def _micro_batch(row: MeasuredRow) -> int:
    """Return the micro-batch, from the number of microbatches where that is what is stated."""
    if row.micro_batch:
        return row.micro_batch
    if row.grad_accum and row.dp and row.global_batch:
        return row.global_batch // (row.grad_accum * row.dp)
    raise UnclearRowError("the micro-batch is not stated")


def _precision(row: MeasuredRow) -> str:
    """Return the number format; fp16 has the peak of bf16."""
    word = row.precision.casefold()
    found = next((precision for text, precision in _PRECISIONS if text in word), None)
    if found is None:
        raise UnclearRowError(f"the precision {row.precision or '(blank)'} is not modelled")
    return found


def _recompute(row: MeasuredRow) -> str:
    word = row.recompute.casefold().partition(" ")[0]
    if word not in {"none", "selective", "full"}:
        raise UnclearRowError(f"the recompute mode {row.recompute or '(blank)'} is not understood")
    return word


def _due(value: int | None, what: str) -> int:
    if value is None:
        raise UnclearRowError(f"{what} not stated")
    return value
