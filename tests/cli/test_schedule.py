"""`trnsim schedule`: what it prints and writes, and every mistake is a sentence."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from commandline import modules_loaded_by, trnsim
from rich.console import Console

if TYPE_CHECKING:
    from pathlib import Path

INTERLEAVED = (
    "schedule", "interleaved-1f1b", "--stages", "4", "--microbatches", "8", "--virtual-stages", "2",
)  # fmt: skip


def test_a_grid_its_bubble_and_what_is_held(capsys: pytest.CaptureFixture[str]) -> None:
    assert trnsim(*INTERLEAVED) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("stage 0  F0a F1a F2a F3a F0b F1b F2b F3b F4a F5a F6a .   .   .   B0b     F7a B1b")
    assert lines[-3:] == [
        "step       19 slots = 16 of work + 3 idle, each a forward and a backward pass of 1/2 of a stage",
        "bubble     15.8 % of the step, 18.8 % of the work",
        "in flight  11, 9, 7, 5 passes of 1/2 of a stage on stages 0 to 3",
    ]


def test_the_document_has_every_pass(capsys: pytest.CaptureFixture[str]) -> None:
    assert trnsim(*INTERLEAVED, "--backward", "1", "--json", "-") == 0
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert "in flight" in captured.err
    assert (document["time"], document["bubble_over_work"], document["in_flight"]) == (38, 3 / 16, [11, 9, 7, 5])
    assert len(document["passes"]) == 4 * 2 * 16
    assert document["passes"][0] == {
        "stage": 0, "kind": "F", "microbatch": 0, "virtual_stage": 0, "start": 0, "end": 1,
    }  # fmt: skip


def test_colours_on_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    # the same cells as plain text, in bands of the terminal's width
    monkeypatch.setattr(Console, "is_terminal", True)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "60")
    assert trnsim("schedule", "1f1b", "--stages", "2", "--microbatches", "2") == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert "\x1b[30;48;5;39mF0 \x1b[0m" in first
    assert "\x1b[30;48;5;114mB0    \x1b[0m" in first


def test_a_picture(tmp_path: Path) -> None:
    assert trnsim(*INTERLEAVED, "--plot", str(tmp_path / "a.svg")) == 0
    assert (tmp_path / "a.svg").read_text(encoding="utf-8").startswith("<?xml")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("1f2b", "--stages", "4", "--microbatches", "8"), "did you mean 1f1b?"),
        (("1f1b", "--stages", "4", "--microbatches", "8", "--virtual-stages", "2"), "1f1b has 1 virtual stage"),
        (("interleaved-1f1b", "--stages", "4", "--microbatches", "6", "--virtual-stages", "2"), "nearest are 4 and 8"),
        (("1f1b", "--stages", "0", "--microbatches", "8"), "at least 1 is due"),
        (("1f1b", "--stages", "4"), "Missing option '--microbatches'"),
        (("1f1b", "--stages", "4", "--microbatches", "8", "--plot", "x.gif"), "is no picture"),
    ],
)
def test_mistakes_are_sentences(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str) -> None:
    assert trnsim("schedule", *arguments) == 2
    assert message in capsys.readouterr().err


def test_a_drawing_in_the_terminal_needs_no_matplotlib_and_no_pandas() -> None:
    loaded = modules_loaded_by("schedule", "gpipe", "--stages", "2", "--microbatches", "2")
    assert loaded.isdisjoint({"matplotlib", "pandas", "networkx", "numpy"})
