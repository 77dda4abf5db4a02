"""One chip: what it computes, holds and moves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trnsim.record import Record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trnsim.hardware.sourced import Sourced

__all__ = ["Chip", "NeuronCores"]


class NeuronCores(Record):
    """The cores of a Trainium chip, of which one or several are shown as one logical core.

    Parameters
    ----------
    count
        Physical NeuronCores of the chip. >= 1.
    lnc
        Logical NeuronCore configurations it allows: physical cores per logical core.
    default_lnc
        The one that AWS's software takes by default.
    link_bandwidth_bytes_per_s
        Between two logical cores of the chip at the default LNC, per direction, as achieved.
    link_latency_s
        Of one step of a collective between two logical cores of the chip.
    basis
        Sources of the fields above that are plain numbers, by field.
    """

    count: int
    lnc: tuple[int, ...]
    default_lnc: int
    link_bandwidth_bytes_per_s: Sourced[float]
    link_latency_s: Sourced[float]
    basis: Mapping[str, Sourced[Any]]

    def link_bytes_per_s(self, logical_cores: int) -> float:
        """Return what two logical cores exchange, per direction, when the chip is divided into so many.

        A logical core of half as many physical ones has half the DMA engines.

        Parameters
        ----------
        logical_cores
            >= 1.
        """
        return self.link_bandwidth_bytes_per_s.value * self.count / logical_cores / self.default_lnc


class Chip(Record):
    """A chip of the catalog.

    Parameters
    ----------
    name
        Name in the catalog, with its variant: ``trainium2``, ``trainium2@nki-guide``.
    maker
        Who prints its datasheet: ``AWS``, ``NVIDIA``, ``Google``.
    neuron_cores
        Its cores, if it is a Trainium chip; None for a chip that is always one rank.
    peak_flops_per_s
        Dense peak of the whole chip as its maker prints it, by dtype: ``bf16``, ``fp8``, ``fp32``.
    tensor_engine_flops_per_s
        Dense peak of its tensor engines alone, by dtype: ``bf16``, ``fp8``; empty where it is not printed apart.
    memory_bytes
        HBM of the chip.
    memory_bandwidth_bytes_per_s
        Of the HBM, read and write together.
    usable_memory_fraction
        Share of the HBM that a training job can fill.
    software_family
        Name of the family that describes it by default.
    facts
        Further published facts, for people; nothing computes with them.
    variants
        Variants that its file declares, and why each exists.
    notes
        What a reader of the numbers should know.
    """

    name: str
    maker: str
    neuron_cores: NeuronCores | None
    peak_flops_per_s: Mapping[str, Sourced[float]]
    tensor_engine_flops_per_s: Mapping[str, Sourced[float]]
    memory_bytes: Sourced[int]
    memory_bandwidth_bytes_per_s: Sourced[float]
    usable_memory_fraction: Sourced[float]
    software_family: str
    facts: Mapping[str, Sourced[Any]]
    variants: Mapping[str, str]
    notes: tuple[str, ...] = ()

    def logical_cores(self, lnc: int | None) -> int:
        """Return the logical cores of the chip; a chip without NeuronCores counts as one.

        Parameters
        ----------
        lnc
            Physical cores per logical core, one of those that it allows; None for a chip without NeuronCores.

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
        cores = self.neuron_cores
        if cores is None and lnc is None:
            return 1
        if cores is None or lnc is None or lnc not in cores.lnc:
            allowed = f"LNC {' or '.join(map(str, cores.lnc))}" if cores else "no LNC"
            raise ValueError(f"{self.name} allows {allowed}, not {lnc}")
        return cores.count // lnc
