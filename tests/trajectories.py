"""What a fingerprint takes from parts that ranks share, held to their logs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trnsim.engine import digest

if TYPE_CHECKING:
    from collections.abc import Iterable


def hold_to_their_logs(views: Iterable[Any]) -> int:
    """Compare trajectories with the hash of the whole logs; return how many keys there are."""
    found: dict[object, bytes] = {}
    for view in views:
        of_logs = b"".join(digest(log, log.names()) for log in (view.log, view.stream))
        assert view.trajectory() == of_logs
        assert view.step_ends[-1][:2] == (len(view.log), len(view.stream))
        assert found.setdefault(view.trajectory_key(), of_logs) == of_logs
    return len(found)
