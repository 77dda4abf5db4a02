"""How much a run rests on numbers that nobody published."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

from trnsim.hardware import Kind, Sourced, every_value
from trnsim.results import Assumptions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnsim.scenario import Scenario

__all__ = ["assumptions"]

_ROOTS = ("software", "server", "fabric")


def assumptions(scenario: Scenario) -> Assumptions:
    """Count the catalog values that a run computes with, by how far each is to be trusted."""
    used = dict(sorted(_used(scenario), key=lambda item: _ROOTS.index(item[0].partition(".")[0])))
    by_kind = {kind: sum(value.kind == kind for value in used.values()) for kind in get_args(Kind)}
    return Assumptions(
        by_kind={kind: count for kind, count in by_kind.items() if count},
        inferred=tuple(name for name, value in used.items() if value.kind == "inferred"),
        assumed=tuple(name for name, value in used.items() if value.kind == "assumed"),
    )


def _used(scenario: Scenario) -> Iterator[tuple[str, Sourced[Any]]]:
    """Yield the values of the cluster that this run computes with."""
    peaks = "server.chip.peak_flops_per_s."
    unused = tuple(_unused(scenario))
    for name, value in every_value(scenario.cluster):
        is_other_peak = name.startswith(peaks) and name != peaks + scenario.training.precision
        if not is_other_peak and ".facts." not in name and not name.startswith(unused):
            yield name, value


def _unused(scenario: Scenario) -> Iterator[str]:
    """Yield how the names of values begin that this run does not touch."""
    cluster = scenario.cluster
    yield from (
        "server.chip.tensor_engine_flops_per_s.",
        "software.measured_rows",
        "software.recompute_fitted",
        "software.errors.",
    )
    if scenario.ranks_per_chip == 1:
        yield "server.chip.neuron_cores.link_"
    if not scenario.training.optimizer_offload:
        yield "server.host_bandwidth_bytes_per_s"
    if cluster.servers == 1:
        yield from ("server.scale_out.", "fabric.")
    elif cluster.fabric is not None:
        yield from (
            f"fabric.tiers.{tier.name}." for tier in cluster.fabric.tiers[cluster.fabric.tiers_for(cluster.chips) :]
        )
