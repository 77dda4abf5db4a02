"""A scenario on the way from its file to its resolved form: what is readable, and what is not to be read.

Problems are collected, not raised at the first, so that one report holds them all. Keys with a problem are *faulty*:
no rule that needs one of them is tried.
"""

from __future__ import annotations

import itertools
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec.structs import replace

from trnsim.documents import Document, meant_key, problems_of, split_key
from trnsim.errors import InputError, Problem
from trnsim.hardware import family_for, load_family, load_server
from trnsim.record import Record
from trnsim.scenario.schema import LATER_TABLES, SYNONYMS, ScenarioFile
from trnsim.scenario.sizes import absurd_size
from trnsim.topology import load_fabric
from trnsim.workload import load_model, read_model, refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from trnsim.hardware import Server, SoftwareFamily
    from trnsim.topology import FabricSpec
    from trnsim.workload import Transformer

__all__ = ["Draft", "read_draft"]

T = TypeVar("T")

_DUE: Final[dict[str, Any]] = {
    "schema": 1,
    "model": "",
    "cluster": {"server": ""},
    "training": {"sequence_length": 1, "global_batch": 1},
}
"""Stand-ins for keys without default that are missing or faulty; nobody reads them."""


class Draft(Record):
    """A scenario whose rules are still to be checked.

    Parameters
    ----------
    document
        What the user wrote.
    file
        The same, typed; faulty keys have their default or a stand-in.
    faulty
        Key paths that have a problem; whatever depends on them is unknown.
    server, family, fabric, model
        What the names in the file stand for; ``None`` where the key is faulty, or no fabric is named.
    """

    document: Document
    file: ScenarioFile
    faulty: frozenset[str]
    server: Server | None
    family: SoftwareFamily | None
    fabric: FabricSpec | None
    model: Transformer | None

    @property
    def lnc(self) -> int | None:
        """Physical cores per logical core: by default the chip's; ``None`` without a server or without NeuronCores."""
        cores = None if self.server is None else self.server.chip.neuron_cores
        return None if cores is None else self.file.cluster.lnc or cores.default_lnc

    def stands(self, keys: Iterable[str]) -> bool:
        """Say whether none of the keys, nor a table around one, is faulty."""
        return not any(path in self.faulty for key in keys for path in (key, key.partition(".")[0]))

    def written(self, key: str) -> bool:
        """Say whether the user wrote a key."""
        return self.document.value_of(key) is not None


def read_draft(document: Document) -> tuple[Draft, list[Problem]]:
    """Read the file as far as it can be read, and the files it names.

    Returns
    -------
    tuple of Draft and list of Problem
        The draft, and everything wrong with keys, values and references; the rules are not checked yet.
    """
    problems = [_renamed(problem) for problem in problems_of(document, ScenarioFile, SYNONYMS)]
    faulty = {key for problem in problems for key in _doubtful(document, problem)}
    file = ScenarioFile.model_validate(_readable(document.data, problems))
    references = _References(document, faulty)
    cluster = file.cluster
    server = references.load("cluster.server", lambda folder: load_server(cluster.server, folder))
    draft = Draft(
        document=document,
        file=file,
        faulty=frozenset(),
        server=server,
        family=references.load("cluster.software", lambda folder: _family(cluster.software, server, folder)),
        fabric=references.load(
            "cluster.fabric", lambda f: None if cluster.fabric is None else load_fabric(cluster.fabric, f)
        ),
        model=references.load("model", lambda folder: _model(document, file.model, folder)),
    )
    references.refuse_models_that_cannot_run(draft.model)
    return replace(draft, faulty=frozenset(faulty)), [*problems, *references.problems]


class _References:
    """Loads the files that a scenario names, and collects what is wrong with them."""

    def __init__(self, document: Document, faulty: set[str]) -> None:
        self.problems: list[Problem] = []
        self._document = document
        self._faulty = faulty

    def load(self, key: str, read: Callable[[Path | None], T]) -> T | None:
        """Return what `read` makes of the value of `key`, or note the problems.

        `read` gets the folder to which paths are relative: that of the file, or ``None`` where ``--set`` gives the value,
        for the working directory.
        """
        if key in self._faulty or key.partition(".")[0] in self._faulty:
            return None
        path = self._document.path
        is_of_the_file = path is not None and not self._document.is_overridden(key)
        try:
            return read(path.parent if path is not None and is_of_the_file else None)
        except InputError as error:
            self._faulty.add(key)
            self.problems.extend(self._at(key, problem) for problem in error.problems)
            return None

    def refuse_models_that_cannot_run(self, model: Transformer | None) -> None:
        """Note a model that can be counted and not yet run, or is of no size that anybody trains."""
        reason = None if model is None else refusal(model) or absurd_size(model)
        if reason is not None:
            self._faulty.add("model")
            self.problems.append(self._document.problem("model", reason))

    def _at(self, key: str, problem: Problem) -> Problem:
        """Put a problem at the key that names the file, unless it lies inside another file."""
        if not problem.key and problem.line is None:
            return self._document.problem(key, problem.message)
        return problem


def _family(name: str | None, server: Server | None, folder: Path | None) -> SoftwareFamily | None:
    if name is not None:
        return load_family(name, folder)
    return None if server is None else family_for(server.chip)


def _model(document: Document, model: str | Mapping[str, Any], folder: Path | None) -> Transformer:
    if isinstance(model, str):
        return load_model(model, folder)
    try:
        return read_model(Document("inline", None, dict(model)))
    except InputError as error:
        keys = ((f"model.{problem.key}" if problem.key else "model", problem) for problem in error.problems)
        inner = [document.problem(key, problem.message, value=problem.value) for key, problem in keys]
        raise InputError(inner, file=document.name) from None


def _renamed(problem: Problem) -> Problem:
    """Say of a table of later work that it is one."""
    if problem.key in LATER_TABLES:
        return replace(problem, message=f"{LATER_TABLES[problem.key]} are not modelled yet; leave the table out")
    return problem


def _doubtful(document: Document, problem: Problem) -> Iterator[str]:
    """Yield the key at fault, and the one that an unknown key probably means, unless the user wrote that one as well."""
    yield problem.key.partition("[")[0]
    *tables, word = map(str, split_key(problem.key)) if problem.key else ("",)
    meant = meant_key(ScenarioFile, ".".join(tables), word, SYNONYMS)
    if meant is not None and document.value_of(meant) is None:
        yield meant


def _readable(data: Mapping[str, Any], problems: Iterable[Problem]) -> dict[str, Any]:
    """Return the data without its faulty keys, with stand-ins where a value is due."""
    kept = deepcopy(dict(data))
    for problem in problems:
        *tables, last = itertools.takewhile(lambda step: isinstance(step, str), split_key(problem.key))
        table: Any = kept
        for step in tables:
            table = table.get(step, {})
        table.pop(last, None)
    for key, stand_in in _DUE.items():
        if isinstance(stand_in, dict):
            kept[key] = {**stand_in, **kept.get(key, {})}
        else:
            kept.setdefault(key, stand_in)
    return kept
