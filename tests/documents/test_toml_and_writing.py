"""TOML that is read, and YAML that is written."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.documents import commented_yaml, read_toml
from trnsim.documents.text import Faulty
from trnsim.documents.toml_text import parse_toml
from trnsim.documents.yaml12 import parse_yaml
from trnsim.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"], exclude_characters="\ufeff"))
PLAIN = st.one_of(st.integers(-(10**6), 10**9), st.booleans(), st.floats(allow_nan=False), TEXTS)
WORDS = st.from_regex(r"[a-z]{1,6}", fullmatch=True)


def test_lines_of_keys() -> None:
    text = "top = 1\n\n[a]  # table\nb = 2\nc.d = 3\n[a.e]\nf = '''\nx = 1\n'''\n"
    lines = parse_toml(text).lines
    wanted = {"top": 1, "a": 3, "a.b": 4, "a.c.d": 5, "a.e": 6, "a.e.f": 7}
    assert {key: lines[key] for key in wanted} == wanted


def test_dates_are_text() -> None:
    assert parse_toml("d = 2026-11-30\nt = [07:32:00]").data == {"d": "2026-11-30", "t": ["07:32:00"]}


@pytest.mark.parametrize(
    ("text", "line"),
    [("a = \n", 1), ("a = 1\nb = [\n", None), ("a = 1\na = 2\n", 2), ("a = " + "[" * 100 + "]" * 100, None)],
)
def test_fault_names_its_line_where_it_is_known(text: str, line: int | None) -> None:
    with pytest.raises(Faulty) as caught:
        parse_toml(text)
    (problem,) = caught.value.problems
    assert problem.line == line


@pytest.mark.parametrize("text", ["a = " + "9" * 5000, "[" * 20_000, "a = " + "{b=" * 3000])
def test_absurd_text_is_a_fault(text: str) -> None:
    with pytest.raises(Faulty):
        parse_toml(text)


@given(st.text(max_size=60))
def test_any_text_is_read_as_tomllib_reads_it_or_is_a_fault(text: str) -> None:
    try:
        data = parse_toml(text).data
    except Faulty:
        return
    assert data.keys() == tomllib.loads(text).keys()


def test_missing_file_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_toml(tmp_path / "nowhere.toml")


@given(
    st.dictionaries(
        WORDS, st.one_of(PLAIN, st.lists(PLAIN, max_size=3), st.dictionaries(WORDS, PLAIN, min_size=1, max_size=3))
    )
)
def test_what_is_written_is_read_back(data: dict[str, Any]) -> None:
    # law: reading undoes writing, and comments change nothing
    comments = dict.fromkeys(data, "a comment: # with [signs]")
    text = commented_yaml({"first": 1, **data}, comments, ["head: {", "more"])
    assert parse_yaml(text).data == {"first": 1, **data}
    assert text.startswith("# head: {\n# more\n")
    assert text.count("# a comment: # with [signs]") == len(data)
