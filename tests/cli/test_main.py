"""The command line as a whole: what it loads, its exit codes, and what it says to a mistake."""

from __future__ import annotations

import shlex
import subprocess
import sys
from importlib import import_module
from typing import TYPE_CHECKING

import pytest
from commandline import modules_loaded_by, trnsim
from fakes import fake_result

from trnsim import scenario, simulation
from trnsim.cli.app import _COMMANDS
from trnsim.errors import InputError, Problem, SimulationStalledError

if TYPE_CHECKING:
    from pathlib import Path

HEAVY = {"numpy", "pydantic", "networkx", "pandas", "ruamel", "simpy", "matplotlib", "joblib", "scipy"}


def test_help_loads_no_heavy_package_and_no_command() -> None:
    # Help must be quick: only click, rich and the group itself are imported.
    loaded = modules_loaded_by("--help")
    assert {name.partition(".")[0] for name in loaded} & HEAVY == set()
    assert {name for name in loaded if name.startswith("trnsim")} == {
        "trnsim",
        "trnsim.cli",
        "trnsim.cli.app",
        "trnsim.cli.output",
        "trnsim.errors",
        "trnsim.record",
    }


def test_help_of_a_command_loads_no_other_command_and_no_heavy_package() -> None:
    loaded = modules_loaded_by("run", "--help")
    assert {name.partition(".")[0] for name in loaded} & HEAVY == set()
    assert {name for name in loaded if name.startswith("trnsim.cli.commands.")} == {"trnsim.cli.commands.run"}


def test_import_trnsim_loads_nothing_else() -> None:
    code = "import sys, trnsim; print(sorted(m for m in sys.modules if m.startswith('trnsim')))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "['trnsim']"


