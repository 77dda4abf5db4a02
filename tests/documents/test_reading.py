import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.documents import Document, read_document, with_overrides
from trnsim.documents.json_text import parse_json
from trnsim.documents.text import Faulty
from trnsim.documents.yaml12 import parse_yaml
from trnsim.errors import InputError


def written(folder: Path, text: str, name: str = "a.yaml") -> Path:
    path = folder / name
    path.write_bytes(text.encode())
    return path


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-6", 1e-6),
        ("100e9", 100e9),
        ("3e-4", 3e-4),
        ("1e9", 1e9),
        ("no", "no"),
        ("off", "off"),
        ("yes", "yes"),
        ("true", True),
        ("010", 10),
        ("0o10", 8),
        ("0x10", 16),
        ("1_000", "1_000"),
        ("12:30:45", "12:30:45"),
        ("2026-01-01", "2026-01-01"),
        ("'8'", "8"),
        ("~", None),
        ("-.5", -0.5),
        (".inf", float("inf")),
        ("1.28 TB/s", "1.28 TB/s"),
        ("!!str 8", "8"),
        ("!!int '8'", 8),
        ("! 8", "8"),
        ("9" * 40, 1e40),
        ("9" * 5000, float("inf")),
    ],
)
def test_scalars_follow_the_core_schema_of_yaml_1_2(text: str, value: object) -> None:
    # YAML 1.2.2, section 10.3.2: tag resolution of the core schema
    data = parse_yaml(f"a: {text}").data["a"]
    assert (data, type(data)) == (value, type(value))


KEYS = st.text('abc_.["', min_size=1, max_size=4)
PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**12), 10**12)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text('ab"\\ 1:-é', max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(KEYS, PLAIN, min_size=1, max_size=3), st.sampled_from([None, 1]))
def test_json_means_the_same_read_as_yaml(data: dict[str, object], indent: int | None) -> None:
    # JSON is a subset of YAML 1.2: both readers give the values that were written, and the same lines
    import json

    text = json.dumps(data, indent=indent)
    assert parse_json(text).data == parse_yaml(text).data == data
    assert parse_json(text).lines == parse_yaml(text).lines


@given(st.dictionaries(KEYS, PLAIN, min_size=1, max_size=3))
def test_a_key_path_leads_to_its_value(data: dict[str, object]) -> None:
    # the paths that the readers write are those that a document understands, whatever stands in a key
    import json

    parsed = parse_json(json.dumps(data))
    document = Document("a.json", None, parsed.data, parsed.lines)
    values = [document.value_of(path) for path in parsed.lines]
    assert [value for value in values if not isinstance(value, dict | list)] == list(leaves(data))


def leaves(value: object) -> Iterator[object]:
    """Yield what stands in tables and lists, in the order of the file."""
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from leaves(inner)
    else:
        yield value


@pytest.mark.parametrize("name", ["a.yaml", "a.yml", "a.json"])
def test_lines_are_those_of_the_file_with_bom_and_crlf(tmp_path: Path, name: str) -> None:
    # a key's line is the number of line ends before it, plus one, whatever the line ends are
    document = read_document(written(tmp_path, '\ufeff{"a": 1,\r\n "b": {\r\n  "c": [1,\r\n   2]}}\r\n', name))
    assert document.data == {"a": 1, "b": {"c": [1, 2]}}
    assert [document.line_of(key) for key in ("a", "b", "b.c", "b.c[1]")] == [1, 2, 3, 4]


def test_a_missing_key_has_the_line_of_the_table_around_it(tmp_path: Path) -> None:
    # line_of looks outwards until a line is known
    document = read_document(written(tmp_path, "x: 1\nlayout:\n  tp: 8\n"))
    assert (document.line_of("layout.pp"), document.line_of("layout.pp.deep"), document.line_of("other")) == (
        2,
        2,
        None,
    )


@pytest.mark.parametrize(
    ("name", "text", "line", "reason"),
    [
        ("a.yaml", "", None, "empty"),
        ("a.yaml", "# nothing\n", None, "nothing but comments"),
        ("a.json", "null", None, "no keys"),
        ("a.yaml", "a: 1\nb: " + 3000 * "[" + 3000 * "]", 2, "more than 64 tables and lists"),
        ("a.yaml", "a: 1\nb: " + 64 * "{c: " + "1" + 64 * "}", 2, "more than 64 tables and lists"),
        ("a.json", '{"a": 1,\n"b": ' + 64 * "[" + 64 * "]" + "}", 2, "more than 64 tables and lists"),
        ("a.json", 30000 * "[" + 30000 * "]", None, "more than 64 tables and lists"),
        ("a.yaml", "a: 1\nb: !!python/object:os.system {c: 1}\n", 2, "tag !!python/object:os.system is not"),
        ("a.yaml", "a: !ref b\n", 1, "tag !ref is not understood"),
        ("a.yaml", "a: 1\nb:\n\tc: 1\n", 3, "tab"),
        ("a.yaml", "a: [1\n", 2, "not YAML"),
        ("a.yaml", "a: b: c\n", 1, "not YAML"),
        ("a.yaml", "a: 1\n---\nb: 1\n", 2, "second document"),
        ("a.yaml", "a: *b\n", 1, "no anchor"),
        ("a.yaml", "[a]: 1\n", 1, "plain word"),
        ("a.yaml", "- a\n", 1, "table of keys"),
        ("a.yaml", "a: \x01\n", None, "not YAML"),
        ("a.json", '{"a": 1,\n}', 2, "not JSON"),
        ("a.json", "[]", 1, "table of keys"),
    ],
)
def test_what_cannot_be_read_gives_line_and_reason(
    tmp_path: Path, name: str, text: str, line: int | None, reason: str
) -> None:
    # rule 28
    with pytest.raises(InputError) as error:
        read_document(written(tmp_path, text, name))
    (problem,) = error.value.problems
    assert (problem.line, error.value.exit_code) == (line, 2)
    assert reason in problem.message


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.yaml", "a: 1\nb: {c: 1, c: 2}\na: 2\n"), ("a.json", '{"a": 1,\n"b": {"c": 1, "c": 2},\n"a": 2}')],
)
def test_every_duplicate_key_is_named_with_both_lines(tmp_path: Path, name: str, text: str) -> None:
    # rule 28; k duplicates are k problems
    with pytest.raises(InputError) as error:
        read_document(written(tmp_path, text, name))
    found = {problem.key: (problem.line, problem.message) for problem in error.value.problems}
    assert found == {
        "b.c": (2, "duplicate key; it stands on line 2 already"),
        "a": (3, "duplicate key; it stands on line 1 already"),
    }


