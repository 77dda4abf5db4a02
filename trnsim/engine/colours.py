"""Who behaves alike: refine colours until they are an equitable partition.

Nodes (ranks, or classes of ranks that are already known to be alike) start with a colour. A node's
next colour is its colour with the colours it meets: of every group it belongs to, as a multiset, and
of its neighbours, in order. When no round splits a class, two nodes of one colour meet the same
colours the same number of times, so a simulation of one stands for the other.

References
----------
Paige and Tarjan, Three partition refinement algorithms, SIAM J. Comput. 16(6), 1987,
doi:10.1137/0216062.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from trnsim.record import Record

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence


class Meeting(Record):
    """A group as colour refinement sees it.

    Parameters
    ----------
    axis
        The axis along which the members differ.
    members
        Node and number of members of the group that are of that node.
    """

    axis: str
    members: tuple[tuple[int, int], ...]


class Colouring(Record):
    """An equitable partition of the nodes.

    Parameters
    ----------
    colours
        Colour of each node, 0 .. classes - 1, numbered by first appearance.
    classes
        Number of colours.
    """

    colours: tuple[int, ...]
    classes: int


def refine(
    initial: Sequence[Hashable], meetings: Sequence[Meeting], neighbours: Sequence[tuple[int, ...]]
) -> Colouring:
    """Return the coarsest equitable partition that respects the initial colours.

    Parameters
    ----------
    initial
        Initial colour of each node.
    meetings
        The groups. A node is in at most one group of each axis.
    neighbours
        For each node its neighbours in a fixed order (-1: none).

    Examples
    --------
    Four ranks on a line: the ends differ from the middle because of whom they meet.

    >>> refine(["rank"] * 4, [], [(-1, 1), (0, 2), (1, 3), (2, -1)]).colours
    (0, 1, 2, 3)
    >>> refine(["rank"] * 4, [Meeting("tp", ((0, 1), (1, 1))), Meeting("tp", ((2, 1), (3, 1)))], [()] * 4).colours
    (0, 0, 0, 0)
    """
    colouring = _Partition(_number(initial))
    signatures = _Partition(_number([meeting.axis for meeting in meetings]))
    groups = _groups_of(len(initial), meetings)
    followers = _followers(neighbours)
    changed = range(len(initial))
    while changed:
        touched = {number for node in changed for number in groups[node]}
        told_apart = signatures.split(touched, lambda number: _signature(colouring.colours, meetings[number]))
        met = {node for number in told_apart for node, _ in meetings[number].members}
        met.update(follower for node in changed for follower in followers[node])

        def met_by(node: int) -> Hashable:
            """Return what a node meets: its groups, and its neighbours in order."""
            return (
                tuple(signatures.colours[group] for group in groups[node]),
                tuple(colouring.colours[other] if other >= 0 else -1 for other in neighbours[node]),
            )

        changed = colouring.split(met, met_by)
    return Colouring(tuple(_number(colouring.colours)), len(colouring.members))
