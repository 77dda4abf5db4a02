"""From measured rows to measured steps: rows that differ only in metric are one measurement."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from trnsim.record import Record
from trnsim.study.measured import MeasuredRow
from trnsim.study.validation.groups import machine_of, model_keys, server_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from trnsim.study.validation.groups import GroupFile

__all__ = ["Measurement", "Skipped", "measurements", "set_of", "time_s"]

_OF_THE_NUMBER: Final = {"id", "metric", "value", "unit", "split", "skipped", "line"}
_CONFIGURATION: Final = tuple(name for name in MeasuredRow.__struct_fields__ if name not in _OF_THE_NUMBER)

_SECONDS: Final = {"s": 1.0, "ms": 1e-3}
_METRICS: Final = (
    ("iteration_time", "step_time", "train_step_time_median"),
    ("throughput", "throughput_per_gpu", "throughput_per_chip"),
    (
        "achieved_tflops_per_gpu",
        "achieved_tflops_per_chip",
        "achieved_model_tflops_per_gpu",
        "achieved_hw_tflops_per_gpu",
    ),
    ("mfu", "MFU_reported"),
)
"""Metrics that tell the time of a step, the most direct first."""


class Measurement(Record):
    """One measured step.

    Parameters
    ----------
    row
        The row from which its time was taken.
    time_s
        The time.
    """

    row: MeasuredRow
    time_s: float


class Skipped(Record):
    """A measurement, or a row of another metric, that is not compared.

    Parameters
    ----------
    row
        The row.
    reason
        Why.
    is_step
        Whether it tells the time of a step.
    """

    row: MeasuredRow
    reason: str
    is_step: bool


def measurements(
    rows: Iterable[MeasuredRow], known: Mapping[str, GroupFile]
) -> tuple[tuple[Measurement, ...], tuple[Skipped, ...]]:
    """Find the measured steps of tables.

    Returns
    -------
    tuple of Measurement, tuple of Skipped
        In the order of the rows.
    """
    found: list[Measurement] = []
    skipped: list[Skipped] = []
    for same in _together(rows):
        usable = {row.metric: row for row in same if not row.skipped}
        chosen = _chosen(usable)
        if chosen is None:
            skipped += _unusable(same)
            continue
        time = time_s(chosen, known.get(set_of(chosen)))
        if isinstance(time, str):
            skipped.append(Skipped(chosen, time, is_step=True))
        else:
            found.append(Measurement(chosen, time))
    return _newest(found, skipped, known)


def set_of(row: MeasuredRow) -> str:
    """Return the set whose file holds for a row: the part of its group before a slash."""
    return row.group.partition("/")[0]


def _together(rows: Iterable[MeasuredRow]) -> Iterator[tuple[MeasuredRow, ...]]:
    """Yield the rows of each measurement; a metric that comes twice begins another one."""
    open_ones: dict[tuple[object, ...], list[list[MeasuredRow]]] = {}
    for row in rows:
        same = open_ones.setdefault(tuple(getattr(row, name) for name in _CONFIGURATION), [])
        place = next((one for one in same if row.metric not in {other.metric for other in one}), None)
        if place is None:
            same.append([row])
        else:
            place.append(row)
    for same in open_ones.values():
        yield from map(tuple, same)


def _chosen(usable: Mapping[str, MeasuredRow]) -> MeasuredRow | None:
    return next((usable[metric] for alike in _METRICS for metric in alike if metric in usable), None)


def _unusable(same: Iterable[MeasuredRow]) -> Iterator[Skipped]:
    """Yield why a measurement has no time, once, and what else is told beside it."""
    steps = [row for row in same if _is_step(row)]
    yield from (Skipped(row, row.skipped, is_step=True) for row in steps[:1])
    for row in same:
        if not _is_step(row):
            yield Skipped(row, row.skipped or f"{row.metric} is not the time of a step", is_step=False)


def _is_step(row: MeasuredRow) -> bool:
    return any(row.metric in alike for alike in _METRICS)


def time_s(row: MeasuredRow, group: GroupFile | None) -> float | str:
    """Return the time of the step that a row tells, or why it cannot be told."""
    if row.value <= 0:
        return f"a {row.metric} of {row.value:g} is no measurement"
    family = next(number for number, alike in enumerate(_METRICS) if row.metric in alike)
    convert = (_of_time, _of_throughput, _of_flop_rate, _of_utilization)[family]
    return convert(row, group)


def _of_time(row: MeasuredRow, _: GroupFile | None) -> float | str:
    scale = _SECONDS.get(row.unit)
    return _unknown_unit(row, " or ".join(_SECONDS)) if scale is None else row.value * scale


def _of_throughput(row: MeasuredRow, _: GroupFile | None) -> float | str:
    match = re.fullmatch(r"(k )?(tokens|seq|sequences|samples)/s(/GPU|/chip)?( \(whole system\))?", row.unit)
    if match is None:
        return _unknown_unit(row, "tokens/s, seq/s, tokens/s/GPU")
    amount = row.global_batch
    per_step = amount and (amount * (row.seq or 0) if match[2] == "tokens" else amount)
    devices = row.accelerators if match[3] else 1
    if not per_step or not devices:
        return "the batch, the sequence or the number of accelerators is not stated"
    return per_step / (row.value * devices * (1000 if match[1] else 1))


def _of_flop_rate(row: MeasuredRow, group: GroupFile | None) -> float | str:
    if not row.unit.startswith("TFLOP/s"):
        return _unknown_unit(row, "TFLOP/s")
    with_recompute = row.metric == "achieved_hw_tflops_per_gpu"
    rule = group and (group.hardware_flops if with_recompute else group.model_flops)
    flops = rule and group and _RULES[rule](row, group, with_recompute)
    if not flops or not row.accelerators:
        return f"the rule by which {row.metric} counts FLOPs is not stated, or what it needs"
    return flops / (row.value * 1e12 * row.accelerators)


def _of_utilization(row: MeasuredRow, group: GroupFile | None) -> float | str:
    if not row.unit.startswith("%"):
        return _unknown_unit(row, "%")
    machine = None if group is None else machine_of(row, group)
    flops = group and group.model_flops and _RULES[group.model_flops](row, group, False)
    if not flops or machine is None or not row.accelerators:
        return "the rule by which its MFU counts FLOPs is not stated, or what it needs"
    peak_flops_per_s = server_of(machine.server).chip.peak_flops_per_s["bf16"].value
    return flops / (row.value / 100 * peak_flops_per_s * row.accelerators)


def _unknown_unit(row: MeasuredRow, due: str) -> str:
    return f"the unit {row.unit or '(blank)'} of {row.metric} is not understood; {due} is due"


def _megatron_flops(row: MeasuredRow, _: GroupFile, with_recompute: bool) -> float | None:
    """FLOPs of a step: equation 3 of Narayanan et al. (SC21), its last term a third of what it says without recompute."""
    sizes = (row.global_batch, row.seq, row.layers, row.hidden, row.vocab)
    if None in sizes:
        return None
    batch, sequence, layers, hidden, vocabulary = (float(size or 0) for size in sizes)
    head = vocabulary / ((16 if with_recompute else 12) * layers * hidden)
    return (96 if with_recompute else 72) * batch * sequence * layers * hidden**2 * (1 + sequence / (6 * hidden) + head)


def _palm_flops(row: MeasuredRow, group: GroupFile, with_recompute: bool) -> float | None:
    """FLOPs of a step: 6 for each parameter of a matrix and token, and attention in full (PaLM, appendix B)."""
    del with_recompute
    sizes = (row.global_batch, row.seq, row.layers, row.hidden, row.vocab, row.ffn, row.heads, row.kv_heads)
    if None in sizes:
        return None
    batch, sequence, layers, hidden, vocabulary, ffn, heads, kv_heads = (float(size or 0) for size in sizes)
    further = model_keys(row, group)
    width = heads * float(further.get("head_dim", hidden / heads))
    attention = 2 * hidden * width * (1 + kv_heads / heads)
    mlp = (2 if further.get("gated_mlp") is False else 3) * hidden * ffn
    parameters = layers * (attention + mlp) + vocabulary * hidden
    return batch * sequence * (6 * parameters + 12 * layers * width * sequence)


_RULES: Final[dict[str, Callable[[MeasuredRow, GroupFile, bool], float | None]]] = {
    "megatron": _megatron_flops,
    "palm": _palm_flops,
}


def _newest(
    found: list[Measurement], skipped: list[Skipped], known: Mapping[str, GroupFile]
) -> tuple[tuple[Measurement, ...], tuple[Skipped, ...]]:
    """Keep the newest software's measurement of each configuration, where a set asks for that."""
    best: dict[tuple[object, ...], Measurement] = {}
    for one in found:
        key = _configuration(one.row, known)
        if key and (key not in best or _release(one.row) > _release(best[key].row)):
            best[key] = one
    kept = [one for one in found if _configuration(one.row, known) is None or one in best.values()]
    older = [one for one in found if one not in kept]
    why = "an older release of its software; the newest counts"
    moved = [replace(one.row, group=f"{one.row.group}/older") for one in older]
    return tuple(kept), (*skipped, *(Skipped(row, why, is_step=True) for row in moved))


def _configuration(row: MeasuredRow, known: Mapping[str, GroupFile]) -> tuple[object, ...] | None:
    group = known.get(row.group)
    return (row.group, *(getattr(row, name) for name in group.newest_of)) if group and group.newest_of else None


def _release(row: MeasuredRow) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", row.software))
