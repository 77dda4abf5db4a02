"""One hash for a whole run: over the multiset of the ranks' trajectories."""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from operator import attrgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trnsim.engine.core import Cohort
    from trnsim.engine.log import Log

_NAME = attrgetter("name")


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
    trajectories: Counter[bytes] = Counter()
    for cohort in cohorts:
        trajectories[_digest(cohort.log) + _digest(cohort.stream)] += cohort.ranks
    total = hashlib.sha256()
    for trajectory, ranks in sorted(trajectories.items()):
        total.update(trajectory + ranks.to_bytes(8, "little"))
    return total.hexdigest()


def _digest(log: Log) -> bytes:
    found = hashlib.sha256("\n".join(map(_NAME, log.operations)).encode())
    times_ps = log.times_ps[:]
    if sys.byteorder == "big":
        times_ps.byteswap()
    found.update(times_ps.tobytes())
    return found.digest()
