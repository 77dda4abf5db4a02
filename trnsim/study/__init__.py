"""Many runs: scenarios side by side, and curves over the size of a cluster."""

from trnsim.study.comparison import Comparison, compare
from trnsim.study.scaling import SCALING_COLUMNS, Scaling, scaling

__all__ = ["SCALING_COLUMNS", "Comparison", "Scaling", "compare", "scaling"]
