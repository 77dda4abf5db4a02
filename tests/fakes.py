"""A hand-made result of round numbers, for the rooms that only show results."""

from __future__ import annotations

from msgspec.structs import replace

from trnsim.results import (
    Assumptions,
    Breakdown,
    ClusterFacts,
    CollectiveUse,
    EngineFacts,
    ErrorBand,
    LinkUse,
    Memory,
    MemoryTerms,
    ModelFacts,
    Provenance,
    Result,
    Slice,
    StageFacts,
    Step,
    Tier,
    Timeline,
    Track,
    waterfall,
)

GIB = 2**30
PARTS = Breakdown(
    compute=5.0, recompute=1.0, skew=0.25, exposed_tp=0.75, exposed_pp=0.5, exposed_dp=0.25, bubble=2.0, optimizer=0.25
)
TERMS = MemoryTerms(
    weights=2 * GIB, gradients=4 * GIB, optimizer=3 * GIB, activations=7 * GIB, communication=1 * GIB, buffers=1 * GIB
)


def fake_timeline() -> Timeline:
    """Two ranks: passes on the compute stream with what they are made of inside, and a bucket on its own stream."""
    compute = (
        Slice("forward 0", "pass", 0.0, 0.1),
        Slice("layer 0", "compute", 0.0, 0.06, depth=1),
        Slice("all-gather", "exposed_tp", 0.06, 0.1, depth=1),
        Slice("backward 0", "pass", 0.1, 0.3),
    )
    return Timeline(
        tracks=(
            Track("stage 0 (8 ranks, first 0)", "compute", compute),
            Track("stage 0 (8 ranks, first 0)", "data-parallel communication", (Slice("bucket 0", "dp", 0.2, 0.4),)),
            Track("stage 1 (8 ranks, first 8)", "compute", compute),
        ),
        max_ranks=16,
    )


def fake_step(*, time_s: float = 10.0, tokens: int = 1_000_000, parts: Breakdown = PARTS) -> Step:
    return Step(
        time_s=time_s,
        first_step_time_s=time_s * 1.1,
        tokens=tokens,
        tokens_per_s=tokens / time_s,
        sequences_per_s=tokens / time_s / 8192,
        mfu=0.25,
        mfu_causal=0.24,
        hfu=0.3,
        peak_flops_per_s_per_chip=671e12,
        peak="dense bf16 peak as AWS prints it",
        flops_rule="6 x matmul parameters + 12 x layers x heads x head_dim x sequence per token (PaLM)",
        error_band=ErrorBand("no measurement", 8.0, 14.0, "neuron-trn3"),
        breakdown_rank=8,
        breakdown_s=parts,
    )


def fake_result(*, name: str = "two stages", time_s: float = 10.0, tokens: int = 1_000_000, chips: int = 16) -> Result:
    """Return a consistent result; its parts scale with the step time."""
    parts = Breakdown(**{part: share * time_s / 10.0 for part, share in PARTS.parts().items()})
    return Result(
        name=name,
        provenance=Provenance("0.1.0", "ab" * 32, 0, "cd" * 32),
        model=ModelFacts("tiny", 1_000_000_000, 1_000_000_000),
        cluster=ClusterFacts(
            "trn2.48xlarge", chips // 16, chips, chips, "trainium2", None, "neuron-trn2", 2, 1, chips // 16, 0
        ),
        step=fake_step(time_s=time_s, tokens=tokens, parts=parts),
        memory=Memory(22 * GIB, 0, 0, 18 * GIB, TERMS),
        collectives=(
            CollectiveUse("sequence", "all-gather", "tp", "ring", 8, 1_000_000, 64, 1e-4, 1e10, 8.75e9, 0.75),
            CollectiveUse("gradients", "reduce-scatter", "dp", "ring", 2, 4_000_000, 3, 1e-3, 4e9, 2e9, 0.25),
        ),
        links=(
            LinkUse("neuronlink-xy", "neuronlink-xy", 64, 640_000_000, 0.125),
            LinkUse("efa", "efa", 32, 32_000_000, 0.0625),
        ),
        engine=EngineFacts(chips, 2, 3, 1234, "auto", "events"),
        stages=(StageFacts(0, 2, 10, 0.1, 0.2, 2, TERMS), StageFacts(1, 2, 12, 0.1, 0.2, 1, TERMS)),
        tiers=(Tier("tp", 8, ("neuronlink-xy",)), Tier("dp", 2, ("neuronlink-xy", "efa"))),
        waterfall=waterfall(parts=parts, gemm_efficiency=0.5, mfu=0.25),
        assumptions=Assumptions({"official": 9, "assumed": 1}, (), ("chip.usable_memory_fraction",)),
        derived={"layout.dp": "2", "microbatches": "4"},
        defaults={"training.micro_batch": "1"},
        warnings=("4 microbatches are fewer than 8 stages",),
        timeline=fake_timeline(),
    )


def with_warnings(result: Result, count: int) -> Result:
    return replace(result, warnings=tuple(f"warning number {n}: " + "words " * 40 for n in range(count)))