def test_every_listed_command_exists() -> None:
    for name in _COMMANDS:
        assert import_module(f"trnsim.cli.commands.{name}").command.name == name


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert trnsim("--help") == 0
    out = capsys.readouterr().out
    assert all(name in out for name in _COMMANDS)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    import trnsim as package

    assert trnsim("--version") == 0
    assert package.__version__ in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["rum"], "no command 'rum'; did you mean run?"),
        (
            ["xyzzy"],
            "no command 'xyzzy'; there are run, memory, check, describe, list, compare, validate, calibrate, collective, topology, schedule, import, schema",
        ),
        (["run", "a", "--jso", "-"], "--json"),
        (["run"], "Missing argument 'FILE'"),
        (["run", "a", "--trace", "-"], "standard output is for the summary; name a file"),
        (["run", "a", "--json", "nowhere/a.json"], "the directory nowhere does not exist"),
        (["run", "a", "--json", "tests"], "tests is a directory, not a file"),
        (["run", "a", "--out", "README.md"], "README.md is a file, not a directory"),
        (["run", "a", "--out", "nowhere/deeper"], "the directory nowhere does not exist"),
        (["run", "a", "--json", ""], "a path is due, and this is empty"),
        (["run", "a", "--out", ""], "a path is due, and this is empty"),
        (["run", "a", "--out", "-"], "standard output is no directory"),
        (["run", "a", "--json", "x" * 5000], "no path: File name too long"),
        (["run", "x" * 5000], "unknown scenario"),
        (["run", "~nobody-of-that-name/a.yaml"], "no such file"),
        (["describe", "x" * 5000], "nothing in the catalog has this name"),
        (["describe", ""], "(no name): 1 problem"),
        (["compare", "a", "b", "--min-speedup", "nan"], "nan is no ratio"),
        (["compare", "a", "b", "--min-speedup", "inf"], "inf is no ratio"),
        (["compare", "a"], "a comparison needs two scenarios or more"),
        (["compare", "a", "b", "--json", "-", "--markdown", "-"], "only one of --json and --markdown"),
        (["compare", "a", "b", "--min-speedup", "0"], "0.0 is not in the range x>0.0"),
        (["list", "gadgets"], "'gadgets' is not one of 'chips', 'servers', 'topologies'"),
    ],
)
def test_mistake_on_the_command_line(arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    # A mistake of the user: exit code 2, a sentence on standard error, nothing on standard output, no traceback.
    assert trnsim(*arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert sentence in captured.err
    assert "Traceback" not in captured.err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InputError([Problem("layout.tp", "too many", 3, "24")], file="a.yaml"), 2),
        (InputError([Problem("layout", "too small", capacity=True)], file="a.yaml"), 3),
        (InputError([Problem("layout", "too small", capacity=True), Problem("layout.tp", "no")], file="a.yaml"), 2),
        (SimulationStalledError("1 cohort waits"), 4),
    ],
)
def test_exit_codes_of_errors(
    error: Exception, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # 2 input (wins over 3), 3 the cluster is too small, 4 stalled; the report is the text of the error.
    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(scenario, "load", refuse)
    assert trnsim("run", "a.yaml") == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == f"{error}\n"


def test_bug_is_confessed_without_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("float division by zero")

    monkeypatch.setattr(scenario, "load", fail)
    assert trnsim("run", "a.yaml") == 70
    err = capsys.readouterr().err
    assert "a bug of trnsim, not a mistake of yours: ZeroDivisionError: float division by zero" in err
    assert "Traceback" not in err

    monkeypatch.setenv("TRNSIM_TRACEBACK", "1")
    assert trnsim("run", "a.yaml") == 70
    assert "Traceback" in capsys.readouterr().err


def test_interruption_is_quiet(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(scenario, "load", interrupt)
    assert trnsim("run", "a.yaml") == 130
    assert capsys.readouterr().err.strip() == "interrupted"


def test_reader_that_goes_away_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    # `trnsim describe chip:trainium2 | head -0`: the pipe is closed before anything is written.
    code = "import sys; from trnsim.cli import main; sys.stdin.readline(); main(['describe', 'chip:trainium2'])"
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin
    assert process.stdout
    assert process.stderr
    process.stdout.close()
    process.stdin.write("go\n")
    process.stdin.close()
    assert process.wait() == 0
    assert process.stderr.read() == ""
    process.stderr.close()


def output_of(redirection: str, arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line in a shell with its output redirected."""
    command = f"{shlex.quote(sys.executable)} -m trnsim {arguments} {redirection}"
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("arguments", "redirection", "code", "sentence"),
    [
        ("list chips", ">&-", 0, ""),
        ("list chips", ">/dev/full", 2, "cannot write standard output: No space left on device"),
        ("describe nothing", "2>&-", 2, ""),
        ("describe nothing", "2>/dev/full", 2, ""),
        ("--help", "| true; exit ${PIPESTATUS[0]}", 0, ""),
        ("describe nothing", "2>&1 | true; exit ${PIPESTATUS[0]}", 2, ""),
    ],
)
def test_streams_that_are_closed_full_or_left(arguments: str, redirection: str, code: int, sentence: str) -> None:
    # The exit code is that of the work; only a full standard output is a problem, and none is a bug.
    run = output_of(redirection, arguments)
    assert run.returncode == code
    assert sentence in run.stderr
    assert "Traceback" not in run.stderr
    assert "bug" not in run.stderr


def test_a_letter_that_the_terminal_does_not_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # It is escaped.
    file = tmp_path / "model.yaml"
    file.write_text('name: "\\U0001F680"\nlayers: 1\nhidden_size: 8\nattention_heads: 1\nffn_size: 8\nvocabulary: 8\n')
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    run = output_of("", f"describe {shlex.quote(str(file))}")
    assert (run.returncode, run.stdout.splitlines()[0]) == (0, "model \\U0001f680")


def test_simulation_is_not_started_when_the_output_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    def simulate(_: object) -> object:
        pytest.fail("simulated although the output cannot be written")

    monkeypatch.setattr(scenario, "load", lambda *_: fake_result())
    monkeypatch.setattr(simulation, "simulate", simulate, raising=False)
    assert trnsim("run", "a.yaml", "--json", "nowhere/a.json") == 2
