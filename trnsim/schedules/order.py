"""What a schedule is made of."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple

from trnsim.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Kind", "Pass", "Pipeline", "Sends", "backward", "forward", "warmed_up"]

Sends = Literal["blocking", "overlapped"]
"""Whether a stage waits until what it sends has arrived, or goes on working beside it."""


class Pass(NamedTuple):
    """One pass of one microbatch through one virtual stage.

    Attributes
    ----------
    kind
        ``"F"`` forward, ``"B"`` backward (of activations and weights together).
    microbatch
        Number of the microbatch, from 0.
    virtual_stage
        Position of the virtual stage in the model, from 0. With one virtual stage on each stage, that of the stage.
    """

    kind: Literal["F", "B"]
    microbatch: int
    virtual_stage: int


class Pipeline(NamedTuple):
    """The shape of a pipeline.

    Attributes
    ----------
    stages
        Pipeline stages. >= 1.
    microbatches
        Microbatches of one step. >= 1.
    virtual_stages
        Virtual stages on each stage. >= 1.

    Examples
    --------
    >>> pipeline = Pipeline(stages=4, microbatches=8, virtual_stages=2)
    >>> list(pipeline.virtual_stages_of(1)), pipeline.last
    ([1, 5], 7)
    """

    stages: int
    microbatches: int
    virtual_stages: int = 1

    @property
    def last(self) -> int:
        """Position of the last virtual stage in the model."""
        return self.stages * self.virtual_stages - 1

    def virtual_stages_of(self, stage: int) -> range:
        """Return the virtual stages of a stage, in the order of the model: dealt out in turn."""
        return range(stage, self.last + 1, self.stages)


class Kind(Record):
    """A schedule, for pipelines of any shape that its rules allow.

    Parameters
    ----------
    name
        As users write it.
    order
        Function of a stage and a pipeline: the passes of that stage in their order.
    in_flight
        Function of the same: the most passes whose activations the stage holds at once.
    bubble_slots
        Function of a pipeline: how many slots every stage idles in a step, with equal virtual stages and free transfers.
        A slot is a forward and a backward pass through one virtual stage.
    sends
        What is usual for it.
    interleaves
        Whether a stage has several virtual stages, or one.
    whole_rounds
        Whether microbatches must be a multiple of stages.
    """

    name: str
    order: Callable[[int, Pipeline], tuple[Pass, ...]]
    in_flight: Callable[[int, Pipeline], int]
    bubble_slots: Callable[[Pipeline], int]
    sends: Sends = "blocking"
    interleaves: bool = False
    whole_rounds: bool = False


@lru_cache(maxsize=64)
def forward(microbatches: int, virtual_stage: int) -> tuple[Pass, ...]:
    """Return the forward passes of all microbatches through a virtual stage, first to last."""
    return tuple([Pass("F", number, virtual_stage) for number in range(microbatches)])


@lru_cache(maxsize=64)
def backward(microbatches: int, virtual_stage: int) -> tuple[Pass, ...]:
    """Return the backward passes of all microbatches through a virtual stage, first to last."""
    return tuple([Pass("B", number, virtual_stage) for number in range(microbatches)])


def warmed_up(warm_up: int, forwards: Sequence[Pass], backwards: Sequence[Pass]) -> tuple[Pass, ...]:
    """Return `warm_up` forward passes, or all if there are fewer, then one forward and one backward in turn, then the rest.

    Examples
    --------
    >>> order = warmed_up(1, forward(3, 0), backward(3, 0))
    >>> print(*(f"{each.kind}{each.microbatch}" for each in order))
    F0 F1 B0 F2 B1 B2
    """
    warm_up = min(warm_up, len(forwards))
    steady = len(forwards) - warm_up
    pairs = zip(forwards[warm_up:], backwards[:steady], strict=True)
    return (*forwards[:warm_up], *(each for pair in pairs for each in pair), *backwards[steady:])
