"""Which rank is where: the mesh of ranks, its groups, the placement on chips, the split of layers."""

from trnsim.parallel.mesh import AXES, Group, Mesh
from trnsim.parallel.placement import Placement, Slot
from trnsim.parallel.stages import split_layers

__all__ = ["AXES", "Group", "Mesh", "Placement", "Slot", "split_layers"]