def test_missing_file_directory_and_other_encodings_are_refused(tmp_path: Path) -> None:
    # an operating-system error becomes one problem, not a traceback
    (tmp_path / "latin.yaml").write_bytes("a: é".encode("latin-1"))
    for path, reason in (
        (tmp_path / "no.yaml", "no such file"),
        (tmp_path, "cannot be read"),
        (tmp_path / "latin.yaml", "UTF-8"),
    ):
        with pytest.raises(InputError, match=reason):
            read_document(path)


def test_an_alias_repeats_its_anchor(tmp_path: Path) -> None:
    # *x is the value of &x
    assert read_document(written(tmp_path, "a: &x {b: 1}\nc: *x\n")).data == {"a": {"b": 1}, "c": {"b": 1}}


def test_overrides_are_yaml_win_in_order_and_leave_the_document_alone() -> None:
    # data' = data with the last value given for each key; the original is untouched
    document = Document("a.yaml", None, {"layout": {"tp": 4, "pp": 2}}, {"layout": 1, "layout.tp": 2})
    changed = with_overrides(
        document, ["layout.tp=8", "layout.tp=1e1", "run.skew=off", "training={micro_batch: 2}", "cluster.fabric="]
    )
    assert changed.data == {
        "layout": {"tp": 10.0, "pp": 2},
        "run": {"skew": "off"},
        "training": {"micro_batch": 2},
        "cluster": {"fabric": None},
    }
    assert document.data == {"layout": {"tp": 4, "pp": 2}}


def test_a_problem_of_an_overridden_key_says_so_instead_of_a_line() -> None:
    # an override of a table covers the keys in it, and no key outside
    document = Document("a.yaml", None, {"layout": {"tp": 4}, "run": {}}, {"layout": 1, "layout.tp": 2, "run": 3})
    changed = with_overrides(document, ["layout={tp: 8}"])
    inside, outside = changed.problem("layout.tp", "bad"), changed.problem("run.steps", "bad")
    assert (inside.place, inside.subject) == ("--set", "layout.tp = 8")
    assert (outside.place, outside.subject) == ("line 3", "run.steps")


def test_what_an_override_makes_on_its_way_is_marked_too() -> None:
    # a table that only an override brings has no line; one that stands in the file keeps its line
    document = Document("a.yaml", None, {"layout": {"tp": 4}}, {"layout": 1, "layout.tp": 2})
    changed = with_overrides(document, ["Run.steps=8", "layout.pp=2", "layout.order[0]=tp"])
    assert [changed.problem(key, "bad").place for key in ("Run", "layout", "layout.pp", "layout.tp")] == [
        "--set",
        "line 1",
        "--set",
        "line 2",
    ]
    assert changed.problem('layout."order[0]"', "bad").place == "--set"


def test_a_short_file_that_means_an_endless_list_is_shown_in_short(tmp_path: Path) -> None:
    # nine levels of nine aliases are 9^9 items
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    for name, inner in itertools.pairwise("abcdefghi"):
        lines.append(f"{name.upper()}: &{inner} [{', '.join([f'*{name}'] * 9)}]")
    shown = read_document(written(tmp_path, "\n".join(lines))).problem("H", "bad").value
    assert shown is not None
    assert len(shown) == 60


def test_every_bad_override_is_reported() -> None:
    # no equals sign, an empty step, no YAML, a way through a number: four problems
    document = Document("a.yaml", None, {"name": "x"})
    with pytest.raises(InputError) as error:
        with_overrides(document, ["layout.tp", "a..b=1", "a=[1", "name.x=1"])
    assert [problem.key for problem in error.value.problems] == ["layout.tp", "a..b=1", "a", "name.x"]
    assert all(problem.overridden for problem in error.value.problems)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (True, "true"),
        ([19, "a"], "[19, a]"),
        ("x" * 70, "x" * 57 + "..."),
        ({"a": 1}, None),
        (None, "null"),
        (0, "0"),
        ("", '""'),
        ("a\nb", '"a\\nb"'),
        (1e9, "1000000000"),
        (0.68, "0.68"),
    ],
)
def test_values_are_shown_as_they_are_written(value: object, shown: str | None) -> None:
    # YAML spelling, cut at 60 characters; a table is not a value
    assert Document("a", None, {"k": value}).problem("k", "bad").value == shown


@given(st.text("ab1:-,[]{}#&*!|>'\"% \n\t\\.~", max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    # no text makes the readers fail otherwise than with problems
    for parse in (parse_yaml, parse_json):
        problems = None
        try:
            parse(text)
        except Faulty as fault:
            problems = fault.problems
        assert problems != ()
