"""One chip: what it computes, holds and moves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trnsim.hardware.sourced import Sourced

__all__ = ["Chip"]


@dataclass(frozen=True, slots=True)
class Chip:
    """A chip of the catalog.

    Parameters
    ----------
    name
        Name in the catalog, with its variant: ``trainium2``, ``trainium2@nki-guide``.
    neuron_cores
        Physical NeuronCores. >= 1.
    lnc
        Logical NeuronCore configurations it allows: physical cores per logical core.
    default_lnc
        The one that AWS's software takes by default.
    peak_flops_per_s
        Dense peak of the whole chip as AWS prints it, by dtype: ``bf16``, ``fp8``, ``fp32``.
    tensor_engine_flops_per_s
        Dense peak of its tensor engines alone, by dtype: ``bf16``, ``fp8``.
    memory_bytes
        HBM of the chip.
    memory_bandwidth_bytes_per_s
        Of the HBM, read and write together.
    usable_memory_fraction
        Share of the HBM that a training job can fill.
    core_link_bandwidth_bytes_per_s
        Between two logical cores of the chip at the default LNC, per direction, as achieved.
    core_link_latency_s
        Of one step of a collective between two logical cores of the chip.
    software_family
        Name of the family that describes it by default.
    basis
        Sources of the fields above that are plain numbers, by field.
    facts
        Further published facts, for people; nothing computes with them.
    variants
        Variants that its file declares, and why each exists.
    notes
        What a reader of the numbers should know.
    """

    name: str
    neuron_cores: int
    lnc: tuple[int, ...]
    default_lnc: int
    peak_flops_per_s: Mapping[str, Sourced[float]]
    tensor_engine_flops_per_s: Mapping[str, Sourced[float]]
    memory_bytes: Sourced[int]
    memory_bandwidth_bytes_per_s: Sourced[float]
    usable_memory_fraction: Sourced[float]
    core_link_bandwidth_bytes_per_s: Sourced[float]
    core_link_latency_s: Sourced[float]
    software_family: str
    basis: Mapping[str, Sourced[Any]]
    facts: Mapping[str, Sourced[Any]]
    variants: Mapping[str, str]
    notes: tuple[str, ...] = ()

    def core_link_bytes_per_s(self, logical_cores: int) -> float:
        """Return what two logical cores exchange, per direction, when the chip is divided into so many.

        A logical core of half as many physical ones has half the DMA engines.

        Parameters
        ----------
        logical_cores
            >= 1.
        """
        physical = self.neuron_cores / logical_cores
        return self.core_link_bandwidth_bytes_per_s.value * physical / self.default_lnc

    def logical_cores(self, lnc: int) -> int:
        """Return the logical NeuronCores of the chip.

        Parameters
        ----------
        lnc
            Physical cores per logical core; one of `self.lnc`.

        Raises
        ------
        ValueError
            If the chip does not allow that configuration.

        Examples
        --------
        >>> from trnsim.hardware import load_chip
        >>> load_chip("trainium2").logical_cores(2)
        4
        """
        if lnc not in self.lnc:
            raise ValueError(f"{self.name} allows LNC {' or '.join(map(str, self.lnc))}, not {lnc}")
        return self.neuron_cores // lnc
