"""One software family: what was fitted to measured steps of a chip and its software."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from trnsim.record import Record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trnsim.hardware.sourced import Sourced

__all__ = ["FITTABLE", "REGIMES", "SoftwareFamily"]

REGIMES: Final = ("near the memory limit", "host-bound", "large, compute-bound", "general")
"""Kinds of step whose errors differ; a step belongs to the first that fits."""

FITTABLE: Final = {
    "gemm_efficiency": "gemm_efficiency",
    "attention_time_ratio": "attention_time_ratio",
    "attention_backward_ratio": "attention_backward_ratio",
    "memory_efficiency": "memory_efficiency",
    "host_layer": "host_layer_s",
    "host_pass": "host_pass_s",
    "collective_skew": "collective_skew_s",
    "scale_skew_fraction": "scale_skew_fraction",
    "interference_fraction": "interference_fraction",
}
"""Keys of a family's file that a fit can change, and the fields that they become."""


class SoftwareFamily(Record):
    """The fitted constants of a chip with its training software.

    Parameters
    ----------
    name
        Name in the catalog: ``neuron-trn2``.
    chips
        Names of the chips it describes.
    gemm_efficiency
        Share of the chip's printed dense peak that matrix products reach. Above 0, at most 1.
    attention_time_ratio
        Time of a FLOP of core attention over that of another matrix product, the full square of scores counted: above
        1 where the kernel is slower, below 1 where it skips the masked half. > 0.
    attention_backward_ratio
        Time of a FLOP of core attention in the backward pass over that in the forward pass. None where none is known: 1.
    memory_efficiency
        Share of the HBM bandwidth that other operators reach. Above 0, at most 1.
    byte_term
        How the time of HBM traffic counts beside that of the FLOPs: ``add``, ``hidden``, or ``max`` of both.
    host_layer_s
        Host time to launch one layer of a pass; 0 for static graphs.
    host_pass_s
        Host time to launch one pass of a microbatch through a stage; 0 for static graphs.
    collective_skew_s
        Skew of the ranks: each collective of a training step takes this times log2 of its group longer.
    scale_skew_fraction
        j of the factor 1 + j log2(hosts) on every stage pass.
    scale_skew_over
        What is counted there: ``hosts``, or ``servers`` where the chips of one keep in step by themselves.
    interference_fraction
        Share of its time by which a data-parallel collective slows the pass that it goes on beside: it takes cores and
        memory bandwidth from it. None where no slowing is known.
    data_parallel_overlap
        What hides behind the backward pass: ``none`` of the gradient reduction, or its ``buckets``.
    recompute_fitted
        Recompute mode under which the constants were fitted: ``none``, ``selective``, ``full``.
    measured_rows
        Measured steps behind the fit.
    errors
        Mean absolute error of step time by regime, of `REGIMES`, on rows outside the fit where there are any; those that
        were not measured are not in it.
    fitted
        Keys of its file, of `FITTABLE`, that were fitted to measured steps.
    basis
        Sources of the fields above that are plain, by field.
    variants
        Variants that its file declares, and why each exists.
    notes
        What a reader of the numbers should know.
    """

    name: str
    chips: tuple[str, ...]
    gemm_efficiency: Sourced[float]
    attention_time_ratio: Sourced[float]
    attention_backward_ratio: Sourced[float] | None
    memory_efficiency: Sourced[float]
    byte_term: Literal["add", "hidden", "max"]
    host_layer_s: Sourced[float]
    host_pass_s: Sourced[float]
    collective_skew_s: Sourced[float]
    scale_skew_fraction: Sourced[float]
    scale_skew_over: Literal["hosts", "servers"]
    interference_fraction: Sourced[float] | None
    data_parallel_overlap: Literal["none", "buckets"]
    recompute_fitted: Literal["none", "selective", "full"]
    measured_rows: int
    errors: Mapping[str, Sourced[float]]
    fitted: tuple[str, ...]
    basis: Mapping[str, Sourced[Any]]
    variants: Mapping[str, str]
    notes: tuple[str, ...] = ()
