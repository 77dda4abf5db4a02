"""How fast one rank works: datasheet peaks and what a software family makes of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from trnsim.record import Record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trnsim.workload import Work

HOST_OVERLAP_EXPONENT = 3.0  # q of the smooth maximum; pinned in the fit of Megatron-LM on A100, vTrain rows


class Rates(Record):
    """What one rank does in a second.

    Parameters
    ----------
    peak_flops_per_s
        Dense peak of the run's dtype for the share of the chip that the rank has. > 0.
    memory_bandwidth_bytes_per_s
        HBM bandwidth of that share. > 0.
    gemm_efficiency
        Share of the peak that matrix multiplications reach. 0 < e <= 1.
    memory_efficiency
        Share of the HBM bandwidth that is reached. 0 < e <= 1.
    flop_time_ratio
        Time of a FLOP of an operator over that of a matrix multiplication at `peak_flops_per_s`, by the operator's
        name; 1 where it is not named. > 0.
    gradient_flop_time_ratio
        The same for backward passes, of operators where it is another.
    byte_term
        How HBM bytes count beside FLOPs: ``add`` to each operator; ``max`` with each operator;
        ``hidden`` behind the matrix multiplications of the block, charged only where the bytes of a
        whole block take longer than its FLOPs.
    host_layer_s, host_pass_s
        Host time to launch one layer pass and one stage pass; 0 for static graphs.
    collective_skew_s
        Time that the ranks of an all-reduce lose to each other, per doubling of the group.
    scale_skew_fraction
        Share by which every stage pass is longer at the scale of the run.
    interference_fraction
        Share of its time by which a data-parallel collective slows the pass that it goes on beside.

    References
    ----------
    Williams, Waterman and Patterson, Roofline, CACM 52(4), 2009, doi:10.1145/1498765.1498785, for ``max``.
    """

    peak_flops_per_s: float
    memory_bandwidth_bytes_per_s: float
    gemm_efficiency: float
    memory_efficiency: float
    flop_time_ratio: Mapping[str, float]
    byte_term: Literal["add", "hidden", "max"]
    host_layer_s: float
    host_pass_s: float
    collective_skew_s: float
    scale_skew_fraction: float
    interference_fraction: float = 0.0
    gradient_flop_time_ratio: Mapping[str, float] = {}

    @property
    def of_gradients(self) -> Rates:
        """Return the rates of a backward pass, whose kernels may be slower."""
        return replace(self, flop_time_ratio={**self.flop_time_ratio, **self.gradient_flop_time_ratio})

    def at_speed(self, speed: float) -> Rates:
        """Return the rates of a chip that does everything itself at a share of this speed; the host is not slower."""
        return (
            self
            if speed == 1
            else replace(
                self,
                peak_flops_per_s=self.peak_flops_per_s * speed,
                memory_bandwidth_bytes_per_s=self.memory_bandwidth_bytes_per_s * speed,
            )
        )

    @property
    def matmul_flops_per_s(self) -> float:
        """What matrix multiplications reach."""
        return self.peak_flops_per_s * self.gemm_efficiency

    def flops_s(self, work: Sequence[Work]) -> float:
        """Time of the FLOPs of operators, their bytes apart."""
        ratio = self.flop_time_ratio
        return sum(operator.flops * ratio.get(operator.name, 1.0) for operator in work) / self.matmul_flops_per_s

    def memory_s(self, size_bytes: float) -> float:
        """Time to move bytes to or from HBM."""
        return size_bytes / (self.memory_bandwidth_bytes_per_s * self.memory_efficiency)

    def work_s(self, work: Sequence[Work]) -> float:
        """Time of operators that run one after the other.

        With ``hidden`` it is the time of the FLOPs alone; see `exposed_memory_s`.
        """
        if self.byte_term == "hidden":
            return self.flops_s(work)
        combine = max if self.byte_term == "max" else _add
        return sum(combine(self.flops_s([operator]), self.memory_s(operator.bytes)) for operator in work)

    def exposed_memory_s(self, work: Sequence[Work]) -> float:
        """Time by which the bytes of a block outlast its FLOPs, when bytes are hidden; else 0."""
        if self.byte_term != "hidden":
            return 0.0
        return max(0.0, self.memory_s(sum(operator.bytes for operator in work)) - self.flops_s(work))

    def host_stretch(self, device_s: float, host_s: float) -> float:
        r"""Ratio by which host launch time lengthens a pass.

        .. math:: (H^q + G^q)^{1/q} / G, \quad q = 3

        Parameters
        ----------
        device_s
            :math:`G`, uncontended device time of the pass. > 0 unless `host_s` is 0.
        host_s
            :math:`H`, time the host needs to launch it.

        Examples
        --------
        >>> rates = Rates(1.0, 1.0, 1.0, 1.0, {}, "add", 0.0, 0.0, 0.0, 0.0)
        >>> rates.host_stretch(1.0, 0.0), round(rates.host_stretch(1.0, 1.0), 4)
        (1.0, 1.2599)
        """
        if host_s == 0.0:
            return 1.0
        ratio: float = 1.0 + (host_s / device_s) ** HOST_OVERLAP_EXPONENT
        return math.pow(ratio, 1 / HOST_OVERLAP_EXPONENT)


def _add(first: float, second: float) -> float:
    return first + second
