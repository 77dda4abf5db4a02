"""Trees over the members of a group, rooted at member 0, and the transfers along some of their levels."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from trnsim.record import Record

if TYPE_CHECKING:
    from trnsim.collectives.patterns import Places

__all__ = ["TreeKind", "TreeTransfers", "depth", "height", "parent"]

TreeKind = Literal["chain", "binary", "second-binary"]
"""A ``chain`` has no branches; of the two binary trees each has its leaves where the other has its inner places."""


def parent(kind: TreeKind, place: int, span: int) -> int:
    r"""Return the parent of a place other than the root, 0.

    In the first binary tree the odd places are leaves. With :math:`2^k` the largest power of two that divides place i,
    its parent is whichever of :math:`i \pm 2^k` is an odd multiple of :math:`2^{k+1}`, or if the tree ends before that
    :math:`i - 2^k`. The second tree is the first with the places 1 .. span - 1 mirrored if they are even in number,
    else moved on by one, so that leaves become inner places (all but one of an odd number).

    Parameters
    ----------
    kind
        Which tree.
    place
        1 .. span - 1.
    span
        Places of the tree, its root included. >= 2.

    References
    ----------
    Sanders, Speck, Träff, Two-tree algorithms for full bandwidth broadcast, reduction and scan, Parallel Computing
    35(12), 2009, doi:10.1016/j.parco.2009.09.001

    Examples
    --------
    >>> [parent("binary", place, span=7) for place in range(1, 7)]
    [2, 4, 2, 0, 6, 4]
    >>> [parent("second-binary", place, span=7) for place in range(1, 7)]
    [3, 1, 0, 5, 3, 5]
    """
    if kind == "chain":
        return place - 1
    first = _as_in_first(kind, place, span)
    lowest = first & -first
    upper = (first - lowest) | (lowest << 1)
    above = upper if upper < span else first - lowest
    if kind == "binary" or above == 0:
        return above
    return span - above if span % 2 else above % (span - 1) + 1


def depth(kind: TreeKind, place: int, span: int) -> int:
    """Return how many transfers lead from the root to a place."""
    if kind == "chain":
        return place
    levels = 0
    while place:
        place, levels = parent(kind, place, span), levels + 1
    return levels


def height(kind: TreeKind, span: int) -> int:
    """Return the largest depth: span - 1 of a chain, else the bits of that number.

    Examples
    --------
    >>> height("binary", 8), height("second-binary", 9), height("chain", 9)
    (3, 4, 8)
    """
    return span - 1 if kind == "chain" else (span - 1).bit_length()


class TreeTransfers(Record):
    """The members of some levels of a tree each get from their parent, or send to it.

    Parameters
    ----------
    kind
        Which tree.
    shallowest, deepest
        Depths of the children. 1 <= shallowest <= deepest <= height.
    down
        From parent to child, or the other way.
    span, stride
        Members of a circle and their distance, see `trnsim.collectives.patterns`.

    Examples
    --------
    >>> leaves = TreeTransfers("binary", shallowest=3, deepest=3, down=False, span=8)
    >>> [leaves.targets(member) for member in range(8)]
    [(), (2,), (), (2,), (), (6,), (), (6,)]
    """

    kind: TreeKind
    shallowest: int
    deepest: int
    down: bool
    span: int
    stride: int = 1

    def level(self, member: int) -> int:
        """Return the depth of a member."""
        return depth(self.kind, member // self.stride % self.span, self.span)

    def targets(self, member: int) -> tuple[int, ...]:
        """Return the children of `member`, or its parent, as far as they are in the levels."""
        place = member // self.stride % self.span
        if self.down:
            others = [child for child in _children(self.kind, self.span)[place] if self._has(child)]
        else:
            others = [parent(self.kind, place, self.span)] if self._has(place) else []
        return tuple(member + (other - place) * self.stride for other in others)

    def place_pairs(self) -> tuple[Places, Places]:
        """Return parents and children, or the other way."""
        import numpy as np

        if self.kind == "chain":
            children = np.arange(self.shallowest, self.deepest + 1, dtype=np.int64)
            parents = children - 1
        else:
            every, depths = _parents_and_depths(self.kind, self.span)
            children = np.flatnonzero((depths >= self.shallowest) & (depths <= self.deepest))
            parents = every[children]
        return (parents, children) if self.down else (children, parents)

    def reversed(self) -> TreeTransfers:
        """Return the transfers the other way."""
        return replace(self, down=not self.down)

    def spread(self, factor: int) -> TreeTransfers:
        """Return the transfers with their members `factor` times as far apart."""
        return replace(self, stride=self.stride * factor)

    def _has(self, child: int) -> bool:
        return self.shallowest <= depth(self.kind, child, self.span) <= self.deepest


def _as_in_first(kind: TreeKind, place: int, span: int) -> int:
    """Return the place of the first binary tree from which a place comes."""
    if kind == "binary" or place == 0:
        return place
    return span - place if span % 2 else (place - 2) % (span - 1) + 1


@lru_cache(maxsize=8)
def _children(kind: TreeKind, span: int) -> tuple[tuple[int, ...], ...]:
    children: list[list[int]] = [[] for _ in range(span)]
    for place in range(1, span):
        children[parent(kind, place, span)].append(place)
    return tuple(map(tuple, children))


@lru_cache(maxsize=8)
def _parents_and_depths(kind: TreeKind, span: int) -> tuple[Places, Places]:
    """Return the parent (of the root: itself) and the depth of every place of a binary tree."""
    import numpy as np

    places = np.arange(span, dtype=np.int64)
    lowest = places & -places
    upper = (places - lowest) | (lowest << 1)
    parents = np.where(upper < span, upper, places - lowest)
    depths = np.zeros_like(places)
    above = places
    while above.any():
        depths += above > 0
        above = parents[above]
    if kind == "second-binary":
        moved = np.where(places == 0, 0, span - places if span % 2 else places % (span - 1) + 1)
        second, second_depths = np.empty_like(parents), np.empty_like(depths)
        second[moved], second_depths[moved] = moved[parents], depths
        return second, second_depths
    return parents, depths
