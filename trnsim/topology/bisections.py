"""Formulas for the bisection bandwidth of regular machines: the narrowest cut between two halves of the chips."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from trnsim.topology.network import Bisection

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["fat_tree_bisection", "full_bisection", "mesh_bisection", "star_bisection", "torus_bisection"]


def star_bisection(hosts: int, bytes_per_s: float) -> Bisection:
    """Cut the ports of the smaller half.

    Examples
    --------
    >>> star_bisection(7, 50e9).bytes_per_s
    150000000000.0
    """
    return Bisection(hosts // 2 * bytes_per_s, "the ports of half the chips", is_exact=True)


def full_bisection(chips: int, bytes_per_s: float) -> Bisection:
    """Cut the cables from each chip of one half to each of the other.

    Examples
    --------
    >>> full_bisection(5, 1e9).bytes_per_s
    6000000000.0
    """
    return Bisection(chips // 2 * -(-chips // 2) * bytes_per_s, "any half of the chips", is_exact=True)


def mesh_bisection(dims: Sequence[int], bytes_per_s: float) -> Bisection:
    r"""Cut the longest axis in the middle, and where it is odd the middle layer along the next one.

    .. math:: W = \sum_{i=1}^{\alpha} \prod_{j>i} d_j

    links, with axes from the longest down and :math:`\alpha` the first one of even size, or the last one.

    References
    ----------
    Arjona Aroca and Fernandez Anta, IEEE Trans. Parallel and Distributed Systems 25(3), 2014, doi:10.1109/TPDS.2013.95

    Examples
    --------
    >>> mesh_bisection((8, 8), 1).bytes_per_s, mesh_bisection((3, 3), 1).bytes_per_s
    (8, 4)
    """
    return Bisection(_layers(dims) * bytes_per_s, "across the longest axis", is_exact=True)


def torus_bisection(dims: Sequence[int], bytes_per_s: Sequence[float]) -> Bisection:
    r"""Cut rings in two places, on the axis where that costs least.

    A ring of even size d has 2 N / d links in the cut; of two chips, which one cable joins, N / 2. No balanced cut is
    narrower than what all-to-all needs: N^2 / 4 transfers each way, of which a link carries N d / 8 on an even ring,
    N (d^2 - 1) / (8 d) on an odd one and N / 2 between two chips. If all sizes are odd and all links alike, the cut
    has twice the links of a mesh.

    Parameters
    ----------
    dims
        Chips along each axis. Each >= 1.
    bytes_per_s
        Of a link of each axis.

    References
    ----------
    Arjona Aroca and Fernandez Anta, IEEE Trans. Parallel and Distributed Systems 25(3), 2014, doi:10.1109/TPDS.2013.95

    Examples
    --------
    >>> torus_bisection((4, 4, 4), (50e9,) * 3)
    Bisection(bytes_per_s=1600000000000.0, cut='across axis 1', is_exact=True)
    """
    chips = math.prod(dims)
    rings = [(axis, size, rate) for axis, (size, rate) in enumerate(zip(dims, bytes_per_s, strict=True)) if size > 1]
    if not rings:
        return Bisection(0.0, "nothing to cut", is_exact=True)
    even = [(2 * chips / (4 if size == 2 else size) * rate, axis) for axis, size, rate in rings if size % 2 == 0]
    odd = [2 * chips * size / (size**2 - 1) * rate for _, size, rate in rings if size % 2]
    alike = len({rate for *_, rate in rings}) == 1
    if not even or (alike and min(odd, default=math.inf) < min(even)[0] and 2 not in dims):
        cut = 2 * _layers(dims) * max(rate for *_, rate in rings)
        return Bisection(cut, "across the longest axis", is_exact=alike)
    narrowest, axis = min(even)
    return Bisection(narrowest, f"across axis {axis + 1}", is_exact=narrowest <= min(odd, default=math.inf))


def fat_tree_bisection(leaves: int, hosts: int, bytes_per_s: float, trunk_bytes_per_s: float) -> Bisection:
    """Cut the trunks of half the leaves, and of an odd number of leaves half of the middle one.

    Of a leaf with x chips on the side without the spine either the ports of those are cut, or the trunk and the ports
    of the others; that is concave in x, so all leaves but one lie wholly on one side.

    Examples
    --------
    >>> fat_tree_bisection(4, 8, 1.0, 4.0).bytes_per_s, fat_tree_bisection(3, 8, 1.0, 8.0).bytes_per_s
    (8.0, 12.0)
    """
    whole, rest = divmod(leaves * hosts // 2, hosts)
    split = min(rest * bytes_per_s, (hosts - rest) * bytes_per_s + trunk_bytes_per_s) if rest else 0.0
    trunk = min(trunk_bytes_per_s, hosts * bytes_per_s)
    return Bisection(whole * trunk + split, "the trunks of half the leaves", is_exact=True)


def _layers(dims: Sequence[int]) -> int:
    """Count the links that cut a mesh into two halves."""
    sizes = sorted((size for size in dims if size > 1), reverse=True)
    even = next((place for place, size in enumerate(sizes) if size % 2 == 0), len(sizes) - 1)
    return sum(math.prod(sizes[axis + 1 :]) for axis in range(even + 1)) if sizes else 0
