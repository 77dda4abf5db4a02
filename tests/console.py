"""Blocks of code in the documentation: files that a page writes, commands that it runs, what they show."""

from __future__ import annotations

import io
import re
import shlex
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

from trnsim.cli import main
from trnsim.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterator

REPOSITORY = Path(__file__).parents[1]
PAGES = (REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md")))
ANYTHING = "..."


class Command(Record):
    """A command of a console block.

    Parameters
    ----------
    line
        What stands behind the prompt.
    shown
        The lines below it. ``...`` stands for any lines, or inside a line for any text.
    code
        Exit code, as a following ``echo $?`` shows it; else 0.
    """

    line: str
    shown: tuple[str, ...]
    code: int = 0


def name_of(page: Path) -> str:
    """Return the path of a page, for the names of tests."""
    return page.relative_to(REPOSITORY).as_posix()


def blocks(page: Path, language: str) -> list[str]:
    """Return the blocks of one language on a page."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def files(page: Path) -> Iterator[tuple[Path, str]]:
    """Yield the files that a page writes: blocks of YAML, Python or text whose first line is a comment with a path."""
    for language in ("yaml", "python", "text"):
        for block in blocks(page, language):
            if match := re.match(r"# (\S+\.(?:yaml|py|txt))\n", block):
                yield Path(match[1]), block


def commands(block: str) -> list[Command]:
    """Read the commands of a console block, with the lines that each shows."""
    found: list[Command] = []
    for part in re.split(r"^\$ ", block.replace("\\\n", " "), flags=re.MULTILINE)[1:]:
        line, *shown = part.rstrip("\n").split("\n")
        if line == "echo $?":
            found[-1] = Command(found[-1].line, found[-1].shown, int(shown[0]))
        else:
            found.append(Command(line, tuple(shown)))
    return found


def run(line: str) -> tuple[str, int]:
    """Run a `trnsim` command in this process; return what the terminal would show, and the exit code."""
    words, _, target = line.partition(" > ")
    terminal, file = io.StringIO(), io.StringIO()
    with redirect_stdout(file if target else terminal), redirect_stderr(terminal):
        try:
            main(shlex.split(words)[1:])
        except SystemExit as end:
            code = end.code
    if target:
        Path(target.strip()).write_text(file.getvalue(), encoding="utf-8")
    return terminal.getvalue(), code if isinstance(code, int) else 0


def shows(shown: tuple[str, ...], text: str) -> bool:
    """Say whether lines of a page, with their ellipses, are the output of a command."""
    patterns = (r"(?:.*\n)*?" if line == ANYTHING else _pattern(line) + r"[ ]*\n" for line in shown)
    return not shown or re.fullmatch("".join(patterns), text) is not None


def refreshed(shown: tuple[str, ...], text: str) -> tuple[str, ...]:
    """Return the lines of a page as the command prints them now: those that no longer appear, by the nearest ones."""
    from difflib import get_close_matches

    actual = [line.rstrip() for line in text.splitlines()]
    return tuple(
        line
        if line == ANYTHING or any(re.fullmatch(_pattern(line), other) for other in actual)
        else next(iter(get_close_matches(line, actual, n=1, cutoff=0.0)), line)
        for line in shown
    )


def _pattern(line: str) -> str:
    return re.escape(line).replace(re.escape(ANYTHING), ".*?")
