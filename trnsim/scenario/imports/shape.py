"""The model of an imported scenario: named by the user, or written out from what the file says; never guessed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import asdict

from trnsim.documents import Document, existing, read_document
from trnsim.errors import InputError, Problem
from trnsim.workload import ModelTable, is_huggingface, load_model, read_model

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from trnsim.scenario.imports.translation import Translation
    from trnsim.workload import Transformer

__all__ = ["huggingface_shape", "named_shape", "written_shape"]

_SIZES: Final = ("layers", "hidden_size", "attention_heads", "ffn_size", "vocabulary")
_KEPT: Final = (*_SIZES, "kv_heads", "head_dim", "gated_mlp", "tied_embeddings")


def named_shape(translation: Translation) -> Transformer | None:
    """Write the model of ``--model``, which must not contradict the file; ``None`` with problems."""
    name = translation.options.model
    if name is None:
        raise ValueError("no model is named")
    try:
        model = load_model(name)
    except InputError as error:
        inside = (f"{problem.key}: {problem.message}" if problem.key else problem.message for problem in error.problems)
        translation.problems.extend(Problem("--model", message, value=name) for message in inside)
        return None
    for to in [key for key in translation.entries if key.startswith("model.")]:
        said, origin = translation.entries.pop(to), translation.origins.pop(to)
        has = getattr(model, to.removeprefix("model."), said)
        if said != has:
            translation.refuse(origin, f"{model.name}, which --model names, has {has}")
    if translation.options.vocabulary not in {None, model.vocabulary}:
        message = f"{model.name}, which --model names, has {model.vocabulary}"
        translation.problems.append(Problem("--vocabulary", message, value=str(translation.options.vocabulary)))
    translation.write("model", translation.path(name), "--model")
    return model


def written_shape(translation: Translation, missing: Mapping[str, str]) -> Transformer | None:
    """Check the shape that was written key by key, after the vocabulary of the options.

    Parameters
    ----------
    translation
        With entries below ``model.``.
    missing
        The key of the file that should say a size, by the key of `ModelTable`; the vocabulary apart.

    Returns
    -------
    Transformer or None
        None with a problem for every size that nobody said, and for sizes that contradict each other.
    """
    _take_vocabulary(translation)
    for size, key in missing.items():
        translation.need(key, f"model.{size}", "; add it, or pass --model NAME|FILE")
    if "model.vocabulary" not in translation.entries:
        message = "missing: a tokenizer has no size in the file; pass --vocabulary N, or --model NAME|FILE"
        translation.refuse("model.vocabulary", message)
    table = {to.removeprefix("model."): value for to, value in translation.entries.items() if to.startswith("model.")}
    if any(size not in table for size in _SIZES):
        return None
    try:
        return read_model(Document("model", None, _nested(table)))
    except InputError as error:
        for problem in error.problems:
            origin = translation.origins.get(f"model.{problem.key}", "")
            known = translation.document.value_of(origin) is not None if origin else False
            translation.refuse(origin if known else f"model.{problem.key}", problem.message)
        return None


def huggingface_shape(translation: Translation, key: str, overrides: Mapping[str, str]) -> Transformer | None:
    """Write the shape of the Hugging Face configuration that a key names, with the sizes by which the file overrides it.

    Parameters
    ----------
    translation
        Without entries below ``model.``.
    key
        Its value is a path: as it is written, or relative to the file.
    overrides
        Keys of the configuration, by the key of the file that replaces them.

    Returns
    -------
    Transformer or None
        None with a problem where there is no such file, or no shape in it.
    """
    named = translation.value(key)
    if named is None:
        translation.refuse(key, "missing, and the model's shape is in it; pass --model NAME|FILE")
        return None
    path = _found(translation, named)
    if path is None:
        translation.refuse(key, "no such file here, and the model's shape is in it; pass --model NAME|FILE")
        return None
    try:
        document = read_document(path)
        if not is_huggingface(document.data):
            translation.refuse(key, "no model as Hugging Face writes it: model_type is missing")
            return None
        said = {inner: translation.value(outer) for outer, inner in overrides.items()}
        replaced = {inner: value for inner, value in said.items() if value not in {None, document.data.get(inner)}}
        model = read_model(Document(document.name, path, document.data | replaced, document.lines))
    except InputError as error:
        translation.problems.extend(error.problems)
        return None
    _write_out(translation, model, f"{key}" + (f", with {', '.join(replaced)} of this file" if replaced else ""))
    return model


def _found(translation: Translation, named: str) -> Path | None:
    path = translation.document.path
    return existing(named, None if path is None else path.parent) or existing(named)


def _write_out(translation: Translation, model: Transformer, origin: str) -> None:
    """Write the sizes of a model, and whatever is not as usual, key by key."""
    for name, field in ModelTable.model_fields.items():
        value = getattr(model, name, None)
        if name in {"source", "notes", "mixture", "mla"} or value is None:
            continue
        if name in _KEPT or value != field.get_default(call_default_factory=True):
            translation.write(f"model.{name}", value, origin)
    for part in ("mixture", "mla"):
        inner = getattr(model, part)
        for name, value in ({} if inner is None else asdict(inner)).items():
            if value is not None:
                translation.write(f"model.{part}.{name}", list(value) if isinstance(value, tuple) else value, origin)


def _take_vocabulary(translation: Translation) -> None:
    given, said = translation.options.vocabulary, translation.entries.get("model.vocabulary")
    if given is not None and said not in {None, given}:
        translation.refuse(translation.origins["model.vocabulary"], f"--vocabulary says {given}")
    elif given is not None:
        translation.write("model.vocabulary", given, "--vocabulary")


def _nested(table: Mapping[str, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for key, value in table.items():
        outer, dot, inner = key.partition(".")
        if dot:
            nested.setdefault(outer, {})[inner] = value
        else:
            nested[outer] = value
    return nested
