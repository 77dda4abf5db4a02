"""How the values of this project are declared: frozen records that compare, hash and show themselves by their fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, dataclass_transform

from msgspec import Struct, StructMeta, field

if TYPE_CHECKING:
    from inspect import Signature

__all__ = ["Record"]


class _RecordType(StructMeta):
    @property
    def __signature__(self) -> Signature:
        """The fields as parameters, for `help`; annotations stay text, as many are imported for type checkers only."""
        from inspect import Parameter, Signature

        required = len(self.__struct_fields__) - len(self.__struct_defaults__)
        defaults = (*[Parameter.empty] * required, *self.__struct_defaults__)
        annotations: dict[str, object] = {}
        for base in reversed(self.__mro__):
            annotations.update(getattr(base, "__annotations__", {}))
        parameters = [
            Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=annotations[name])
            for name, default in zip(self.__struct_fields__, defaults, strict=True)
        ]
        return Signature(parameters)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Record(Struct, metaclass=_RecordType, frozen=True):
    """Base of frozen records: thirty times cheaper to import than frozen, slotted dataclasses.

    A record that caches what it works out (`functools.cached_property`) is declared with ``dict=True``, and one that is
    told apart by identity with ``eq=False``. What changes while it lives is a `msgspec.Struct` or a class.

    Examples
    --------
    >>> class Size(Record):
    ...     width: int
    ...     height: int = 1
    >>> Size(2), Size(2) == Size(2, height=1), len({Size(2), Size(2, 1)})
    (Size(width=2, height=1), True, 1)
    """
