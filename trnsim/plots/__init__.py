"""Figures from tidy frames. Each function returns a figure and keeps no state; the caller shows or saves it."""

from trnsim.plots.curves import breakdown_bars, scaling_curves

__all__ = ["breakdown_bars", "scaling_curves"]
