"""The three forms of files in ``topologies/``: fabrics between servers, graphs of chips, and servers of the catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from trnsim.documents import Document, locate, names, read_document
from trnsim.errors import InputError, Problem

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["MARKS", "Form", "form_of", "refuse_other_form", "topology_names"]

Form = Literal["fabric", "graph", "server"]
"""``fabric``: tiers that join servers. ``graph``: chips and links. ``server``: a server of the catalog, all alone."""

MARKS: dict[str, Form] = {"tiers": "fabric", "links": "graph", "server": "server"}
"""The key that only files of a form have."""


def form_of(document: Document) -> Form | None:
    """Return the form of a file; None if it is no topology."""
    return next((form for mark, form in MARKS.items() if mark in document.data), None)


def topology_names(form: Form) -> tuple[str, ...]:
    """Return the names in ``topologies/`` whose files have one form, sorted.

    Examples
    --------
    >>> topology_names("fabric")[-2:]
    ('ultracluster', 'ultracluster-2to1')
    """
    return tuple(name for name in names("topologies") if form_of(read_document(locate("topologies", name))) == form)


def refuse_other_form(path: Path, wanted: Form) -> None:
    """Refuse a file of another form than the one that is wanted, with the names that have it.

    Raises
    ------
    InputError
        If it is of another form. A file of no form has other mistakes.
    """
    form = form_of(read_document(path))
    if form not in (None, wanted):
        message = f"a {form}, where a {wanted} is due: {', '.join(topology_names(wanted))}, or a file of your own"
        raise InputError([Problem("", message)], file=path.name)
