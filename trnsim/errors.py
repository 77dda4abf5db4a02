"""The errors that trnsim raises on purpose, and what each means to a shell.

::

    Exception
    └── TrnsimError                  exit_code
        ├── InputError               2, or 3 when the input is legal and only the cluster is too small
        ├── SimulationStalledError   4
        └── FoldingError             1

Anything else that escapes is a bug of ours (exit code 70). A ``ValueError`` from a function of the Python interface
says that an argument is outside the range its docstring gives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from trnsim.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["FoldingError", "InputError", "Problem", "SimulationStalledError", "TrnsimError"]


class TrnsimError(Exception):
    """The base of every error that a caller of trnsim is meant to catch."""

    exit_code: int = 1


class Problem(Record):
    """One thing that is wrong with an input.

    Parameters
    ----------
    key
        Dotted path of the key at fault, as in ``layout.tp``; empty for the file as a whole.
    message
        The rule with its arithmetic, and the nearest valid choice.
    line
        Line of the key in its file, counted from 1; ``None`` where there is none.
    value
        The value as the user wrote it; ``None`` where the value is not the point.
    capacity
        True when the input is legal and only the cluster is too small for it.
    overridden
        True when the value comes from ``--set`` and not from the file.
    file
        The file at fault; ``None`` stands for the file that the error names.
    """

    key: str
    message: str
    line: int | None = None
    value: str | None = None
    capacity: bool = False
    overridden: bool = False
    file: str | None = None

    @property
    def place(self) -> str:
        """Where to look: ``line 12``, ``--set``, or nothing."""
        if self.overridden:
            return "--set"
        return "" if self.line is None else f"line {self.line}"

    @property
    def subject(self) -> str:
        """The key, with its value where that says more: ``layout.tp = 24``."""
        return self.key if self.value is None else f"{self.key} = {self.value}"


class InputError(TrnsimError):
    """An input breaks rules; carries every broken rule that was found.

    Parameters
    ----------
    problems
        At least one; those without a file of their own belong to `file`.
    file
        Name of the input as the user knows it.

    Attributes
    ----------
    problems : tuple of Problem
        Each with its file filled in.
    file : str
        As given.
    exit_code : int
        3 when every problem is one of capacity, else 2: a broken rule wins over a small cluster.

    Examples
    --------
    >>> print(InputError([Problem("layout.tp", "64 attention heads cannot be split 24 ways", 14, "24")], file="a.yaml"))
    a.yaml: 1 problem
      line 14  layout.tp = 24  64 attention heads cannot be split 24 ways
    """

    def __init__(self, problems: Iterable[Problem], *, file: str) -> None:
        self.file = file
        self.problems = tuple(replace(problem, file=problem.file or file) for problem in problems)
        self.exit_code = 3 if all(problem.capacity for problem in self.problems) else 2
        super().__init__(_report(self.problems))

    def __reduce__(self) -> tuple[object, ...]:
        """Let the error travel between processes, its keyword argument included."""
        return _input_error, (self.problems, self.file)


class SimulationStalledError(TrnsimError):
    """Nothing is left to happen and somebody still waits; the text names who, for what, and who never came."""

    exit_code = 4


class FoldingError(TrnsimError):
    """With ``run.folding: verify``, a rank that is simulated for others does not do what it does alone."""


def _input_error(problems: Sequence[Problem], file: str) -> InputError:
    return InputError(problems, file=file)


def _report(problems: Sequence[Problem]) -> str:
    by_file: dict[str, list[Problem]] = {}
    for problem in problems:
        by_file.setdefault(problem.file or "", []).append(problem)
    return "\n".join(_report_of_file(file, of_file) for file, of_file in by_file.items())


def _report_of_file(file: str, problems: list[Problem]) -> str:
    """Write a headline and one row per problem, in the order of the file; columns that say nothing are left out."""
    ordered = sorted(problems, key=lambda problem: (problem.line is None, problem.line or 0))
    columns = [[p.place for p in ordered], [p.subject for p in ordered], [p.message for p in ordered]]
    padded = [[cell.ljust(max(map(len, column))) for cell in column] for column in columns if any(column)]
    rows = ("  " + "  ".join(cells).rstrip() for cells in zip(*padded, strict=True))
    return "\n".join([f"{file or '(no name)'}: {len(ordered)} problem{'' if len(ordered) == 1 else 's'}", *rows])
