"""From a scenario to the parts that run it: mesh, placement, fabric, rates, the step."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from trnsim.fabric import ClosedFormFabric
from trnsim.parallel import Mesh, Placement, Sharding
from trnsim.record import Record
from trnsim.topology import ClusterTopology, cluster_topology
from trnsim.topology.links import CORE_LINK
from trnsim.topology.perturbations import impair
from trnsim.topology.places import Places
from trnsim.training import Rates, StepSpec, slow_ranks
from trnsim.workload import GRADIENT_BYTES, STATES, Shard

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trnsim.fabric.chunk import ChunkFabric
    from trnsim.hardware import Sourced
    from trnsim.scenario import Scenario
    from trnsim.topology.perturbations import Hits, Impairments

Bound = Literal["low", "value", "high"]


class Machine(Record):
    """Where the ranks of a scenario are, what joins them, what is impaired, and by which perturbation.

    `fabric` has the links as they are and `healthy` as they were to be, which is the same one where no link is impaired;
    `chunk` follows single messages, where that is asked for.
    """

    mesh: Mesh
    placement: Placement
    cluster: ClusterTopology
    healthy: ClosedFormFabric
    fabric: ClosedFormFabric
    impairments: Impairments
    hits: Mapping[str, Hits]
    chunk: ChunkFabric | None

    def meeting_tier(self, a: int, b: int) -> int:
        """Tier of the scale-out fabric at which two chips of different servers meet."""
        return self.cluster.fabric.meeting_tier(a, b) if self.cluster.fabric else 0

    @property
    def blocks(self) -> tuple[int, ...]:
        """Chips below one switch group of each tier of the scale-out fabric."""
        fabric = self.cluster.fabric
        return tuple(fabric.chips_below(tier) for tier in range(fabric.tiers_used)) if fabric else ()

    @property
    def places(self) -> Places:
        """What its parts are called."""
        return Places(self.cluster.server_topology.server, self.cluster.servers, self.cluster.fabric)

    def link_rates(self) -> dict[str, float]:
        """Return what one link of each kind, core links included, carries in one direction, bytes/s."""
        cores = self.cluster.server_topology.server.chip.neuron_cores
        inside = {CORE_LINK: cores.link_bytes_per_s(self.placement.ranks_per_chip)} if cores else {}
        return {**inside, **self.cluster.link_rates()}


def build_machine(scenario: Scenario, like: Machine | None = None) -> Machine:
    """Place the ranks of a scenario on its cluster.

    Parameters
    ----------
    scenario
        The scenario.
    like
        Of a scenario that differs from it in its perturbations alone; what does not depend on them is shared.

    Raises
    ------
    InputError
        If the fabric has too few tiers for the servers.
    """
    layout, cluster = scenario.layout, scenario.cluster
    mesh = Mesh({axis: getattr(layout, axis) for axis in ("tp", "cp", "pp", "dp")}, layout.order)
    placement = Placement(scenario.ranks_per_chip, cluster.server.chips, _chip_order(scenario))
    topology = like.cluster if like else cluster_topology(cluster.server, cluster.servers, cluster.fabric)
    places = Places(cluster.server, cluster.servers, topology.fabric)
    impairments, hits = impair(scenario.perturbations, places, scenario.run.seed)
    healthy = like.healthy if like else ClosedFormFabric(topology, placement)
    if like and like.impairments.links == impairments.links:
        fabric = like.fabric
    else:
        fabric = ClosedFormFabric(topology, placement, impairments) if impairments.of_links else healthy
    chunk = _chunk(topology, fabric) if scenario.run.fidelity == "chunk" else None
    return Machine(mesh, placement, topology, healthy, fabric, impairments, hits, chunk)


def _chunk(topology: ClusterTopology, fabric: ClosedFormFabric) -> ChunkFabric:
    """Return the fabric of single messages; loaded only where it is needed."""
    from trnsim.fabric.chunk import ChunkFabric
    from trnsim.topology.cluster_network import cluster_network

    return ChunkFabric(fabric, cluster_network(topology, fabric.placement.ranks_per_chip))


def _chip_order(scenario: Scenario) -> tuple[int, ...]:
    """Return NxD's ascending-descending order of chips where it uses it: two tensor groups share a trn2 instance."""
    server, layout = scenario.cluster.server, scenario.layout
    half_a_host = server.chips_per_host * scenario.ranks_per_chip // 2
    if layout.rules == "nxd" and layout.rank == "logical_core" and layout.tp == half_a_host:
        return server.ring_chip_order or ()
    return ()


