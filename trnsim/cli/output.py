"""Where output goes: standard output, standard error, files."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import rich_click as click

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = [
    "STDOUT",
    "Drawing",
    "make_directory",
    "output_directory",
    "output_figure",
    "output_file",
    "output_file_or_stdout",
    "refuse_overwriting",
    "say",
    "write",
    "write_figure",
]

STDOUT = Path("-")

_FIGURES = (".png", ".svg", ".pdf")

_CUT_SHORT = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
"""What the system says when only a part of a file could be written."""


class Drawing(Protocol):
    """A figure that can be written."""

    def savefig(self, target: Path, /) -> None:
        """Write it in the format that the name of the file says."""


def say(text: str, *, to_stderr: bool = False) -> None:
    """Print text; a reader that has gone away (``| head``) is no error, and of standard error nobody can be told."""
    stream = sys.stderr if to_stderr else sys.stdout
    try:
        click.echo(text, file=stream, nl=not text.endswith("\n"))
        stream.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())  # what is left in the buffer goes nowhere
        if not to_stderr and not isinstance(error, BrokenPipeError):
            raise click.UsageError(f"cannot write standard output: {error.strerror}") from None


def write(target: Path, text: str) -> None:
    """Write a file, or standard output when the target is ``-``."""
    if target == STDOUT:
        say(text)
        return
    with _sentences(target):
        target.write_text(text, encoding="utf-8", errors="backslashreplace", newline="\n")


def write_figure(target: Path, figure: Drawing) -> None:
    """Write a figure in the format that the name of the file says."""
    with _sentences(target):
        figure.savefig(target)


def make_directory(directory: Path) -> None:
    """Make a directory to write into, unless it is there."""
    with _sentences(directory):
        directory.mkdir(exist_ok=True)


@contextmanager
def _sentences(target: Path) -> Iterator[None]:
    """Turn a refusal of the system into a sentence, and leave no part of a file behind."""
    try:
        yield
    except OSError as error:
        if error.errno in _CUT_SHORT and target.is_file():
            target.unlink(missing_ok=True)
        raise click.UsageError(f"cannot write {target}: {error.strerror}") from None


def output_file(ctx: click.Context, param: click.Parameter, value: str | None) -> Path | None:
    """Check the path of a file to write, before any work is done: an option callback."""
    if value is None:
        return None
    if value == "-":
        raise click.BadParameter("standard output is for the summary; name a file", ctx, param)
    path = _path(ctx, param, value)
    if path.is_dir():
        raise click.BadParameter(f"{path} is a directory, not a file", ctx, param)
    return _writable(ctx, param, path)


def output_figure(ctx: click.Context, param: click.Parameter, value: str | None) -> Path | None:
    """Check the path of a picture to write: an option callback."""
    path = output_file(ctx, param, value)
    if path is not None and path.suffix not in _FIGURES:
        raise click.BadParameter(f"{path} is no picture; its name ends in {', '.join(_FIGURES)}", ctx, param)
    return path


def output_file_or_stdout(ctx: click.Context, param: click.Parameter, value: str | None) -> Path | None:
    """Check the path of a file to write, with ``-`` for standard output: an option callback."""
    return STDOUT if value == "-" else output_file(ctx, param, value)


def output_directory(ctx: click.Context, param: click.Parameter, value: str | None) -> Path | None:
    """Check the path of a directory to write into; it may be new, its parent must exist: an option callback."""
    if value is None:
        return None
    if value == "-":
        raise click.BadParameter("standard output is no directory", ctx, param)
    path = _path(ctx, param, value)
    if path.exists() and not path.is_dir():
        raise click.BadParameter(f"{path} is a file, not a directory", ctx, param)
    return _writable(ctx, param, path)


def refuse_overwriting(inputs: Sequence[str], **outputs: Path | None) -> None:
    """Refuse an output in place of an input, and two outputs in one file.

    Parameters
    ----------
    inputs
        Files or names that a command reads.
    **outputs
        What it writes, by option.
    """
    from trnsim.documents import existing

    taken = {path.resolve(): "the scenario" for file in inputs if (path := existing(file)) is not None}
    for option, path in outputs.items():
        if path is None or path == STDOUT or (path.exists() and not path.is_file()):
            continue
        other = taken.setdefault(path.resolve(), f"--{option}")
        if other != f"--{option}":
            raise click.UsageError(f"--{option} and {other} are the same file, {path}")


def _path(ctx: click.Context, param: click.Parameter, value: str) -> Path:
    """Return the path that a user wrote, or raise: it is empty, or too long for the system."""
    if not value:
        raise click.BadParameter("a path is due, and this is empty", ctx, param)
    path = Path(value)
    try:
        path.exists()
    except OSError as error:
        raise click.BadParameter(f"no path: {error.strerror}", ctx, param) from None
    return path


def _writable(ctx: click.Context, param: click.Parameter, path: Path) -> Path:
    """Return a path that can be written, or raise: its directory is missing or closed to us."""
    folder = path.absolute().parent
    if not folder.is_dir():
        raise click.BadParameter(f"the directory {path.parent} does not exist", ctx, param)
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise click.BadParameter(f"{path} cannot be written: permission denied", ctx, param)
    return path
