"""What every record owes its readers."""

import inspect
import pkgutil
from importlib import import_module

import pytest

import trnsim
from trnsim.record import Record


def _records() -> list[type[Record]]:
    for module in pkgutil.walk_packages(trnsim.__path__, "trnsim."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    found, new = set[type[Record]](), {Record}
    while new := {below for each in new for below in each.__subclasses__()} - found:
        found |= new
    return sorted(found, key=lambda record: f"{record.__module__}.{record.__qualname__}")


def test_a_record_tells_its_signature_also_where_types_are_imported_for_checkers_only() -> None:
    records = _records()
    assert len(records) > 100
    for record in records:
        assert tuple(inspect.signature(record).parameters) == record.__struct_fields__


def test_a_signature_shows_defaults_and_inherited_fields() -> None:
    class Point(Record):
        x: int
        y: int = 2

    class Named(Point):
        name: str = "a"

    assert str(inspect.signature(Named)) == "(x: int, y: int = 2, name: str = 'a')"


def test_a_record_does_not_change() -> None:
    class Point(Record):
        x: int

    with pytest.raises(AttributeError):
        Point(1).x = 2  # type: ignore[misc]
