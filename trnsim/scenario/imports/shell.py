"""Options in a shell script, a command line or a file of arguments. Nothing is run; what only a shell knows stays open."""

from __future__ import annotations

import ast
import operator
import re
from typing import TYPE_CHECKING, Final

from trnsim.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["Option", "options_of"]

_TOKEN: Final = re.compile(
    r"""(?P<comment>(?<!\S)\#[^\n]*)
      | (?P<joined>\\\r?\n)
      | (?P<end>[\n;|])
      | (?P<word>(?:"(?:[^"\\]|\\.)*"|'[^']*'|\$\(\([^\n]{0,200}?\)\)|\$\{[^}\n]{0,200}\}|\\[^\n]|[^\s"'\\;|]|["'\\])+)
    """,
    re.VERBOSE | re.DOTALL,
)
_OPTION: Final = re.compile(r"--([A-Za-z][\w-]*)(?:=(.*))?", re.DOTALL)
_ASSIGNED: Final = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_ARRAY: Final = re.compile(r"\w+\+?=\(")
_VARIABLE: Final = re.compile(r"\$\{(?P<braced>\w+)(?::?-(?P<default>[^}]*))?\}|\$(?P<plain>\w+)")
_ARITHMETIC: Final = re.compile(r"\$\(\(([\w\s$+*/{}()-]{1,200})\)\)")
_QUOTED: Final = re.compile(r"""\w*\+?=?(?:"((?:[^"\\]|\\.)*)"|'([^']*)')\)?""", re.DOTALL)
_CONTINUES: Final = re.compile(r"[\d$]")
_LEVELS: Final = 4
"""Quotes within quotes, and variables within variables, are followed so far."""

_OPERATORS: Final[Mapping[type[ast.operator], Callable[[int, int], int]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.floordiv,
}


class Option(Record):
    """An option as it is written.

    Parameters
    ----------
    name
        Without its dashes, with underscores.
    values
        The words behind it, with variables filled in where the script gives them one value.
    line
        Where it stands, from 1.
    conditional
        Whether it stands in an ``if`` or a ``case``.
    """

    name: str
    values: tuple[str, ...]
    line: int
    conditional: bool


class _Word(Record):
    """A word with its line. An empty one ends a command, and a line break does unless a value is still due."""

    text: str
    line: int


def options_of(text: str) -> tuple[Option, ...]:
    r"""Return every long option of a text, in order, wherever it stands: in an array, a variable or a command.

    Examples
    --------
    >>> script = "TP=8\nARGS=(--tensor-model-parallel-size $TP --swiglu)  # --bf16\nrun ${ARGS[@]}"
    >>> [(option.name, option.values, option.line) for option in options_of(script)]
    [('tensor_model_parallel_size', ('8',), 2), ('swiglu', (), 2)]
    """
    reader = _Reader()
    for word in _words(text, 1, _LEVELS):
        reader.take(word)
    reader.close()
    return tuple(reader.options)


class _Reader:
    """Follows the words of a script: its variables, its conditions, the option that is open."""

    def __init__(self) -> None:
        self.options: list[Option] = []
        self._variables: dict[str, str | None] = {}  # None: a condition decides
        self._depth = 0
        self._is_first = True
        self._open: tuple[str, int, bool] | None = None
        self._values: list[str] = []

    def take(self, word: _Word) -> None:
        if word.text in {"", "\n"}:
            if self._values or not word.text:
                self.close()
            self._is_first = True
            return
        option = _OPTION.fullmatch(word.text)
        if option is not None:
            self.close()
            self._open = option[1].replace("-", "_"), word.line, self._depth > 0
            self._values = [] if option[2] is None else [self._filled(option[2])]
        elif self._open is not None and (not self._is_first or _CONTINUES.match(word.text)):
            if "[@]" not in word.text and "[*]" not in word.text:
                self._values.append(self._filled(word.text))
        else:
            self.close()
            self._plain(word.text)
        self._is_first = False

    def close(self) -> None:
        if self._open is not None:
            name, line, conditional = self._open
            self.options.append(Option(name, tuple(self._values), line, conditional))
        self._open, self._values = None, []

    def _plain(self, text: str) -> None:
        """Note a variable, or the beginning or end of a condition."""
        if self._is_first:
            self._depth = max(0, self._depth + (text in {"if", "case"}) - (text in {"fi", "esac"}))
        assigned = _ASSIGNED.fullmatch(text)
        if assigned is not None:
            name, value = assigned[1], self._filled(assigned[2])
            differs = self._depth > 0 and self._variables.get(name) != value
            self._variables[name] = None if differs else value

    def _filled(self, text: str) -> str:
        """Return a word without quotes, with the values of variables and of sums and products of them."""
        for _ in range(_LEVELS):
            text = _VARIABLE.sub(self._value, text)[:1000]
        return _ARITHMETIC.sub(
            lambda found: _calculated(found, self._variables), text.replace('"', "").replace("'", "")
        )

    def _value(self, found: re.Match[str]) -> str:
        name = found["braced"] or found["plain"]
        default = found["default"]
        if name in self._variables:
            value = self._variables[name]
            return found[0] if value is None else value
        return found[0] if default is None else default


def _words(text: str, line: int, levels: int) -> Iterator[_Word]:
    """Yield the words of a text and the ends of its commands and lines; words with options in them are taken apart."""
    position = 0
    for token in _TOKEN.finditer(text):
        line += text.count("\n", position, token.start())
        position = token.start()
        if token["end"] is not None:
            yield _Word("\n" if token["end"] == "\n" else "", line)
        elif token["word"] is not None:
            yield from _parts(token["word"], line, levels)


def _parts(word: str, line: int, levels: int) -> Iterator[_Word]:
    word = _ARRAY.sub("", word, count=1) if _ARRAY.match(word) else word
    closes = word.count(")") > word.count("(")
    word = word.removesuffix(")") if closes else word
    quoted = _QUOTED.fullmatch(word)
    inner = "" if quoted is None else (quoted[1] or quoted[2] or "")
    if levels and "--" in inner and inner.split() != [inner]:
        yield from _words(inner, line, levels - 1)
        closes = True
    elif word:
        yield _Word(word[1:-1] if quoted and word[0] in "\"'" else word, line)
    if closes:
        yield _Word("", line)


def _calculated(found: re.Match[str], variables: Mapping[str, str | None]) -> str:
    """Return the value of shell arithmetic over whole numbers and known variables, or the text as it is."""
    try:
        value = _evaluated(ast.parse(found[1].replace("$", "").strip(), mode="eval").body, variables)
    except (SyntaxError, ValueError, ArithmeticError, RecursionError, MemoryError):
        return found[0]
    return str(value)


def _evaluated(node: ast.expr, variables: Mapping[str, str | None]) -> int:
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_evaluated(node.left, variables), _evaluated(node.right, variables))
    if isinstance(node, ast.Name):
        return int(variables.get(node.id) or "")
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    raise ValueError("no arithmetic of whole numbers")
