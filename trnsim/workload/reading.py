"""Models from files: the catalog's, a user's, or a Hugging Face ``config.json``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trnsim.documents import locate, names, read_document, validate
from trnsim.errors import InputError
from trnsim.workload.huggingface import is_huggingface, parse_huggingface
from trnsim.workload.model import ShapeError
from trnsim.workload.table import ModelTable

if TYPE_CHECKING:
    from trnsim.documents import Document
    from trnsim.workload.model import Transformer

__all__ = ["load_model", "model_names", "read_model"]


def model_names() -> tuple[str, ...]:
    """Return the names of the models in the catalog, sorted."""
    return names("models", _catalog())


def load_model(name_or_path: str, relative_to: Path | None = None) -> Transformer:
    """Read a model from the catalog or from a file; an existing path beats a name.

    Parameters
    ----------
    name_or_path
        A name such as ``"llama3.1-405b"``, or a file in trnsim's own keys or as Hugging Face writes it.
    relative_to
        Folder to which a path is relative; by default the working directory.

    Raises
    ------
    InputError
        If there is no such model, with near matches, or with every problem of the file.

    Examples
    --------
    >>> load_model("llama3.1-405b").parameters
    405853388800
    """
    return read_model(read_document(locate("models", name_or_path, relative_to, _catalog())))


def read_model(document: Document) -> Transformer:
    """Read a model from a document.

    A document with ``model_type`` or ``architectures`` is one of Hugging Face, any other uses the keys of `ModelTable`.

    Raises
    ------
    InputError
        With every problem of the document.
    """
    name = _name(document)
    if is_huggingface(document.data):
        try:
            return parse_huggingface(document.data, name)
        except InputError as error:
            problems = [document.problem(problem.key, problem.message) for problem in error.problems]
            raise InputError(problems, file=document.name) from None
    try:
        return validate(document, ModelTable).transformer(name)
    except ShapeError as error:
        raise InputError([document.problem(*broken) for broken in error.broken], file=document.name) from None


def _name(document: Document) -> str:
    if document.path is None:
        return document.name
    return document.path.resolve().parent.name if document.path.stem == "config" else document.path.stem


def _catalog() -> Path:
    return Path(__file__).parent / "catalog"
