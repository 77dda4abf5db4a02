r"""Interleaved 1F1B, as Megatron-LM has it: 1F1B over several virtual stages on each stage.

A stage takes p microbatches through its first virtual stage, then the same through its second, and so on; then the next
p. Backward passes go the same way from the last virtual stage to the first. Stage s warms up with
:math:`\min(2(p - s - 1) + (v - 1)p, mv)` forward passes, for p stages, v virtual stages on each and m microbatches, and
holds at most one more than that: on the first stage :math:`pv + p - 1` passes of 1/v of a stage, which is
:math:`1 + (p-1)/(pv)` times the p microbatches of 1F1B.

With equal virtual stages and free transfers the bubble is :math:`p-1` slots, each 1/v as long as one of 1F1B:
:math:`(p-1)/(vm)` of the work, :math:`(p-1)/(vm+p-1)` of the step.

References
----------
Narayanan et al., SC 2021, arXiv:2104.04473, section 2.2.2; the order and the warm-up of
``forward_backward_pipelining_with_interleaving`` in megatron/core/pipeline_parallel/schedules.py, Megatron-LM at 00611e6.
Korthikanti et al., Reducing activation recomputation in large transformer models, 2022, arXiv:2205.05198, section 4.2.3,
for the memory.
"""

from __future__ import annotations

from trnsim.schedules.order import Kind, Pass, Pipeline, warmed_up

__all__ = ["KIND"]


def _order(stage: int, pipeline: Pipeline) -> tuple[Pass, ...]:
    stages, microbatches, _ = pipeline
    held = pipeline.virtual_stages_of(stage)
    rounds = [range(first, first + stages) for first in range(0, microbatches, stages)]
    forwards = [Pass("F", number, place) for taken in rounds for place in held for number in taken]
    backwards = [Pass("B", number, place) for taken in rounds for place in reversed(held) for number in taken]
    return warmed_up(_warm_up(stage, pipeline), forwards, backwards)


def _warm_up(stage: int, pipeline: Pipeline) -> int:
    return 2 * (pipeline.stages - stage - 1) + (pipeline.virtual_stages - 1) * pipeline.stages


def _in_flight(stage: int, pipeline: Pipeline) -> int:
    return min(_warm_up(stage, pipeline) + 1, pipeline.microbatches * pipeline.virtual_stages)


def _bubble_slots(pipeline: Pipeline) -> int:
    return pipeline.stages - 1


KIND = Kind(
    "interleaved-1f1b", _order, _in_flight, _bubble_slots, sends="overlapped", interleaves=True, whole_rounds=True
)
