"""Hamiltonian cycles that share no link, for rings that use every link of a torus."""

from __future__ import annotations

__all__ = ["disjoint_cycles"]


def disjoint_cycles(side: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    r"""Return two Hamiltonian cycles of a square torus that together use each of its cables once.

    With node numbers :math:`x + k y` and :math:`i = k a + b`, the cycles visit at step i the nodes
    :math:`(x, y) = ((b - a) \bmod k, a)` and, with the axes exchanged, :math:`(a, (b - a) \bmod k)`.

    Parameters
    ----------
    side
        :math:`k`, nodes along each axis. >= 3.

    Raises
    ------
    ValueError
        If the side is below 3: two nodes share one cable and not two.

    References
    ----------
    Bae and Bose, Edge disjoint Hamiltonian cycles in k-ary n-cubes and hypercubes, IEEE Trans. Computers 52(10),
    2003, pp. 1271-1284

    Examples
    --------
    >>> disjoint_cycles(3)
    ((0, 1, 2, 5, 3, 4, 7, 8, 6), (0, 3, 6, 7, 1, 4, 5, 8, 2))
    """
    if side < 3:
        raise ValueError(f"a torus of side {side} has no two cycles that share no cable")
    visits = [((b - a) % side, a) for a in range(side) for b in range(side)]
    return tuple(x + side * y for x, y in visits), tuple(y + side * x for x, y in visits)
