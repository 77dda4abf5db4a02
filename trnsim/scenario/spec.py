"""A scenario, resolved: no default and no name left to look up."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trnsim.errors import InputError
from trnsim.record import Record
from trnsim.schedules import Pipeline

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trnsim.documents import Document
    from trnsim.hardware import Server, SoftwareFamily
    from trnsim.topology import FabricSpec
    from trnsim.topology.perturbations import Perturbation
    from trnsim.workload import Transformer

__all__ = ["Cluster", "Collectives", "Layout", "Run", "Scenario", "ScheduleSpec", "Training"]


class Cluster(Record):
    """The machine.

    Parameters
    ----------
    server, servers
        What it is made of, and how many. >= 1.
    fabric
        The network between servers; ``None`` for a single server.
    lnc
        Physical NeuronCores per logical one; ``None`` where the chip has none.
    allow_idle
        Whether the layout may leave chips idle.
    software
        The software family that runs on it.
    """

    server: Server
    servers: int
    fabric: FabricSpec | None
    lnc: int | None
    allow_idle: bool
    software: SoftwareFamily

    @property
    def chips(self) -> int:
        """Chips of all servers, idle ones included."""
        return self.servers * self.server.chips

    @property
    def hosts(self) -> int:
        """Hosts of all servers."""
        return self.servers * self.server.hosts


class Training(Record):
    """What one step trains on, and how.

    Parameters
    ----------
    sequence_length, global_batch, micro_batch
        Tokens of a sequence; sequences of a step; sequences of one pass. >= 1.
    precision, gradient_dtype, reduce_dtype
        Number formats of the matrix products, of gradients in memory, and of gradients on the wire.
    fp8_matmuls, fp8_operands
        Where `precision` is fp8 or mxfp8: ``"all"`` or ``"linear"`` products have it, and whether the operands of the
        latter are kept and gathered in it.
    attention
        ``"flash"`` or ``"unfused"``.
    states
        What Adam keeps of a parameter: ``"master"``, ``"fp32"`` or ``"bf16"``.
    fused_update
        Whether Adam is one kernel, and needs no memory of its own.
    optimizer_offload
        Whether its states stay in the memory of the host.
    cross_entropy
        ``"fused"`` or ``"eager"``: what the loss needs for a moment.
    recompute
        ``"none"``, ``"selective"``, ``"full"``, or the operators of a layer that run again in the backward pass.
    recompute_early_stop
        Whether recompute ends with the last tensor that the backward pass needs.
    bucket_parameters
        Parameters of a gradient bucket on one rank. >= 1.
    data_parallel_overlap
        What travels beside the passes: ``"none"``, ``"buckets"`` of gradients, with ``"prefetch"`` weights too.
    tensor_parallel_overlap
        Whether tensor-parallel collectives go on beside their matmul: ``"none"`` or ``"ring"``.
    prefetch
        Blocks whose weights are gathered ahead under ZeRO-3. >= 1.
    """

    sequence_length: int
    global_batch: int
    micro_batch: int
    precision: str
    fp8_matmuls: str
    fp8_operands: bool
    attention: str
    gradient_dtype: str
    reduce_dtype: str
    states: str
    fused_update: bool
    optimizer_offload: bool
    cross_entropy: str
    recompute: str | frozenset[str]
    recompute_early_stop: bool
    bucket_parameters: int
    data_parallel_overlap: str
    tensor_parallel_overlap: str
    prefetch: int


class Layout(Record):
    """Which rank does what.

    Parameters
    ----------
    rank
        ``"chip"`` or ``"logical_core"``.
    order
        Axes from the innermost to the outermost.
    tp, cp, pp, ep, dp
        Degrees. >= 1.
    zero, zero_group
        What data-parallel ranks share (0 nothing, 1 the optimizer, 2 gradients too, 3 weights too), and how many of
        them: a divisor of `dp`.
    reshard_after_forward
        Whether ZeRO-3 drops gathered weights after the forward pass.
    sequence_parallel
        Whether norms and residuals are split over the tensor-parallel ranks.
    stages
        Layers of each virtual stage, in the order of the model; with one on each pipeline stage, of the stages.
    rules
        ``"nxd"`` or ``"megatron"``.
    kv_replication
        Copies of each key and value head. >= 1.
    vocabulary
        Entries of the vocabulary after padding.
    """

    rank: str
    order: tuple[str, ...]
    tp: int
    cp: int
    pp: int
    ep: int
    dp: int
    zero: int
    zero_group: int
    reshard_after_forward: bool
    sequence_parallel: bool
    stages: tuple[int, ...]
    rules: str
    kv_replication: int
    vocabulary: int


class ScheduleSpec(Record):
    """The order of forward and backward passes.

    Parameters
    ----------
    kind
        Its name.
    virtual_stages
        Virtual stages on each pipeline stage. >= 1.
    sends
        ``"blocking"``: a rank waits until a message to another stage has arrived; ``"overlapped"``: it goes on beside it.
    """

    kind: str
    virtual_stages: int
    sends: str


class Collectives(Record):
    """How collectives are carried out.

    Parameters
    ----------
    algorithm
        By operation, then by tier (``server``: the group lies inside one; ``cluster``: it does not), ``auto`` or a name.
    policy
        How ``auto`` chooses: ``fastest``.
    """

    algorithm: Mapping[str, Mapping[str, str]]
    policy: str

    def algorithm_for(self, op: str, inside_server: bool) -> str:
        """Return the algorithm for an operation on a group that lies inside one server or does not.

        Where none is named it is ``auto``, or ``neuron`` if that is the policy.
        """
        named = self.algorithm[op]["server" if inside_server else "cluster"]
        return "neuron" if (named, self.policy) == ("auto", "neuron") else named


class Run(Record):
    """How the step is simulated.

    Parameters
    ----------
    steps, seed
        Steps to simulate, >= 1; seed of every random stream, >= 0.
    fidelity, folding, engine
        ``"flow"``, ``"closed_form"`` or ``"chunk"``; ``"auto"``, ``"off"`` (as it is with chunk) or ``"verify"``;
        ``"auto"``, ``"events"`` or ``"replay"``.
    skew
        Whether passes and collectives lose time to skew.
    mfu_peak
        Peak that MFU is measured against: ``"chip"`` or ``"tensor_engine"``.
    trace_ranks
        Most ranks that a trace shows. >= 1.
    """

    steps: int
    seed: int
    fidelity: str
    folding: str
    engine: str
    skew: bool
    mfu_peak: str
    trace_ranks: int


class Scenario(Record):
    """All that one run needs.

    Parameters
    ----------
    name
        What the run is called.
    document
        As it was written: where each key stands, for what only a run finds to be wrong.
    cluster, model, training, layout, schedule, collectives, run
        Its parts.
    perturbations
        Chips and links that are not as the datasheet has them, of different names.
    derived
        What was not in the file and follows from it, in words: dp, microbatches, stage split, padded vocabulary, ...
    defaults
        Keys that the file leaves out, and the values they have.
    warnings
        What is legal and probably not meant.
    """

    name: str
    document: Document
    cluster: Cluster
    model: Transformer
    training: Training
    layout: Layout
    schedule: ScheduleSpec
    collectives: Collectives
    run: Run
    perturbations: tuple[Perturbation, ...]
    derived: Mapping[str, str]
    defaults: Mapping[str, str]
    warnings: tuple[str, ...]

    @property
    def source(self) -> Path:
        """The file it was read from."""
        return self.document.path or Path(self.document.name)

    def refusal(self, key: str, message: str, *, value: object = None, capacity: bool = False) -> InputError:
        """Return the error of a key for which a scenario that keeps all rules cannot be run.

        Parameters
        ----------
        key, message, capacity
            As of a `Problem`.
        value
            What is wrong with it; None if that is not the point.
        """
        problem = self.document.problem(key, message, value=value, capacity=capacity)
        return InputError([problem], file=self.document.name)

    @property
    def ranks_per_chip(self) -> int:
        """Ranks on one chip: 1, or its logical cores."""
        return 1 if self.layout.rank == "chip" else self.cluster.server.chip.logical_cores(self.cluster.lnc)

    @property
    def ranks(self) -> int:
        """Ranks of the layout: the product of its degrees."""
        return self.layout.tp * self.layout.cp * self.layout.pp * self.layout.dp

    @property
    def microbatches(self) -> int:
        """Microbatches of one step on each data-parallel replica."""
        return self.training.global_batch // (self.training.micro_batch * self.layout.dp)

    @property
    def pipeline(self) -> Pipeline:
        """The shape of the pipeline."""
        return Pipeline(self.layout.pp, self.microbatches, self.schedule.virtual_stages)

    @property
    def tokens(self) -> int:
        """Tokens of one step."""
        return self.training.global_batch * self.training.sequence_length
