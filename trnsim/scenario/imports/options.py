"""What the user says beside the file."""

from __future__ import annotations

from pathlib import Path

from trnsim.record import Record

__all__ = ["Options"]


class Options(Record):
    """What the file of another tool does not say.

    Parameters
    ----------
    model
        A model of the catalog or a file; ``None`` to take the shape from the imported file.
    vocabulary
        Entries of the vocabulary. >= 1.
    server
        A server of the catalog or a file.
    servers
        How many of them. >= 1; ``None`` to count them by the ranks of the imported file.
    fabric
        What joins several servers.
    folder
        Where the scenario will lie: paths in it are relative to that.
    """

    model: str | None = None
    vocabulary: int | None = None
    server: str | None = None
    servers: int | None = None
    fabric: str | None = None
    folder: Path = Path()
