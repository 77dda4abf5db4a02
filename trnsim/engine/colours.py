"""Who behaves alike: refine colours until they are an equitable partition.

Nodes (ranks, or classes of ranks that are already known to be alike) start with a colour. A node's
next colour is its colour with the colours it meets: of every group it belongs to, as a multiset, and
of its neighbours, in order. When no round splits a class, two nodes of one colour meet the same
colours the same number of times, so a simulation of one stands for the other. Groups have colours
too, and the largest part of a class keeps its colour, so a round looks only at who met a change.

References
----------
Paige and Tarjan, Three partition refinement algorithms, SIAM J. Comput. 16(6), 1987,
doi:10.1137/0216062.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from trnsim.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence


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

    colours: Sequence[int]
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
    nodes, groups = _Partition(initial), _Partition([meeting.axis for meeting in meetings])
    groups_of = _groups_of(len(initial), meetings)
    followers = _followers(neighbours)

    def met(node: int) -> Hashable:
        of_groups = tuple(groups.colours[group] for group in groups_of[node])
        return of_groups, tuple(nodes.colours[other] if other >= 0 else -1 for other in neighbours[node])

    looked_at = set(range(len(initial)))
    changed: Iterable[int] = range(len(initial))
    while changed:
        meet_change = {group for node in changed for group in groups_of[node]}
        unlike = groups.split(meet_change, lambda group: _signature(nodes.colours, meetings[group]))
        looked_at.update(node for group in unlike for node, _ in meetings[group].members)
        looked_at.update(follower for node in changed for follower in followers[node])
        changed = nodes.split(looked_at, met)
        looked_at = set()
    return Colouring(tuple(_numbered(nodes.colours)), len(nodes.members))


class _Partition:
    """Elements by colour, 0 .. classes - 1.

    Attributes
    ----------
    colours
        Colour of each element.
    members
        Elements of each colour.
    """

    def __init__(self, initial: Sequence[Hashable]) -> None:
        self.colours = _numbered(initial)
        self.members: list[set[int]] = [set() for _ in range(max(self.colours, default=-1) + 1)]
        for element, colour in enumerate(self.colours):
            self.members[colour].add(element)

    def split(self, elements: Iterable[int], told_by: Callable[[int], Hashable]) -> list[int]:
        """Part some elements from those of their colour that are told otherwise; return those whose colour changes.

        All others of a colour are told alike, and otherwise than these.
        """
        parts: defaultdict[int, defaultdict[Hashable, list[int]]] = defaultdict(lambda: defaultdict(list))
        for element in elements:
            parts[self.colours[element]][told_by(element)].append(element)
        changed: list[int] = []
        for colour, found in parts.items():
            left = self.members[colour].difference(*found.values())
            *smaller, self.members[colour] = sorted([left, *map(set, found.values())], key=len)
            for part in filter(None, smaller):
                changed += part
                for element in part:
                    self.colours[element] = len(self.members)
                self.members.append(part)
        return changed


def _numbered(keys: Sequence[Hashable]) -> list[int]:
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(key, len(numbers)) for key in keys]


def _groups_of(nodes: int, meetings: Sequence[Meeting]) -> list[list[int]]:
    groups: list[list[int]] = [[] for _ in range(nodes)]
    for number, meeting in enumerate(meetings):
        for node, _ in meeting.members:
            groups[node].append(number)
    return groups


def _followers(neighbours: Sequence[tuple[int, ...]]) -> list[list[int]]:
    """Return for each node those that it is a neighbour of."""
    found: list[list[int]] = [[] for _ in neighbours]
    for node, others in enumerate(neighbours):
        for other in others:
            if other >= 0:
                found[other].append(node)
    return found


def _signature(colours: Sequence[int], meeting: Meeting) -> tuple[tuple[int, int], ...]:
    found: Counter[int] = Counter()
    for node, count in meeting.members:
        found[colours[node]] += count
    return tuple(sorted(found.items()))
