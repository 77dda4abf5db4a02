"""The tables of a result and their columns, each declared once: the frames, the CSV files and the docs follow."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from trnsim.record import Record

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["TABLES", "Column"]


class Column(Record):
    """One column of a table.

    Parameters
    ----------
    name
        Name; a physical quantity carries its unit.
    dtype
        pandas dtype.
    unit
        Unit, or ``""`` for text and counts.
    meaning
        One line of explanation.
    """

    name: str
    dtype: Literal["string", "int64", "float64"]
    unit: str
    meaning: str


def _text(name: str, meaning: str) -> Column:
    return Column(name, "string", "", meaning)


def _count(name: str, meaning: str, unit: str = "") -> Column:
    return Column(name, "int64", unit, meaning)


def _number(name: str, unit: str, meaning: str) -> Column:
    return Column(name, "float64", unit, meaning)


TABLES: Mapping[str, tuple[Column, ...]] = MappingProxyType(
    {
        "step": (
            _text("scenario", "name of the scenario"),
            _text("model", "name of the model"),
            _text("server", "catalog name of the server"),
            _count("servers", "servers of the cluster"),
            _count("chips", "chips reserved"),
            _count("ranks", "ranks that run on them"),
            _number("time_s", "s", "step time"),
            _number("first_step_time_s", "s", "time of the first step"),
            _count("tokens", "tokens of one step over the whole cluster"),
            _number("tokens_per_s", "1/s", "throughput of the whole cluster"),
            _number("tokens_per_s_per_chip", "1/s", "throughput over chips reserved"),
            _number("sequences_per_s", "1/s", "throughput of the whole cluster in sequences"),
            _number("mfu", "fraction", "model FLOPs utilization"),
            _number("mfu_causal", "fraction", "the same with half of the attention scores"),
            _number("hfu", "fraction", "the same with recompute counted"),
            _number("peak_flops_per_s_per_chip", "FLOP/s", "peak that the utilizations are measured against"),
        ),
        "breakdown": (
            _text("part", "part of the step of the rank that finishes last"),
            _number("time_s", "s", "time of the part"),
            _number("fraction", "fraction", "share of the step time"),
        ),
        "waterfall": (
            _text("name", "what is lost on the way from peak to achieved"),
            _number("loss_fraction", "fraction", "loss, as a share of the peak"),
            _number("left_fraction", "fraction", "share of the peak that is left after it"),
        ),
        "memory": (
            _text("term", "what the memory of the worst rank holds"),
            _count("bytes", "size of the term", "B"),
            _number("limit_fraction", "fraction", "share of what a rank may use"),
        ),
        "stages": (
            _count("stage", "position in the pipeline, from 0"),
            _count("layers", "layers that it holds"),
            _count("parameters", "parameters on one of its ranks"),
            _number("forward_s", "s", "forward pass of one microbatch"),
            _number("backward_s", "s", "backward pass of one microbatch, with recompute"),
            _count("in_flight", "most passes whose activations are held at once"),
            _count("weights_bytes", "weights of one rank", "B"),
            _count("gradients_bytes", "gradients of one rank", "B"),
            _count("optimizer_bytes", "optimizer state of one rank", "B"),
            _count("activations_bytes", "activations of one rank at their peak", "B"),
            _count("communication_bytes", "gathered weights and gradients on their way, of one rank at its peak", "B"),
            _count("buffers_bytes", "what one rank needs for a moment", "B"),
        ),
        "collectives": (
            _text("name", "what the collective is for"),
            _text("op", "operation"),
            _text("axis", "mesh axis of its group"),
            _text("algorithm", "how it is done"),
            _count("group_size", "members of the group"),
            _count("bytes", "larger of one rank's input and output buffer", "B"),
            _count("count", "times per step"),
            _number("time_s", "s", "time of one, alone"),
            _number("algbw_bytes_per_s", "B/s", "bytes over time"),
            _number("busbw_bytes_per_s", "B/s", "the same times the bus factor of the operation"),
            _number("exposed_s", "s", "time per step that a rank waits for it with nothing to compute"),
        ),
        "links": (
            _text("name", "links, busiest first"),
            _text("kind", "kind of the links"),
            _count("count", "links of the cluster, one per direction"),
            _count("bytes", "bytes of one step over all of them", "B"),
            _number("utilization_fraction", "fraction", "bytes over what they could carry in the step time"),
        ),
        "tiers": (
            _text("axis", "mesh axis"),
            _count("size", "ranks along the axis"),
            _text("kinds", "kinds of links that its groups cross"),
        ),
    }
)
"""Columns of every table by its name."""
