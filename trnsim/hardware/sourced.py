"""A value that says where it comes from, and a walk over all such values of a specification."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Generic, Literal, TypeVar

from trnsim.record import Record

__all__ = ["Kind", "Sourced", "every_value"]

T = TypeVar("T")

Kind = Literal["official", "third-party", "inferred", "assumed"]
"""How far a value is to be trusted: printed by the maker, measured or reported by somebody else, derived from such
values by arithmetic or a fit, or assumed for want of any."""


class Sourced(Record, Generic[T]):
    """A value with its source.

    Parameters
    ----------
    value
        SI number, count, tuple of counts, or text.
    kind
        How far it is to be trusted.
    source
        Title and date of the source, and the arithmetic if the value is not printed there.
    read
        Day on which the source was read, ISO 8601.
    low, high
        Range that the source allows, where it gives one. low <= value <= high.

    Examples
    --------
    >>> Sourced(2.9e12, "official", "AWS Neuron SDK, trainium2.rst, 2025-12-01", "2026-11-30").kind
    'official'
    """

    value: T
    kind: Kind
    source: str
    read: str
    low: T | None = None
    high: T | None = None


def every_value(spec: object) -> Iterator[tuple[str, Sourced[Any]]]:
    """Walk a specification and yield each of its values once, with a dotted name.

    Parameters
    ----------
    spec
        A :class:`~trnsim.hardware.Chip`, :class:`~trnsim.hardware.Server`,
        :class:`~trnsim.hardware.SoftwareFamily`, or any record with sourced values inside.

    Yields
    ------
    tuple of str and Sourced
        Names follow the fields: ``memory_bytes``, ``chip.peak_flops_per_s.bf16``, ``scale_up.rack.latency_s``. Values
        that a specification keeps as plain numbers come under the name of their field: ``chips``. Names that have
        ``facts`` in them are of values that nothing computes with.

    Examples
    --------
    >>> from trnsim.hardware import load_chip
    >>> dict(every_value(load_chip("trainium2")))["peak_flops_per_s.bf16"].value
    667000000000000.0
    """
    yield from dict(_walk("", spec)).items()


def _walk(name: str, value: object) -> Iterator[tuple[str, Sourced[Any]]]:
    if isinstance(value, Sourced):
        yield name, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _walk(_join(name, key), inner)
    elif isinstance(value, tuple):
        for inner in value:
            yield from _walk(_join(name, getattr(inner, "kind", "")), inner)
    elif isinstance(value, Record):
        for field in value.__struct_fields__:
            # "basis" holds the sources of fields that are plain numbers, under the names of those fields
            yield from _walk(name if field == "basis" else _join(name, field), getattr(value, field))


def _join(name: str, step: str) -> str:
    return f"{name}.{step}" if name and step else name or step
