"""One hash for a whole run: over the multiset of the ranks' trajectories."""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from trnsim.engine.core import Cohort
    from trnsim.engine.log import Log


def fingerprint(cohorts: Iterable[Cohort]) -> str:
    """Hash what every rank did and when; folding does not change it.

    A cohort counts as often as it has ranks, so one cohort of 8 ranks and 8 cohorts of one rank with
    the same trajectory give the same hash. The ranks' names do not enter.

    Parameters
    ----------
    cohorts
        Finished cohorts.

    Returns
    -------
    str
        SHA-256, 64 hexadecimal digits.
    """
    known: dict[Hashable, bytes] = {}
    trajectories: Counter[bytes] = Counter()
    for cohort in cohorts:
        key = cohort.trajectory_key()
        if key not in known:
            known[key] = cohort.trajectory()
        trajectories[known[key]] += cohort.ranks
    total = hashlib.sha256()
    for trajectory, count in sorted(trajectories.items()):
        total.update(trajectory + count.to_bytes(8, "little"))
    return total.hexdigest()


def digest(log: Log, names: str) -> bytes:
    """Hash a log; `names` are those of its operations, which are the same for many logs."""
    found = hashlib.sha256(names.encode())
    times_ps = log.times_ps
    if sys.byteorder == "big":
        times_ps = times_ps[:]
        times_ps.byteswap()
    found.update(times_ps)
    return found.digest()