def build_rates(scenario: Scenario, bound: Bound = "value") -> Rates:
    """Return how fast a rank of a scenario works.

    Parameters
    ----------
    scenario
        The scenario.
    bound
        ``value`` for the family's best numbers; ``low`` and ``high`` for the ends of their ranges, low being slow.
    """
    chip, family = scenario.cluster.server.chip, scenario.cluster.software
    share = 1 / scenario.ranks_per_chip
    other: Bound = {"low": "high", "high": "low", "value": "value"}[bound]  # type: ignore[assignment]
    chips = -(-scenario.ranks // scenario.ranks_per_chip)
    server = scenario.cluster.server
    in_step = server.chips_per_host if family.scale_skew_over == "hosts" else server.chips
    doublings = math.log2(-(-chips // in_step))
    flop_time_ratio = _flop_time_ratio(scenario, _at(family.attention_time_ratio, other))
    slower = 1.0 if family.attention_backward_ratio is None else _at(family.attention_backward_ratio, other)
    return Rates(
        peak_flops_per_s=chip.peak_flops_per_s[scenario.training.precision].value * share,
        memory_bandwidth_bytes_per_s=chip.memory_bandwidth_bytes_per_s.value * share,
        gemm_efficiency=_at(family.gemm_efficiency, bound),
        memory_efficiency=family.memory_efficiency.value,
        flop_time_ratio=flop_time_ratio,
        byte_term=family.byte_term,
        host_layer_s=family.host_layer_s.value,
        host_pass_s=family.host_pass_s.value,
        collective_skew_s=_at(family.collective_skew_s, other) if scenario.run.skew else 0.0,
        scale_skew_fraction=_at(family.scale_skew_fraction, other) * doublings if scenario.run.skew else 0.0,
        interference_fraction=0.0 if family.interference_fraction is None else _at(family.interference_fraction, other),
        gradient_flop_time_ratio={"core_attention": flop_time_ratio["core_attention"] * slower},
    )


def _flop_time_ratio(scenario: Scenario, attention: float) -> dict[str, float]:
    """Return by operator how much longer a FLOP takes than one of a layer's linear operators."""
    training, peaks = scenario.training, scenario.cluster.server.chip.peak_flops_per_s
    in_bf16 = 1.0 if training.fp8_matmuls == "all" else peaks[training.precision].value / peaks["bf16"].value
    return {"core_attention": attention * in_bf16, "output_projection": in_bf16}


def _at(value: Sourced[float], bound: Bound) -> float:
    found: float | None = getattr(value, bound)
    return value.value if found is None else found


def _host_bytes_per_s(scenario: Scenario) -> float | None:
    written = scenario.cluster.server.host_bandwidth_bytes_per_s
    return None if written is None else written.value / scenario.ranks_per_chip


def build_shard(scenario: Scenario) -> Shard:
    """Return what a rank of a scenario takes of a layer."""
    training, layout = scenario.training, scenario.layout
    return Shard(
        micro_batch=training.micro_batch,
        sequence_length=training.sequence_length,
        tp=layout.tp,
        sequence_parallel=layout.sequence_parallel,
        vocabulary=layout.vocabulary,
        recompute=training.recompute,
        recompute_early_stop=training.recompute_early_stop,
        attention=training.attention,
        operands=training.precision if training.fp8_operands else "bf16",
    )


def build_sharding(scenario: Scenario) -> Sharding:
    """Return what the data-parallel ranks of a scenario share."""
    training, layout = scenario.training, scenario.layout
    return Sharding(
        zero=layout.zero,
        ranks=layout.dp,
        group=layout.zero_group,
        overlap=training.data_parallel_overlap,
        prefetch=training.prefetch,
        reshard_after_forward=layout.reshard_after_forward,
        gradient_bytes=GRADIENT_BYTES[training.gradient_dtype],
        reduce_bytes=GRADIENT_BYTES[training.reduce_dtype],
    )


def build_step(scenario: Scenario, machine: Machine, rates: Rates, *, folding: bool) -> StepSpec:
    """Return the training step of a scenario."""
    training, layout = scenario.training, scenario.layout
    return StepSpec(
        model=scenario.model,
        shard=build_shard(scenario),
        split=layout.stages,
        mesh=machine.mesh,
        placement=machine.placement,
        rates=rates,
        schedule=scenario.schedule.kind,
        virtual_stages=scenario.schedule.virtual_stages,
        blocking_sends=scenario.schedule.sends == "blocking",
        microbatches=scenario.microbatches,
        sharding=build_sharding(scenario),
        states=STATES[training.states],
        host_bytes_per_s=_host_bytes_per_s(scenario) if training.optimizer_offload else None,
        bucket_parameters=training.bucket_parameters,
        ring=training.tensor_parallel_overlap == "ring" and layout.sequence_parallel and layout.tp > 1,
        steps=scenario.run.steps,
        folding=folding,
        impairments=machine.impairments,
        slow=slow_ranks(machine.mesh, machine.placement, machine.impairments),
    )
