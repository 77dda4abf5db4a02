"""Run, check and describe scenarios: the one place where all parts are wired."""

from trnsim.simulation.run import simulate

__all__ = ["simulate"]
