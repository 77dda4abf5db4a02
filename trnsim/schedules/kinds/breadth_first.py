r"""Breadth-first, or looped: GPipe over several virtual stages on each stage.

A stage takes all microbatches through its first virtual stage, then all through its second, and so on; then all back,
in the opposite order. So each virtual stage is done with one after the other, which leaves the longest time to reduce its
gradients and, where weights are sharded, gathers them once a step. The price is memory: all mv passes are held at the
turn, for p stages, v virtual stages on each and m microbatches.

With equal virtual stages and free transfers the bubble is :math:`p-1` slots, each 1/v as long as one of GPipe:
:math:`(p-1)/(vm)` of the work. With fewer microbatches than stages a stage also waits :math:`p-m` slots each time that
it goes on to another virtual stage.

References
----------
Lamy-Poirier, Breadth-first pipeline parallelism, MLSys 2023, arXiv:2211.05953. The order of the backward passes is that of
``ScheduleLoopedBFS`` in torch.distributed.pipelining.
"""

from __future__ import annotations

from trnsim.schedules.order import Kind, Pass, Pipeline, backward, forward

__all__ = ["KIND"]


def _order(stage: int, pipeline: Pipeline) -> tuple[Pass, ...]:
    held, microbatches = pipeline.virtual_stages_of(stage), pipeline.microbatches
    forwards = [each for place in held for each in forward(microbatches, place)]
    backwards = [each for place in held for each in backward(microbatches, place)]
    return (*forwards, *reversed(backwards))


def _in_flight(stage: int, pipeline: Pipeline) -> int:  # noqa: ARG001  # the same on all stages
    return pipeline.microbatches * pipeline.virtual_stages


def _bubble_slots(pipeline: Pipeline) -> int:
    stages, microbatches, virtual_stages = pipeline
    return stages - 1 + (virtual_stages - 1) * max(0, stages - microbatches)


KIND = Kind("breadth-first", _order, _in_flight, _bubble_slots, sends="overlapped", interleaves=True)
