r"""GPipe: all forward passes, then all backward passes, the last microbatch first.

With equal stages and free transfers the bubble is :math:`p-1` slots, :math:`(p-1)/(m+p-1)` of the step, for p stages and
m microbatches. All microbatches are held at the turn.

References
----------
Huang et al., GPipe, NeurIPS 2019, arXiv:1811.06965
"""

from __future__ import annotations

from trnsim.schedules.order import Kind, Pass, Pipeline, backward, forward

__all__ = ["KIND"]


def _order(stage: int, pipeline: Pipeline) -> tuple[Pass, ...]:
    return (*forward(pipeline.microbatches, stage), *reversed(backward(pipeline.microbatches, stage)))


def _in_flight(stage: int, pipeline: Pipeline) -> int:  # noqa: ARG001  # the same on all stages
    return pipeline.microbatches


def _bubble_slots(pipeline: Pipeline) -> int:
    return pipeline.stages - 1


KIND = Kind("gpipe", _order, _in_flight, _bubble_slots)
