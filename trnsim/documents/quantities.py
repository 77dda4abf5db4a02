"""Types for the fields of a file: physical values with units, counts, and choices from a list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema
from pydantic_core.core_schema import no_info_before_validator_function

from trnsim.documents.names import canonical, nearest
from trnsim.units import parse_bandwidth, parse_bytes, parse_flops, parse_time

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["WHOLE", "Bandwidth", "Bytes", "Choice", "Count", "Duration", "FlopRate", "Fraction", "Table"]


class Table(BaseModel):
    """Base of the models of a file: unknown keys are refused, and a value of another type is never converted.

    Lists of a file are ``list`` fields; whole numbers are :data:`Count`, which reads ``4e7``.
    """

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, defer_build=True)


class _Read:
    """Annotation of a field that a function reads before its type is checked.

    pydantic's ``BeforeValidator`` asks the function for its signature at every field, a tenth of the start of a run.
    """

    def __init__(self, read: Callable[[Any], Any]) -> None:
        self.read = read

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return no_info_before_validator_function(self.read, handler(source))


def _text_with_unit(parse: Callable[[object], float], *examples: str) -> tuple[_Read, WithJsonSchema]:
    return _Read(parse), WithJsonSchema({"type": "string", "examples": list(examples)})


Bandwidth = Annotated[float, *_text_with_unit(parse_bandwidth, "1.28 TB/s", "200 Gbit/s")]
"""Text such as "1.28 TB/s", read as bytes per second."""

Bytes = Annotated[int, *_text_with_unit(parse_bytes, "96 GiB", "24 GB")]
"""Text such as "96 GiB", read as bytes."""

Duration = Annotated[float, *_text_with_unit(parse_time, "15 us", "1.5 s")]
"""Text such as "15 us", read as seconds."""

FlopRate = Annotated[float, *_text_with_unit(parse_flops, "667 TFLOP/s", "2.517 PFLOP/s")]
"""Text such as "667 TFLOP/s", read as FLOP per second."""


def _whole(value: Any) -> Any:
    """Let ``4e7`` be a whole number; leave everything else to the check of the type."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


WHOLE: Final = _Read(_whole)
"""Metadata of an ``int`` field with bounds of its own, which then reads ``4e7`` too; it stands last."""

Count = Annotated[int, Field(ge=1, le=10**12), WHOLE]
"""A whole number of at least 1, and of a size that something can have."""

Fraction = Annotated[float, Field(ge=0.001, le=1)]
"""A share of at least a thousandth and at most 1."""


class Choice:
    """Annotation of a text field that takes one of a list, without regard to case or dashes.

    Parameters
    ----------
    *names
        The valid names, spelled as they are kept.
    later
        Names of things that trnsim does not model yet; they are refused as such.
    """

    def __init__(self, *names: str, later: Sequence[str] = ()) -> None:
        self.names = names
        self._kept = {canonical(name): name for name in names}
        self._later = {canonical(name) for name in later}

    def read(self, value: object) -> str:
        """Return the name as it is kept.

        Raises
        ------
        ValueError
            If it is none of the names, with the list and the nearest.
        """
        word = canonical(value) if isinstance(value, str) else ""
        if word in self._kept:
            return self._kept[word]
        if word in self._later:
            raise ValueError(f"not modelled yet; choose from {', '.join(self.names)}")
        near = nearest(word, self.names, n=1) if word else ()
        hint = f"did you mean {near[0]}? " if near else ""
        raise ValueError(f"unknown; {hint}choose from {', '.join(self.names)}")

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        """Read before the check of the type."""
        return no_info_before_validator_function(self.read, handler(source))

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        """List the names for editors."""
        return {**handler(schema), "enum": list(self.names)}
