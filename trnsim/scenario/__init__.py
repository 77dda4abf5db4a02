"""Scenario files into resolved scenarios: everything that one run needs, checked whole.

:func:`load` reads a file, follows the names in it (server, software family, fabric, model), checks every rule that it
can, and returns a :class:`Scenario` in which nothing is left to look up; all problems come in one
:class:`~trnsim.errors.InputError`. :func:`json_schema` describes the files to an editor.
"""

from trnsim.scenario.hashing import sha256
from trnsim.scenario.loading import load, resolve
from trnsim.scenario.schema import json_schema
from trnsim.scenario.spec import Cluster, Collectives, Layout, Run, Scenario, ScheduleSpec, Training

__all__ = [
    "Cluster",
    "Collectives",
    "Layout",
    "Run",
    "Scenario",
    "ScheduleSpec",
    "Training",
    "json_schema",
    "load",
    "resolve",
    "sha256",
]
