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
    colours, classes = _number(list(initial))
    groups = _groups_of(len(initial), meetings)
    while True:
        signatures, _ = _number([_signature(colours, meeting) for meeting in meetings])
        met = [
            (
                colours[node],
                tuple(signatures[group] for group in groups[node]),
                tuple(colours[other] if other >= 0 else -1 for other in neighbours[node]),
            )
            for node in range(len(colours))
        ]
        refined, count = _number(met)
        if count == classes:
            return Colouring(tuple(colours), classes)
        colours, classes = refined, count


def _number(keys: Sequence[Hashable]) -> tuple[list[int], int]:
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(key, len(numbers)) for key in keys], len(numbers)


def _groups_of(nodes: int, meetings: Sequence[Meeting]) -> list[list[int]]:
    groups: list[list[int]] = [[] for _ in range(nodes)]
    for number, meeting in enumerate(meetings):
        for node, _ in meeting.members:
            groups[node].append(number)
    return groups


def _signature(colours: Sequence[int], meeting: Meeting) -> tuple[str, tuple[tuple[int, int], ...]]:
    found: Counter[int] = Counter()
    for node, count in meeting.members:
        found[colours[node]] += count
    return meeting.axis, tuple(sorted(found.items()))
