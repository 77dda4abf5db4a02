"""Which rank is where: the mesh of ranks, its groups, the placement on chips, the split of layers, what replicas share."""

from trnsim.parallel.mesh import AXES, Group, Mesh
from trnsim.parallel.placement import Placement, Slot
from trnsim.parallel.sharding import Sharding
from trnsim.parallel.stages import split_layers

__all__ = ["AXES", "Group", "Mesh", "Placement", "Sharding", "Slot", "split_layers"]
