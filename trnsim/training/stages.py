"""The stages of a pipeline: the virtual stages that each holds, and the order of their passes."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from trnsim.record import Record
from trnsim.schedules import schedule
from trnsim.training.passes import bucket_size, gradient_buckets
from trnsim.workload import Exchange, stage_blocks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trnsim.schedules import Pass
    from trnsim.training.passes import Bucket
    from trnsim.training.spec import StepSpec
    from trnsim.workload import Block


class VirtualStage(Record):
    """Contiguous layers of the model on one stage.

    Parameters
    ----------
    blocks
        Its blocks in forward order.
    buckets
        Its gradient buckets; none holds gradients of two virtual stages.

    Notes
    -----
    Virtual stages with the same content share it as one object.
    """

    blocks: tuple[Block, ...]
    buckets: tuple[Bucket, ...]


class Stage(Record):
    """What all ranks of a pipeline stage share.

    Parameters
    ----------
    number
        Position in the pipeline, from 0.
    virtual_stages
        What it holds, by position in the model.
    blocks
        All its blocks in forward order.
    buckets
        All its gradient buckets, in the order in which they are complete.
    exchanges
        Tensor-parallel collectives of one microbatch, forward and backward, counted.
    turns
        Its passes in the order of the schedule.
    """

    number: int
    virtual_stages: Mapping[int, VirtualStage]
    blocks: tuple[Block, ...]
    buckets: tuple[Bucket, ...]
    exchanges: Mapping[Exchange, int]
    turns: tuple[Pass, ...]

    @property
    def parameters(self) -> int:
        """Parameters on one rank."""
        return sum(block.parameters for block in self.blocks)


def pipeline_stages(spec: StepSpec) -> tuple[Stage, ...]:
    """Deal the virtual stages of a step out to its pipeline stages."""
    found: dict[tuple[int, bool, bool, int], VirtualStage] = {}
    stages = []
    for number, turns in enumerate(schedule(spec.schedule, spec.pipeline)):
        held: dict[int, VirtualStage] = {}
        buckets = 0
        for place in reversed(spec.pipeline.virtual_stages_of(number)):  # gradients of the last are complete first
            alike = (spec.split[place], place == 0, place == spec.pipeline.last, buckets)
            if alike not in found:
                found[alike] = _virtual_stage(spec, place, buckets)
            held[place] = found[alike]
            buckets += len(held[place].buckets)
        stages.append(_stage(number, dict(sorted(held.items())), turns))
    return tuple(stages)


def _stage(number: int, held: Mapping[int, VirtualStage], turns: tuple[Pass, ...]) -> Stage:
    blocks = tuple(block for each in held.values() for block in each.blocks)
    buckets = tuple(sorted(bucket for each in held.values() for bucket in each.buckets))
    items = (item for block in blocks for item in (*block.forward, *block.recompute, *block.backward))
    exchanges = Counter(item for item in items if isinstance(item, Exchange))
    return Stage(number, held, blocks, buckets, exchanges, turns)


def _virtual_stage(spec: StepSpec, place: int, first_bucket: int) -> VirtualStage:
    blocks = stage_blocks(spec.model, spec.shard, place, spec.split)
    full = bucket_size(spec.sharding, spec.bucket_parameters)
    return VirtualStage(blocks, gradient_buckets(blocks, full, first_bucket))
