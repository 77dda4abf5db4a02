"""What ranks did when, as plain frozen records: the input of a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsim.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "Slice",
    "Timeline",
    "Track",
]


class Slice(Record):
    """One thing that a rank did: its name, its category, its ends in seconds, and how deep it nests (0 = outermost)."""

    name: str
    category: str
    start_s: float
    end_s: float
    depth: int = 0


class Track(Record):
    """What one stream (compute, data-parallel communication, ...) of one rank did, in time order; can be read more than once."""

    rank_name: str
    stream: str
    slices: Iterable[Slice]


class Timeline(Record):
    """The tracks that a trace may show.

    Parameters
    ----------
    tracks
        Tracks, grouped by rank.
    max_ranks
        Most ranks a trace shows (``run.trace_ranks``); >= 1.
    """

    tracks: tuple[Track, ...] = ()
    max_ranks: int = 16
