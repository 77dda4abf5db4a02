"""What a schedule is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Kind", "Pass", "backward", "forward"]


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass of one microbatch through one stage.

    Parameters
    ----------
    kind
        ``"F"`` forward, ``"B"`` backward (of activations and weights together).
    microbatch
        Number of the microbatch, from 0.
    """

    kind: Literal["F", "B"]
    microbatch: int


@dataclass(frozen=True, slots=True)
class Kind:
    """A schedule, for any number of stages and microbatches.

    Parameters
    ----------
    name
        As users write it.
    order
        Function of stage, stages, microbatches: the passes of that stage in their order.
    in_flight
        Function of the same: the most microbatches whose activations the stage holds at once.
    """

    name: str
    order: Callable[[int, int, int], tuple[Pass, ...]]
    in_flight: Callable[[int, int, int], int]


def forward(microbatches: int) -> list[Pass]:
    """Return the forward passes of all microbatches, first to last."""
    return [Pass("F", number) for number in range(microbatches)]


def backward(microbatches: int) -> list[Pass]:
    """Return the backward passes of all microbatches, first to last."""
    return [Pass("B", number) for number in range(microbatches)]
