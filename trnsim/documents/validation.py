"""A document against a pydantic model: every problem at once, in words for the person who wrote the file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from trnsim.documents.names import nearest
from trnsim.documents.text import join_key, split_key
from trnsim.errors import InputError, Problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic.fields import FieldInfo

    from trnsim.documents.document import Document

__all__ = ["keys_of", "meant_key", "problems_of", "validate"]

Model = TypeVar("Model", bound=BaseModel)


def validate(document: Document, model: type[Model], synonyms: Mapping[str, str] | None = None) -> Model:
    """Check the values of a document and return them typed.

    Parameters
    ----------
    document
        What the user wrote.
    model
        What is due.
    synonyms
        Words that users bring from elsewhere, and the key each stands for: ``{"tensor": "tp"}``.

    Raises
    ------
    InputError
        With every problem of the document: line, key path, value, what is due, and near matches of unknown keys.
    """
    try:
        return model.model_validate(document.data)
    except ValidationError as error:
        raise InputError(_problems(document, model, error, synonyms or {}), file=document.name) from None


def problems_of(
    document: Document, model: type[BaseModel], synonyms: Mapping[str, str] | None = None
) -> tuple[Problem, ...]:
    """Return every problem of a document, as :func:`validate` would report it."""
    try:
        model.model_validate(document.data)
    except ValidationError as error:
        return _problems(document, model, error, synonyms or {})
    return ()


def keys_of(model: type[BaseModel], table: str = "") -> tuple[str, ...]:
    """Return the keys of a table of a model, in their order.

    Parameters
    ----------
    model
        The model of the whole document.
    table
        Dotted path of the table; empty for the top.
    """
    inner = _model_at(model, table)
    return () if inner is None else tuple(field.alias or name for name, field in inner.model_fields.items())


def meant_key(model: type[BaseModel], table: str, key: str, synonyms: Mapping[str, str] | None = None) -> str | None:
    """Return the path of the key that an unknown one probably means, or ``None``.

    A synonym or the same word names a key of this table, or else of another; otherwise a key of this table is near.

    Parameters
    ----------
    model
        The model of the whole document.
    table
        Dotted path of the table in which the unknown key stands; empty for the top.
    key
        The unknown key.
    synonyms
        As in :func:`validate`.
    """
    same = _same_key(model, table, key, synonyms or {})
    near = nearest(key, keys_of(model, table), n=1)
    return same or (join_key(table, near[0]) if near else None)


def _problems(
    document: Document, model: type[BaseModel], error: ValidationError, synonyms: Mapping[str, str]
) -> tuple[Problem, ...]:
    """Return the first problem of each key."""
    found: dict[str, Problem] = {}
    for detail in error.errors(include_url=False):
        problem = _problem(document, model, detail, synonyms)
        found.setdefault(problem.key, problem)
    return tuple(found.values())


def _problem(document: Document, model: type[BaseModel], detail: Any, synonyms: Mapping[str, str]) -> Problem:
    *tables, last = _steps(document.data, detail["loc"])
    table = ""
    for step in tables:
        table = join_key(table, step)
    key = join_key(table, last)
    if detail["type"] == "extra_forbidden":
        return document.problem(key, _unknown_key(model, table, str(last), synonyms), value=None)
    if detail["type"] == "missing":
        return document.problem(key, "missing" + _description(model, table, str(last)), value=None)
    return document.problem(key, _message(detail))


def _steps(data: Any, location: Sequence[str | int]) -> list[str | int]:
    """Return the steps of a location that exist in the data, and a missing last one; the tags of unions are dropped."""
    steps: list[str | int] = []
    for step in location:
        if isinstance(data, dict | list) and (step in data if isinstance(data, dict) else isinstance(step, int)):
            data = data[step]  # type: ignore[index]
            steps.append(step)
    if isinstance(data, dict) and location[-1] not in steps[-1:]:
        steps.append(location[-1])
    return steps


def _unknown_key(model: type[BaseModel], table: str, key: str, synonyms: Mapping[str, str]) -> str:
    meant = meant_key(model, table, key, synonyms)
    if meant == join_key(table, key):
        return f"a {table} of this kind has no such key"
    hint = "unknown key;" + (f" did you mean {meant}?" if meant else "")
    if _same_key(model, table, key, synonyms):
        return hint
    return f"{hint} the keys {'of ' + table if table else 'here'} are {', '.join(keys_of(model, table))}"


def _same_key(model: type[BaseModel], table: str, key: str, synonyms: Mapping[str, str]) -> str | None:
    """Return the path of the key that `key` spells otherwise: in its own table, at the top, or in another table."""
    word = key.casefold().replace("-", "_")
    word = synonyms.get(word, word)
    places = (table, "", *keys_of(model))
    return next((join_key(place, word) for place in places if word in keys_of(model, place)), None)


def _description(model: type[BaseModel], table: str, key: str) -> str:
    inner = _model_at(model, table)
    field = None if inner is None else _field(inner, key)
    return f"; {field.description}" if field is not None and field.description else ""


def _model_at(model: type[BaseModel], table: str) -> type[BaseModel] | None:
    """Return the model of the table at a key path, or ``None`` where there is none."""
    found: type[BaseModel] | None = model
    for step in split_key(table):
        field = None if found is None else _field(found, str(step))
        if field is not None:
            found = _inner_model(field.annotation)
    return found


def _field(model: type[BaseModel], key: str) -> FieldInfo | None:
    fields = model.model_fields.items()
    return next((field for name, field in fields if (field.alias or name) == key), None)


def _inner_model(annotation: Any) -> type[BaseModel] | None:
    """Return the model in an annotation such as ``dict[str, Model] | None``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _inner_model(part)) is not None), None)


def _message(detail: Any) -> str:
    context = detail.get("ctx", {})
    written = _TYPES.get(detail["type"])
    if written is not None:
        return written.format(**context)
    if detail["type"] == "value_error":
        return str(context["error"])
    message = str(detail["msg"])
    return message[0].lower() + message[1:]


_TYPES = {
    "bool_type": "true or false is due",
    "dict_type": "a table of keys is due",
    "finite_number": "a finite number is due",
    "float_type": "a number is due",
    "greater_than": "a number above {gt:,} is due",
    "greater_than_equal": "a number of at least {ge:,} is due",
    "int_type": "a whole number is due",
    "less_than": "a number below {lt:,} is due",
    "less_than_equal": "a number of at most {le:,} is due",
    "list_type": "a list is due",
    "literal_error": "choose from {expected}",
    "model_attributes_type": "a table of keys is due",
    "model_type": "a table of keys is due",
    "string_pattern_mismatch": "text of the form {pattern} is due",
    "string_too_short": "some text is due",
    "string_type": "text is due",
    "too_short": "an empty list; at least {min_length} is due in it",
    "union_tag_invalid": "{discriminator} is one of {expected_tags}",
    "union_tag_not_found": "missing key {discriminator}",
}
