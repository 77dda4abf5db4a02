"""Everything that a training step is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsim.record import Record
from trnsim.schedules import Pipeline
from trnsim.workload import WEIGHT_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trnsim.parallel import Mesh, Placement, Sharding
    from trnsim.topology.perturbations import Impairments
    from trnsim.training.rates import Rates
    from trnsim.workload import Shard, StateBytes, Transformer


class StepSpec(Record):
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
    sharding
        What data-parallel ranks share, and what they exchange beside the passes.
    states
        Bytes of a parameter that are kept from step to step.
    host_bytes_per_s
        Of one rank, in one direction, where the states of the optimizer stay with the host; None where they do not.
    bucket_parameters
        Parameters of a gradient bucket; ZeRO-3 has one for each block.
    ring
        Whether tensor-parallel collectives go round beside their matmul.
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
    sharding: Sharding
    states: StateBytes
    host_bytes_per_s: float | None
    bucket_parameters: int
    ring: bool
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
    def tied_bytes(self) -> int:
        """Bytes of one rank's gradients of a tied embedding."""
        return self.shard.vocabulary // self.shard.tp * self.model.hidden_size * self.sharding.reduce_bytes

    def update_s(self, parameters: int, rates: Rates) -> float:
        """Time of the optimizer: in HBM, or where its states are with the host, over the way there if that takes longer.

        States go both ways at once, and the update waits for the slower of HBM and that way, not for both.
        """
        in_memory_s = rates.memory_s(self.optimizer_bytes(parameters))
        if self.host_bytes_per_s is None:
            return in_memory_s
        moved = self.states.optimizer * -(-parameters // self.sharding.optimizer_shards)
        return max(in_memory_s, moved / self.host_bytes_per_s)

    def optimizer_bytes(self, parameters: int) -> int:
        """HBM traffic of the optimizer: gradient read, states read and written, a bf16 weight written if it is apart."""
        states = self.states
        apart = 0 if states.weight > WEIGHT_BYTES else WEIGHT_BYTES
        per_parameter = self.sharding.gradient_bytes + 2 * (states.optimizer + states.weight - apart) + apart
        return -(-parameters // self.sharding.optimizer_shards) * per_parameter
