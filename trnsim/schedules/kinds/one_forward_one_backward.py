r"""1F1B (PipeDream-Flush): forward passes to fill the pipeline, then one forward and one backward in turn.

Stage s of p warms up with :math:`\min(p - s - 1, m)` forward passes, as Megatron does, and holds at most
:math:`\min(p - s, m)` microbatches. With equal stages and free transfers the bubble is :math:`(p-1)/(m+p-1)` of the
step, as with GPipe; only the memory is smaller.

References
----------
Narayanan et al., Efficient large-scale language model training on GPU clusters using Megatron-LM, SC 2021,
arXiv:2104.04473, section 2.2.1
"""

from __future__ import annotations

from trnsim.schedules.order import Kind, Pass, backward, forward

__all__ = ["KIND"]


def _order(stage: int, stages: int, microbatches: int) -> tuple[Pass, ...]:
    warm_up = min(stages - stage - 1, microbatches)
    forwards, backwards = forward(microbatches), backward(microbatches)
    steady = microbatches - warm_up
    pairs = zip(forwards[warm_up:], backwards[:steady], strict=True)
    return (*forwards[:warm_up], *(each for pair in pairs for each in pair), *backwards[steady:])


def _in_flight(stage: int, stages: int, microbatches: int) -> int:
    return min(stages - stage, microbatches)


KIND = Kind("1f1b", _order, _in_flight)
