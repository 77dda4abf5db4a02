import pickle

import pytest

from trnsim.errors import InputError, Problem, SimulationStalledError, TrnsimError


def test_report_is_the_one_that_the_design_shows() -> None:
    # File and count; then line, key (= value), message, each column padded to its widest cell.
    error = InputError(
        [
            Problem("layout.pipeline", "unknown key; did you mean layout.pp?", line=12),
            Problem("layout.tp", "64 attention heads cannot be split 24 ways", line=14, value="24"),
        ],
        file="scenarios/llama70b.yaml",
    )
    assert str(error) == (
        "scenarios/llama70b.yaml: 2 problems\n"
        "  line 12  layout.pipeline  unknown key; did you mean layout.pp?\n"
        "  line 14  layout.tp = 24   64 attention heads cannot be split 24 ways"
    )


@pytest.mark.parametrize(("capacities", "code"), [([True, True], 3), ([True, False], 2), ([False], 2)])
def test_a_broken_rule_wins_over_a_small_cluster(capacities: list[bool], code: int) -> None:
    # exit 3 if and only if every problem is one of capacity
    problems = [Problem("layout.dp", "too many", capacity=capacity) for capacity in capacities]
    assert InputError(problems, file="a.yaml").exit_code == code


def test_rows_come_in_the_order_of_the_file_and_overrides_last() -> None:
    # rows are sorted by line; a row without one comes after, and an override says so
    error = InputError(
        [Problem("c", "three", overridden=True), Problem("b", "two", line=10), Problem("a", "one", line=9)], file="f"
    )
    assert str(error).splitlines()[1:] == ["  line 9   a  one", "  line 10  b  two", "  --set    c  three"]


def test_problems_of_two_files_are_told_apart() -> None:
    # one headline per file, in the order in which the files were met
    error = InputError([Problem("a", "one", 1), Problem("b", "two", 2, file="other.yaml")], file="mine.yaml")
    assert str(error) == "mine.yaml: 1 problem\n  line 1  a  one\nother.yaml: 1 problem\n  line 2  b  two"
    assert [problem.file for problem in error.problems] == ["mine.yaml", "other.yaml"]


def test_columns_that_say_nothing_are_left_out() -> None:
    # no line and no key: the message alone
    assert (
        str(InputError([Problem("", "the file is empty")], file="a.yaml")) == "a.yaml: 1 problem\n  the file is empty"
    )


def test_error_travels_between_processes() -> None:
    # unpickled == pickled: report, file, problems and code
    error = InputError([Problem("a", "small", capacity=True)], file="a.yaml")
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert (str(copy), copy.file, copy.problems, copy.exit_code) == (str(error), "a.yaml", error.problems, 3)


def test_every_error_has_its_exit_code_and_one_base() -> None:
    # 4 is a stall; everything on purpose is a TrnsimError
    assert SimulationStalledError.exit_code == 4
    assert issubclass(SimulationStalledError, TrnsimError)
    assert issubclass(InputError, TrnsimError)
