"""Run, check and describe scenarios, time collectives, count networks: the one place where all parts are wired."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trnsim.simulation.run import simulate

__all__ = ["simulate"]


def __getattr__(name: str) -> Any:
    if name == "simulate":  # imported when it is first used: a collective has no need of training
        from trnsim.simulation.run import simulate

        return simulate
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
