"""The parts of a result, as plain frozen records.

The names of the fields are the keys of the JSON document: a key is written once, here, and spelled so everywhere. Times
are seconds, sizes are bytes, rates are per second.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003  (part of the public annotations)
from typing import Literal

from trnsim.record import Record

__all__ = [
    "Assumptions",
    "Breakdown",
    "ClusterFacts",
    "CollectiveUse",
    "EngineFacts",
    "ErrorBand",
    "LinkUse",
    "Memory",
    "MemoryTerms",
    "ModelFacts",
    "PerturbationCost",
    "Provenance",
    "StageFacts",
    "Step",
    "Tier",
    "WaterfallLine",
]


class Provenance(Record):
    """Where a result comes from: enough to make it again.

    Parameters
    ----------
    trnsim
        Version of trnsim.
    scenario_sha256
        Hash of the resolved scenario.
    seed
        Seed of the run.
    fingerprint
        Hash over the trajectories of all ranks; folding does not change it.
    """

    trnsim: str
    scenario_sha256: str
    seed: int
    fingerprint: str


class ClusterFacts(Record):
    """The machine that was simulated.

    Parameters
    ----------
    server, servers
        Catalog name of the server and how many there are.
    chips, ranks
        Chips reserved and ranks that run on them.
    chip, fabric, software
        Names of the chip, of the scale-out fabric (None without one) and of the software family.
    lnc, ranks_per_chip
        NeuronCores of a logical NeuronCore; ranks on one chip.
    hosts
        EC2 instances (on Trn3 Gen2: sleds).
    idle_chips
        Chips reserved that hold no rank.
    """

    server: str
    servers: int
    chips: int
    ranks: int
    chip: str
    fabric: str | None
    software: str
    lnc: int | None
    ranks_per_chip: int
    hosts: int
    idle_chips: int


class ModelFacts(Record):
    """The model that was trained: its name, all parameters, and those one token uses."""

    name: str
    parameters: int
    active_parameters: int


class Breakdown(Record):
    """Where the step time of one rank goes; seconds. Each instant belongs to exactly one part.

    Parameters
    ----------
    compute, recompute
        Forward, backward and loss; forward work done a second time.
    skew, overhead
        Lengthening of passes with the number of hosts; host launch time that the device waits for.
    exposed_tp, exposed_cp, exposed_ep, exposed_pp, exposed_dp
        Waiting for bytes that travel, by the axis they travel along.
    straggler_wait
        Waiting for the last member of a collective to join it.
    bubble
        Waiting for a message that has not been sent yet.
    optimizer
        The optimizer update.

    Examples
    --------
    >>> parts = Breakdown(compute=0.75, bubble=0.25)
    >>> parts.total_s
    1.0
    """

    compute: float = 0.0
    recompute: float = 0.0
    skew: float = 0.0
    overhead: float = 0.0
    exposed_tp: float = 0.0
    exposed_cp: float = 0.0
    exposed_ep: float = 0.0
    exposed_pp: float = 0.0
    exposed_dp: float = 0.0
    straggler_wait: float = 0.0
    bubble: float = 0.0
    optimizer: float = 0.0

    @property
    def total_s(self) -> float:
        """Sum of the parts: the step time; seconds."""
        return sum(self.parts().values())

    def parts(self) -> dict[str, float]:
        """Return the parts by name, in the order of the declaration; seconds."""
        return {name: getattr(self, name) for name in self.__struct_fields__}


class ErrorBand(Record):
    """How far the step time may be off.

    Parameters
    ----------
    kind
        ``"measured"`` when at least two measurements stand behind the software family, else ``"no measurement"``.
    low_s, high_s
        Step time at both ends of the band (measured) or of the range that the parameters allow; seconds.
    source
        Where the band or the range comes from.
    """

    kind: Literal["measured", "no measurement"]
    low_s: float
    high_s: float
    source: str


class Step(Record):
    """The training step.

    Parameters
    ----------
    time_s
        Time between the ends of the last two steps; with one step, that step. Seconds.
    first_step_time_s
        Time of the first step; seconds.
    tokens
        Tokens of one step, over the whole cluster.
    tokens_per_s, sequences_per_s
        Throughput of the whole cluster.
    mfu, mfu_causal, hfu
        Model FLOPs utilization by ``flops_rule``, with half of the attention scores, and with recompute counted; fractions.
    peak_flops_per_s_per_chip, peak
        The peak they are measured against, FLOP/s of one chip, and which peak that is.
    flops_rule
        What counts as a model FLOP.
    error_band
        How far ``time_s`` may be off.
    breakdown_rank
        The rank that ``breakdown_s`` is taken on: the one that finishes last (ties: lowest).
    breakdown_s
        Where its time goes; the parts sum to ``time_s``.
    """

    time_s: float
    first_step_time_s: float
    tokens: int
    tokens_per_s: float
    sequences_per_s: float
    mfu: float
    mfu_causal: float
    hfu: float
    peak_flops_per_s_per_chip: float
    peak: str
    flops_rule: str
    error_band: ErrorBand
    breakdown_rank: int
    breakdown_s: Breakdown


class MemoryTerms(Record):
    """Memory of one rank by term; bytes."""

    weights: int
    gradients: int
    optimizer: int
    activations: int
    communication: int
    buffers: int

    @property
    def total_bytes(self) -> int:
        """Sum of the terms; bytes."""
        return sum(self.terms().values())

    def terms(self) -> dict[str, int]:
        """Return the terms by name, in the order of the declaration; bytes."""
        return {name: getattr(self, name) for name in self.__struct_fields__}


class Memory(Record):
    """Memory of the rank that needs most.

    Parameters
    ----------
    limit_bytes
        What one rank may use.
    worst_rank, worst_stage
        The rank that needs most (ties: lowest) and its pipeline stage.
    bytes
        What it needs.
    by_term_bytes
        The same by term.
    """

    limit_bytes: int
    worst_rank: int
    worst_stage: int
    bytes: int
    by_term_bytes: MemoryTerms


class CollectiveUse(Record):
    """One collective, as the rank of the breakdown sees it in one step.

    Parameters
    ----------
    name, op, axis, algorithm
        What it is for, the operation, the mesh axis of its group, and how it is done.
    group_size
        Members of the group.
    bytes
        The larger of one rank's input and output buffer.
    count
        Times per step.
    time_s
        Time of one, alone; seconds.
    algbw_bytes_per_s, busbw_bytes_per_s
        ``bytes / time_s``, and that times the bus factor of the operation.
    exposed_s
        Time per step that the rank waits for it with nothing to compute; seconds.
    """

    name: str
    op: str
    axis: str
    algorithm: str
    group_size: int
    bytes: int
    count: int
    time_s: float
    algbw_bytes_per_s: float
    busbw_bytes_per_s: float
    exposed_s: float


class LinkUse(Record):
    """Links of one kind in one step: how many, the bytes over all of them, and the share of their time in use."""

    name: str
    kind: str
    count: int
    bytes: int
    utilization_fraction: float


class EngineFacts(Record):
    """What the simulator did: ranks, simulated cohorts and processes, events, and in which mode."""

    ranks: int
    cohorts: int
    processes: int
    events: int
    folding: str
    engine: str


class PerturbationCost(Record):
    """What one perturbation does to the step.

    Parameters
    ----------
    name
        As the scenario has it.
    struck, places
        Chips or links that it strikes, and the first of their places.
    without_s, cost_s
        Step time without it, and how much longer the step is with it; seconds.
    """

    name: str
    struck: int
    places: tuple[str, ...]
    without_s: float
    cost_s: float


class StageFacts(Record):
    """One pipeline stage.

    Parameters
    ----------
    stage
        Position in the pipeline, from 0.
    layers
        Layers that it holds, on all its virtual stages.
    parameters
        Parameters on one of its ranks.
    forward_s, backward_s
        Time of one microbatch through it, with tensor-parallel collectives; seconds.
    in_flight
        Most passes whose activations it holds at once; with virtual stages, each of one of them.
    memory_bytes
        Memory of one of its ranks, by term.
    """

    stage: int
    layers: int
    parameters: int
    forward_s: float
    backward_s: float
    in_flight: int
    memory_bytes: MemoryTerms


class Tier(Record):
    """The kinds of links that the groups of one mesh axis cross."""

    axis: str
    size: int
    kinds: tuple[str, ...]


class WaterfallLine(Record):
    """One line of the way from peak to achieved: what is lost, and what is left after it; fractions of the peak."""

    name: str
    loss_fraction: float
    left_fraction: float


class Assumptions(Record):
    """How much a result rests on numbers that nobody published.

    Parameters
    ----------
    by_kind
        Catalog values used, counted by kind (official, third-party, inferred, assumed).
    inferred, assumed
        The names of those that were inferred from other facts, and of those that were assumed.
    """

    by_kind: Mapping[str, int]
    inferred: tuple[str, ...]
    assumed: tuple[str, ...]
