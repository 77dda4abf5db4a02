"""One server: the chips of a scale-up domain, how they are joined, and its way out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from trnsim.record import Record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trnsim.hardware.chip import Chip
    from trnsim.hardware.sourced import Sourced

__all__ = [
    "InstanceUse",
    "LinkClass",
    "NoScaleUp",
    "ScaleUp",
    "Server",
    "StarScaleUp",
    "SwitchedScaleUp",
    "TorusScaleUp",
]


class LinkClass(Record):
    """All links of one kind.

    Parameters
    ----------
    kind
        Name of the class: ``neuronlink-xy``, ``rack-switch``, ``nvlink``, ``efa``.
    bandwidth_bytes_per_s
        Datasheet bandwidth of one link in one direction.
    latency_s
        Time the first byte takes over one link; for scale-out over the whole path from HBM to HBM.
    achieved_fraction
        Share of the datasheet bandwidth that large messages reach. Above 0, at most 1.
    """

    kind: str
    bandwidth_bytes_per_s: Sourced[float]
    latency_s: Sourced[float]
    achieved_fraction: Sourced[float]

    @property
    def effective_bytes_per_s(self) -> float:
        """Datasheet bandwidth times achieved fraction: what a fabric prices bytes with."""
        return self.bandwidth_bytes_per_s.value * self.achieved_fraction.value


class TorusScaleUp(Record):
    """Chips on a torus: a ring along each axis.

    Parameters
    ----------
    dims
        Chips along each axis, the first axis fastest: chip = x + X y + X Y z.
    links
        Class of the links along each axis.
    """

    dims: tuple[int, ...]
    links: tuple[LinkClass, ...]


class SwitchedScaleUp(Record):
    """Chips under two levels of switches, in racks whose twins are joined directly.

    A chip has one (aggregated) link to the switch of its sled, one to the switch of its rack, and a direct one to the
    chip of equal place in the other rack. Chips are numbered rack after rack, sled after sled.

    Parameters
    ----------
    sled_size, rack_size
        Chips of a sled; chips of a rack, a multiple of that.
    sled, rack, cross
        Classes of the three links.
    """

    sled_size: int
    rack_size: int
    sled: LinkClass
    rack: LinkClass
    cross: LinkClass


class StarScaleUp(Record):
    """Chips on one switch, to which each has one link.

    Parallel switches over which a chip spreads its bytes (NVSwitches) are one, and its cables to them one link.

    Parameters
    ----------
    switch
        Class of the link between a chip and the switch.
    """

    switch: LinkClass


class NoScaleUp(Record):
    """A server of one chip."""


ScaleUp: TypeAlias = TorusScaleUp | SwitchedScaleUp | StarScaleUp | NoScaleUp


class InstanceUse(Record):
    """How much of one host (an EC2 instance) a job may use.

    Parameters
    ----------
    unit
        What is counted: whole chips, or physical NeuronCores.
    allowed
        Counts that are supported, ascending.
    reported
        Further counts that are reported to work.
    """

    unit: Literal["chip", "neuron_core"]
    allowed: tuple[int, ...]
    reported: tuple[int, ...]


class Server(Record):
    """A server of the catalog: the scale-up domain of a scenario, an instance or an UltraServer.

    Parameters
    ----------
    name
        Name in the catalog, with its variant: ``trn3-gen2-ultraserver@pessimistic``.
    chip
        Its chip.
    chips
        Chips of the server. >= 1.
    chips_per_host
        Chips under one host: an EC2 instance; on Trn3 Gen2 a sled; of GPUs a node. Divides `chips`.
    instance_use
        Restriction on the use of one host; None where none is known.
    scale_up
        How the chips are joined.
    scale_out
        Link of each chip to the network between servers, its share of the host's NICs; None for a server that cannot be one of several.
    host_bandwidth_bytes_per_s
        Between the memory of the host and each chip, in one direction; None where it is not known.
    ring_chip_order
        Order in which NxD fills the chips of the server where its tensor-parallel groups are to close into rings, a
        permutation of all chips; None where it counts upward.
    basis
        Sources of the values above that are plain numbers, by field.
    facts
        Further published facts, for people; nothing computes with them.
    variants
        Variants that its file declares, and why each exists.
    notes
        What a reader of the numbers should know.
    """

    name: str
    chip: Chip
    chips: int
    chips_per_host: int
    instance_use: InstanceUse | None
    scale_up: ScaleUp
    scale_out: LinkClass | None
    host_bandwidth_bytes_per_s: Sourced[float] | None
    ring_chip_order: tuple[int, ...] | None
    basis: Mapping[str, Sourced[Any]]
    facts: Mapping[str, Sourced[Any]]
    variants: Mapping[str, str]
    notes: tuple[str, ...] = ()

    @property
    def hosts(self) -> int:
        """Hosts of the server."""
        return self.chips // self.chips_per_host
