"""Many runs: scenarios side by side, curves over the size of a cluster, predictions beside measured steps, fits to them."""

from trnsim.study.calibration import Calibration, calibrate
from trnsim.study.comparison import Comparison, compare
from trnsim.study.family_file import family_yaml
from trnsim.study.scaling import SCALING_COLUMNS, Scaling, scaling

__all__ = ["SCALING_COLUMNS", "Calibration", "Comparison", "Scaling", "calibrate", "compare", "family_yaml", "scaling"]
