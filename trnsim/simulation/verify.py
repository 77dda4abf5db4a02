"""Whether folding changes anything: a folded run and one of every rank, operation by operation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsim.engine import seconds
from trnsim.errors import FoldingError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnsim.engine import Log, Row
    from trnsim.simulation.simulated import Simulated

__all__ = ["verify"]


def verify(folded: Simulated, apart: Simulated) -> int:
    """Compare every operation of every rank, and count them.

    Parameters
    ----------
    folded, apart
        The same scenario with its ranks folded, and with every rank a cohort.

    Raises
    ------
    FoldingError
        Where they differ first, in the order of ranks.
    """
    rows: dict[int, tuple[Log, Log]] = {}
    compared, member_of = 0, folded.members_by_rank()
    for rank, other in enumerate(apart.members):
        member = member_of(rank)
        if id(member) not in rows:
            rows[id(member)] = member.cohort.log, member.cohort.stream
        for mine, theirs, track in zip(rows[id(member)], (other.cohort.log, other.cohort.stream), _TRACKS, strict=True):
            for difference in _differences(mine, theirs):
                name = apart.spec.mesh.label(rank)
                raise FoldingError(f"rank {rank} ({name}) does not do the same when folded: its {track} {difference}")
            compared += len(theirs)
    return compared


_TRACKS = ("operation", "launched collective")


def _differences(mine: Log, theirs: Log) -> Iterator[str]:
    """Yield in words where two logs differ."""
    for number, (one, other) in enumerate(zip(mine.rows(), theirs.rows(), strict=False)):
        if one.operation.name != other.operation.name or one[1:] != other[1:]:
            yield f"{number} is {_said(one)} folded, and {_said(other)} alone"
    if len(mine) != len(theirs):
        yield f"list has {len(mine)} entries folded, and {len(theirs)} alone"


def _said(row: Row) -> str:
    operation, start, ready, end = row
    return f"{operation.name} from {seconds(start):.12g} s, ready at {seconds(ready):.12g} s, to {seconds(end):.12g} s"
