"""What machines are made of: chips, servers and software families, each number with its source.

A catalog entry is one YAML file in ``catalog/chips``, ``catalog/servers`` or ``catalog/families``; a run reads only the
files it names. :func:`load_chip`, :func:`load_server` and :func:`load_family` make frozen specifications of them, and
:func:`every_value` walks one with the source of each value. ``name@variant`` picks a variant that the file declares.
"""

from trnsim.hardware.catalog_files import Entry, names, read_entry
from trnsim.hardware.chip import Chip, NeuronCores
from trnsim.hardware.loading import family_for, family_text, load_chip, load_family, load_server
from trnsim.hardware.schema import SourcedFile, SourcedValue
from trnsim.hardware.server import (
    InstanceUse,
    LinkClass,
    NoScaleUp,
    ScaleUp,
    Server,
    StarScaleUp,
    SwitchedScaleUp,
    TorusScaleUp,
)
from trnsim.hardware.software import SoftwareFamily
from trnsim.hardware.sourced import Kind, Sourced, every_value

__all__ = [
    "Chip",
    "Entry",
    "InstanceUse",
    "Kind",
    "LinkClass",
    "NeuronCores",
    "NoScaleUp",
    "ScaleUp",
    "Server",
    "SoftwareFamily",
    "Sourced",
    "SourcedFile",
    "SourcedValue",
    "StarScaleUp",
    "SwitchedScaleUp",
    "TorusScaleUp",
    "every_value",
    "family_for",
    "family_text",
    "load_chip",
    "load_family",
    "load_server",
    "names",
    "read_entry",
]
