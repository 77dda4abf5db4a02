"""The fabric: what programs cost on a machine."""

from trnsim.fabric.closed_form import ClosedFormFabric
from trnsim.fabric.price import LATENCY, Price, Task

__all__ = ["LATENCY", "ClosedFormFabric", "Price", "Task"]
