r"""1F1B (PipeDream-Flush): forward passes to fill the pipeline, then one forward and one backward in turn.

Stage s of p warms up with :math:`\min(p - s - 1, m)` forward passes, as Megatron does, and holds at most
:math:`\min(p - s, m)` microbatches. With equal stages and free transfers the bubble is :math:`p-1` slots,
:math:`(p-1)/(m+p-1)` of the step, as with GPipe; only the memory is smaller.

References
----------
Narayanan et al., Efficient large-scale language model training on GPU clusters using Megatron-LM, SC 2021,
arXiv:2104.04473, section 2.2.1
"""

from __future__ import annotations

from trnsim.schedules.order import Kind, Pass, Pipeline, backward, forward, warmed_up

__all__ = ["KIND"]


def _order(stage: int, pipeline: Pipeline) -> tuple[Pass, ...]:
    microbatches = pipeline.microbatches
    return warmed_up(pipeline.stages - stage - 1, forward(microbatches, stage), backward(microbatches, stage))


def _in_flight(stage: int, pipeline: Pipeline) -> int:
    return min(pipeline.stages - stage, pipeline.microbatches)


def _bubble_slots(pipeline: Pipeline) -> int:
    return pipeline.stages - 1


KIND = Kind("1f1b", _order, _in_flight, _bubble_slots)
