"""Simulated time in integer picoseconds: cohorts, messages, collectives, colours, fingerprints.

The only room that speaks SimPy. Times cross its border as float seconds and are rounded up once,
in `picoseconds`; names that end in ``_ps`` do not leave this room.
"""

from trnsim.engine.account import Account, Stretch, Window, account, last_step, stream_stretches, stretches
from trnsim.engine.agenda import Agenda
from trnsim.engine.arrivals import Arrival, Link, Route
from trnsim.engine.clock import picoseconds, seconds
from trnsim.engine.colours import Colouring, Meeting, refine
from trnsim.engine.core import Cohort, Engine, Story
from trnsim.engine.courses import Course
from trnsim.engine.fingerprint import digest, fingerprint
from trnsim.engine.groups import Call, Collective
from trnsim.engine.log import Journal, Log, Row
from trnsim.engine.operations import Activity, Operation, Part, Span, Transfer, Wait, spans

__all__ = [
    "Account",
    "Activity",
    "Agenda",
    "Arrival",
    "Call",
    "Cohort",
    "Collective",
    "Colouring",
    "Course",
    "Engine",
    "Journal",
    "Link",
    "Log",
    "Meeting",
    "Operation",
    "Part",
    "Route",
    "Row",
    "Span",
    "Story",
    "Stretch",
    "Transfer",
    "Wait",
    "Window",
    "account",
    "digest",
    "fingerprint",
    "last_step",
    "picoseconds",
    "refine",
    "seconds",
    "spans",
    "stream_stretches",
    "stretches",
]
