"""What a transfer is to the links: stints of time on one kind of them, and of time of its own."""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Stint(NamedTuple):
    """A stretch of a transfer: on links of one kind, or on none.

    Parameters
    ----------
    kind
        Kind of the links, or empty for latency, computation and everything else that nobody shares.
    work_ps
        How long it takes with the links to itself. > 0.
    """

    kind: str
    work_ps: int


class Course:
    """The stints of a transfer, or of several that follow one another.

    Parameters
    ----------
    stints
        In order.

    Attributes
    ----------
    stints
        The same, without empty ones, neighbours of one kind made one.
    ends_ps
        When each is over, counted from the start, with the links to itself.
    kinds
        Kinds of links on the way.
    duration_ps
        How long it takes with the links to itself.

    Examples
    --------
    >>> course = Course([Stint("", 3), Stint("efa", 7), Stint("efa", 1)])
    >>> course.ends_ps, course.kinds, course.duration_ps
    ([3, 11], ('efa',), 11)
    """

    __slots__ = ("duration_ps", "ends_ps", "kinds", "stints")

    def __init__(self, stints: Iterable[Stint]) -> None:
        self.stints: list[Stint] = []
        for kind, work_ps in stints:
            if self.stints and self.stints[-1].kind == kind:
                self.stints[-1] = Stint(kind, self.stints[-1].work_ps + work_ps)
            elif work_ps:
                self.stints.append(Stint(kind, work_ps))
        self.ends_ps = list(accumulate([work_ps for _, work_ps in self.stints]))
        self.kinds = _one_object(tuple({stint.kind: None for stint in self.stints if stint.kind}))
        self.duration_ps = self.ends_ps[-1] if self.ends_ps else 0


@lru_cache(maxsize=1024)
def _one_object(kinds: tuple[str, ...]) -> tuple[str, ...]:
    """Return the same object for equal kinds, so that who has looked up their links finds it again at once."""
    return kinds


def stints_of(duration_ps: int, busy_ps: Mapping[str, int]) -> list[Stint]:
    """Divide a duration into time of its own, which comes first, and time on each kind of link.

    Examples
    --------
    >>> stints_of(10, {"efa": 7})
    [Stint(kind='', work_ps=3), Stint(kind='efa', work_ps=7)]
    """
    stints: list[Stint] = []
    left = duration_ps
    for kind, work_ps in busy_ps.items():
        stints.append(Stint(kind, min(work_ps, left)))  # each is rounded up, and so may be their sum
        left -= stints[-1].work_ps
    return [Stint("", left), *stints]
