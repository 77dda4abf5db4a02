"""The fabric: what programs cost on a machine."""

from trnsim.fabric.closed_form import ClosedFormFabric
from trnsim.fabric.paths import CORE_LINK
from trnsim.fabric.price import LATENCY, Price

__all__ = ["CORE_LINK", "LATENCY", "ClosedFormFabric", "Price"]
