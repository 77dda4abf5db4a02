"""Everything that a training step is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trnsim.schedules import Pipeline
from trnsim.workload import OPTIMIZER_BYTES, WEIGHT_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trnsim.parallel import Mesh, Placement
    from trnsim.topology.perturbations import Impairments
    from trnsim.training.rates import Rates
    from trnsim.workload import Shard, Transformer


@dataclass(frozen=True, slots=True)
class StepSpec:
    """A training step, resolved: no default, no name left to look up.

    Parameters
    ----------
    model, shard, split
        The model, a rank's share of a layer, layers of each virtual stage.
    mesh, placement
        Where the ranks are.
    rates
        How fast a rank works.
    schedule
        Name of the pipeline schedule.
    virtual_stages
        Virtual stages on each pipeline stage. >= 1.
    blocking_sends
        Whether a rank waits until a message to another stage has arrived, or goes on beside it.
    microbatches
        Microbatches per step and replica. >= 1.
    zero
        0: every data-parallel rank holds and updates everything. 1: the optimizer is sharded.
    gradient_bytes
        Bytes of one gradient, in memory and on the wire.
    bucket_parameters
        Parameters of a gradient bucket.
    overlap
        Whether buckets are reduced while the backward pass goes on.
    steps
        Steps to simulate. >= 1.
    folding
        Whether ranks that behave alike are simulated once.
    impairments
        Slow chips, and links that are not as others.
    slow
        Speeds of the ranks on slow chips, as a share of `rates`.
    """

    model: Transformer
    shard: Shard
    split: tuple[int, ...]
    mesh: Mesh
    placement: Placement
    rates: Rates
    schedule: str
    virtual_stages: int
    blocking_sends: bool
    microbatches: int
    zero: int
    gradient_bytes: int
    bucket_parameters: int
    overlap: bool
    steps: int
    folding: bool
    impairments: Impairments
    slow: Mapping[int, float]

    @property
    def pipeline(self) -> Pipeline:
        """The shape of the pipeline."""
        return Pipeline(self.mesh.size("pp"), self.microbatches, self.virtual_stages)

    @property
    def activation_bytes(self) -> int:
        """Bytes that one rank sends to the next stage: its 1/tp share of the hidden states, in 2-byte numbers."""
        hidden_bytes = WEIGHT_BYTES * self.shard.micro_batch * self.shard.sequence_length * self.model.hidden_size
        return -(-hidden_bytes // self.shard.tp)

    @property
    def reduce_op(self) -> str:
        """The collective that sums gradients over the data-parallel ranks."""
        return "reduce-scatter" if self.zero else "all-reduce"

    @property
    def tied_bytes(self) -> int:
        """Bytes of one rank's gradients of a tied embedding."""
        return self.shard.vocabulary // self.shard.tp * self.model.hidden_size * self.gradient_bytes

    def optimizer_bytes(self, parameters: int) -> int:
        """HBM traffic of the optimizer: gradient read, fp32 master, momentum and variance read and written, weight written."""
        shards = self.mesh.size("dp") if self.zero else 1
        per_parameter = self.gradient_bytes + 2 * OPTIMIZER_BYTES + WEIGHT_BYTES
        return -(-parameters // shards) * per_parameter
