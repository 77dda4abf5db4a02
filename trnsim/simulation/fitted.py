"""On which fabric each algorithm is priced: that of its collective family where one was fitted, else the links alone."""

from __future__ import annotations

from math import log2
from typing import TYPE_CHECKING

import numpy as np
from msgspec import field
from msgspec.structs import replace

from trnsim.collectives import algorithm_names
from trnsim.fabric.network_fabric import Latencies, NetworkFabric
from trnsim.record import Record
from trnsim.topology.links import CORE_LINK
from trnsim.topology.memory import MEMORY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from trnsim.collectives import Program
    from trnsim.hardware.collective_family import CollectiveFamily
    from trnsim.hardware.sourced import Sourced
    from trnsim.topology.network import Network

__all__ = ["WITHOUT_NUMBERS", "Fabrics", "family_notes"]

WITHOUT_NUMBERS = "no measured time stands behind it here"


class Fabrics(Record):
    """The fabrics of one group.

    Parameters
    ----------
    plain
        With the latencies of the links and no others.
    fitted
        By algorithm, with what a collective family says of it.
    """

    plain: NetworkFabric
    fitted: Mapping[str, NetworkFabric] = field(default_factory=dict)

    @classmethod
    def of_family(
        cls, network: Network, members: NDArray[np.int64], family: CollectiveFamily | None, *, spans_chips: bool
    ) -> Fabrics:
        """Return the fabrics of a group on a network of a family; without one, there is only the plain one."""
        plain = NetworkFabric(network, members)
        if family is None:
            return cls(plain)
        fitted = {}
        doublings = log2(max(len(members), 1))
        for name, cost in family.algorithms.items():
            share = _value(family.bandwidth_share, 1.0) * _value(cost.bandwidth_share, 1.0)
            launch_s = _value(cost.launch_s, 0.0) + _value(cost.doubling_s, 0.0) * doublings
            latencies = Latencies(launch_s, _value(cost.step_s, 0.0))
            core_share = 1.0 if spans_chips else _value(family.core_link_share, 1.0)
            fitted[name] = NetworkFabric(_network(network, share, core_share), members, latencies)
        return cls(plain, fitted)

    def of(self, program: Program) -> NetworkFabric:
        """Return the fabric on which a program is priced."""
        return self.fitted.get(program.algorithm, self.plain)

    def without_numbers(self, op: str) -> dict[str, str]:
        """Return the algorithms that a family has no numbers for, and why; nothing if it has none for the operation."""
        names = algorithm_names(op)
        if not self.fitted.keys() & set(names):
            return {}
        return {name: WITHOUT_NUMBERS for name in names if name not in self.fitted}

    def bound_s(self, op: str, size_bytes: float) -> float:
        """Return the time that no algorithm beats on any of the fabrics."""
        return min(fabric.bounds(op, size_bytes).largest_s for fabric in (self.plain, *self.fitted.values()))


def _value(written: Sourced[float] | None, default: float) -> float:
    return default if written is None else written.value


def _network(network: Network, share: float, core_share: float) -> Network:
    """Return the network with its links at these shares of their bandwidth, and without latency: launches and steps have it."""
    by_kind = [{CORE_LINK: core_share, MEMORY: 1.0}.get(kind, share) for kind in network.kinds]
    bytes_per_s = np.rint(network.bytes_per_s * np.array(by_kind)[network.kind]).astype(np.int64)
    cut = network.bisection
    bisection = None if cut is None else replace(cut, bytes_per_s=round(cut.bytes_per_s * share))
    return replace(network, bytes_per_s=bytes_per_s, bisection=bisection, latency_s=np.zeros_like(network.latency_s))


def family_notes(family: CollectiveFamily, op: str) -> tuple[str, ...]:
    """Return which family prices an operation, and how it was fitted."""
    known = [name for name in family.algorithms if name in algorithm_names(op)]
    if not known:
        return (f"software {family.name} has no numbers for {op}: the links alone",)
    fit = (
        f"software {family.name}: {' and '.join(known)} fitted to {family.measured_rows.value} {family.fitted_on}; "
        f"median error of others {100 * family.error_fraction.value:.0f} %"
    )
    return (fit,) if op == "all-reduce" else (fit, f"{op} was not measured: it is priced like those")
