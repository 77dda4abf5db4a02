"""Options of a text that no shell has read."""

from __future__ import annotations

import pytest

from trnsim.scenario.imports.shell import options_of


def read(text: str) -> dict[str, tuple[str, ...]]:
    return {option.name: option.values for option in options_of(text)}


@pytest.mark.parametrize(
    "text",
    [
        "--a 1 --b --c x y",
        "python train.py --a 1 --b \\\n  --c x y",
        "ARGS=(\n  --a 1\n  --b # --d 4\n  --c x y\n)\nrun ${ARGS[@]}",
        'ARGS="\n  --a 1 \\\n  --b \\\n  --c x y\n"\nrun $ARGS',
        "ARGS=(--a 1)\nARGS+=(--b)\nARGS+=('--c x y')",
        'ARGS=(\n\'--a 1\'\n"--b"\n)\nMORE="$ARGS --c x y"',
        "X=1\nexport Y=${Z:-x}\n--a $X --b --c ${Y} y",
        "--a=1 --b --c 'x' \"y\"",
        'ARGS=("--a" "1" \'--b\' "--c" x y)',
        "run --a 1 --b --c x y | tee log; echo done",
        "run --a 1\r\nrun --b\r\nrun --c x y\r\n",
        "# it's a comment\n--a\n1\n--b\n--c x y",
    ],
)
def test_options_stand_anywhere(text: str) -> None:
    assert read(text) == {"a": ("1",), "b": (), "c": ("x", "y")}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("N=4\n--a $N", "4"),
        ("N=4\nM=$N\n--a ${M}", "4"),
        ("N=4\n--a $((N * 2))", "8"),
        ("N=4\nG=8\nW=$(($G*$N))\n--a $W", "32"),
        ("N=4\n--a $(( (N + 2) / 3 ))", "2"),
        ("--a ${N:-16}", "16"),
        ("N=4\n--a ${N:-16}", "4"),
        ("N=4\nif [ $X ]; then N=4; fi\n--a $N", "4"),
    ],
)
def test_variables_that_the_script_sets_are_filled_in(text: str, value: str) -> None:
    assert read(text) == {"a": (value,)}


@pytest.mark.parametrize(
    "text",
    [
        "--a $N",
        "--a ${N}",
        "--a $1",
        "case $X in\n 8b) N=32;;\n 70b) N=80;;\nesac\n--a $N",
        "N=4\nif [ $X ]; then\n  N=8\nfi\n--a $N",
        "N=x\n--a $(($N*2))",
        "N=1\n--a $((N / 0))",
        "--a $(nproc)",
    ],
)
def test_what_only_a_shell_knows_stays_open(text: str) -> None:
    ((value,),) = read(text).values()
    assert value.startswith("$")


def test_conditions_are_marked() -> None:
    text = "--a 1\nif [ $X ]; then\n  --b\n  if y; then\n  --c\n  fi\n  --d\nfi\n--e"
    assert [(option.name, option.conditional) for option in options_of(text)] == [
        ("a", False),
        ("b", True),
        ("c", True),
        ("d", True),
        ("e", False),
    ]


def test_lines_are_those_of_the_text() -> None:
    text = '# one\nA="\n --a 1 \\\n --b\n"\nX=(\n --c\n)\nrun \\\n --d'
    assert [(option.name, option.line) for option in options_of(text)] == [("a", 3), ("b", 4), ("c", 7), ("d", 10)]


@pytest.mark.parametrize(
    "text", ["$((" * 20_000, '"' * 50_001, "'\"" * 20_000, '\\"' * 20_000, "${" * 20_000, "((" * 20_000]
)
def test_no_text_takes_long(text: str) -> None:
    assert read(f"{text}\n") == {}
