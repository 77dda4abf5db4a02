"""`trnsim collective` and `trnsim topology`: every option does something, and every mistake is a sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commandline import modules_loaded_by, trnsim

from trnsim.cli.commands import collective, topology

LOGS = Path(__file__).parents[1] / "study" / "logs"
NCCOM, NCCL = (str(LOGS / name) for name in ("nccom_test_trn1.txt", "nccl_all_reduce_2x8_h100.txt"))
LINKS = ("--link-bandwidth", "50 GB/s", "--link-latency", "250 ns")
STAR = ("--on", "star", "--ranks", "8", *LINKS)
RING = ("collective", "all-reduce", *STAR, "--algorithm", "ring")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    """Run a command with its JSON on standard output, and return that."""
    assert trnsim(*arguments, "--json", "-") == 0
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    return found


def rows(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, object]]:
    found = document(capsys, *arguments)["rows"]
    assert isinstance(found, list)
    return found


def test_table_on_the_terminal_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    assert trnsim(*RING, "--bytes", "1GiB") == 0
    captured = capsys.readouterr()
    assert captured.out.splitlines()[-1].split()[:3] == ["1073741824", "ring", "37587.96"]
    assert captured.err == ""


def test_json_on_standard_output_is_alone_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert trnsim(*RING, "--bytes", "8:1KiB", "--json", "-") == 0
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert [row["bytes"] for row in found["rows"]] == [8 << doubling for doubling in range(8)]
    assert all(row["fidelity"] == "flow" and row["ranks"] == 8 for row in found["rows"])
    assert list(found["rows"][0]) == [
        "bytes",
        "ranks",
        "algorithm",
        "fidelity",
        "time_s",
        "algbw_bytes_per_s",
        "busbw_bytes_per_s",
        "bound_s",
    ]
    assert captured.err.startswith("all-reduce on machine star")


def test_files_hold_what_the_options_say(capsys: pytest.CaptureFixture[str]) -> None:
    assert trnsim(*RING, "--bytes", "8:1KiB", "--json", "a.json", "--csv", "a.csv", "--plot", "a.png") == 0
    assert len(json.loads(Path("a.json").read_text())["rows"]) == 8
    assert len(Path("a.csv").read_text().splitlines()) == 9
    assert Path("a.png").read_bytes().startswith(b"\x89PNG")
    assert trnsim(*RING, "--compare", NCCL, "--ranks", "16", "--csv", "b.csv", "--plot", "b.svg") == 0
    assert Path("b.csv").read_text().startswith("line,bytes,ranks,algorithm,measured_s")
    assert "<svg" in Path("b.svg").read_text()


def test_same_bytes_for_the_same_question(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "b"):
        assert trnsim(*RING, "--json", f"{name}.json") == 0
    assert Path("a.json").read_bytes() == Path("b.json").read_bytes()


def test_default_sizes_are_8_bytes_to_1_gib(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = [row["bytes"] for row in rows(capsys, *RING)]
    assert (sizes[0], sizes[-1], len(sizes)) == (8, 2**30, 28)


@pytest.mark.parametrize(
    ("options", "changed"),
    [
        (("--algorithm", "recursive-halving-doubling"), True),
        (("--fidelity", "closed_form"), False),
        (("--fidelity", "chunk"), False),
        (("--degrade", "1:0.5"), True),
        (("--ranks", "4"), True),
        (("--link-latency", "1 us"), True),
        (("--link-bandwidth", "25 GB/s"), True),
        (("--policy", "neuron"), False),
    ],
)
def test_options_change_the_answer_or_not(
    options: tuple[str, ...], changed: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    # A ring alone on a star takes the same by formula, by flows and by messages.
    base = rows(capsys, *RING, "--bytes", "1GiB")[0]["time_s"]
    other = rows(capsys, *RING, "--bytes", "1GiB", *options)[0]["time_s"]
    assert (other != pytest.approx(base, rel=1e-9)) == changed


def test_servers_fabric_and_rank(capsys: pytest.CaptureFixture[str]) -> None:
    on = ("collective", "barrier", "--on", "trn1.32xlarge")
    for options, ranks in (
        ((), 16),
        (("--rank", "logical_core"), 32),
        (("--servers", "2"), 32),
        (("--servers", "2", "--fabric", "ultracluster-2to1"), 32),
    ):
        assert rows(capsys, *on, *options)[0]["ranks"] == ranks


def test_ties(capsys: pytest.CaptureFixture[str]) -> None:
    on = ("collective", "all-to-all", "--on", "torus:4x4x4", *LINKS, "--algorithm", "direct", "--bytes", "1GiB")
    split, positive = (float(str(rows(capsys, *on, "--ties", ties)[0]["time_s"])) for ties in ("split", "positive"))
    assert positive == pytest.approx(1.5 * split, rel=1e-3)


def test_matrix(capsys: pytest.CaptureFixture[str]) -> None:
    Path("m.csv").write_text("0 4\n1 0\n")
    found = rows(capsys, "collective", "all-to-all-v", "--on", "star", *LINKS, "--matrix", "m.csv", "--bytes", "4GB")
    assert found[0]["time_s"] == pytest.approx(4e9 / 50e9 + 500e-9)


def test_explain(capsys: pytest.CaptureFixture[str]) -> None:
    assert trnsim(*RING, "--explain") == 0
    out = capsys.readouterr().out
    assert "the program of ring at 1.00 GiB: 14 steps in 2 phases" in out
    explanation = document(capsys, *RING, "--explain")["explanation"]
    assert isinstance(explanation, dict)
    assert (explanation["steps"], explanation["bound_by"]) == (14, "up")
    assert "explanation" not in document(capsys, *RING)


def test_compare(capsys: pytest.CaptureFixture[str]) -> None:
    on = ("collective", "all-reduce", "--on", "trn1.32xlarge", "--rank", "logical_core", "--compare", NCCOM)
    assert trnsim(*on, "--ranks", "2") == 0
    out = capsys.readouterr().out
    assert "note: the log says GB/s and holds GiB/s" in out
    assert "skipped line 21: a table of 64 ranks, 5 rows" in out
    measured = document(capsys, *on, "--ranks", "2")["measured"]
    assert isinstance(measured, dict)
    assert len(measured["rows"]) == 7
    assert trnsim(*on, "--ranks", "2", "--explain") == 0
    assert "the program of" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        ((), 2, "Missing argument 'OP'"),
        (("all-reduce",), 2, "Missing option '--on'"),
        (("all-redcue", *STAR), 2, 'unknown collective "all-redcue"; did you mean all-reduce'),
        (("all-reduce", "--on", "taurus"), 2, 'unknown topology or server "taurus"; did you mean torus'),
        (("all-reduce", *STAR, "--algorithm", "rign"), 2, "did you mean ring"),
        (("all-reduce", *STAR, "--fidelity", "exact"), 2, "known: chunk, closed_form, flow"),
        (("all-reduce", *STAR, "--policy", "best"), 2, "known: fastest, neuron"),
        (("all-reduce", *STAR, "--bytes", "0"), 2, "bytes = 0"),
        (("all-reduce", *STAR, "--bytes", "-8"), 2, "outside the range of a size"),
        (("all-reduce", *STAR, "--bytes", "8 s"), 2, '"s" is not a unit of size'),
        (("all-reduce", *STAR, "--ranks", "0"), 2, "at least 1 is due"),
        (("all-reduce", *STAR, "--ranks", "x"), 2, "'x' is not a valid integer"),
        (("all-reduce", *STAR, "--degrade", "many"), 2, "like 10:0.5"),
        (("all-reduce", *STAR, "--ties", "both"), 2, "known: positive, split"),
        (("all-reduce", *STAR, "--servers", "2"), 2, "only for servers of the catalog"),
        (("all-reduce", *STAR, "--rank", "core"), 2, "did you mean logical_core"),
        (("all-reduce", *STAR, "--link-bandwidth", "50"), 2, "50 is a bare number"),
        (("all-reduce", *STAR, "--link-latency", "50"), 2, "50 is a bare number"),
        (("all-reduce", *STAR, "--fidelity", "chunk", "--ranks", "16385"), 2, "up to 16,384 ranks"),
        (("all-to-all-v", *STAR, "--matrix", "nowhere"), 2, "no such file"),
        (("all-reduce", *STAR, "--compare", "nowhere"), 2, "no such file"),
        (("all-reduce", *STAR, "--compare", NCCL, "--bytes", "8"), 2, "the sizes are those of the log"),
        (("all-reduce", *STAR, "--plot", "a.txt"), 2, "its name ends in .png, .svg, .pdf"),
        (("all-reduce", *STAR, "--plot", "a.png", "--csv", "a.png"), 2, "are the same file"),
        (("all-reduce", *STAR, "--csv", "nowhere/a.csv"), 2, "the directory nowhere does not exist"),
        (("all-reduce", "--on", "trn2.48xlarge", "--ranks", "17"), 3, "trn2.48xlarge has 16 chips"),
        (("all-reduce", "--on", "trn2.48xlarge", "--ranks", "17", "--bytes", "0"), 2, "bytes = 0"),
    ],
)
def test_mistakes(arguments: tuple[str, ...], code: int, sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert trnsim("collective", *arguments) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert sentence in captured.err
    assert "Traceback" not in captured.err
    assert "bug" not in captured.err


def test_problems_come_in_one_report(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = ("--bytes", "0", "--algorithm", "rign", "--degrade", "x", "--fidelity", "y")
    assert trnsim("collective", "all-reduce", *STAR, *wrong) == 2
    assert capsys.readouterr().err.startswith("collective: 4 problems\n")


@pytest.mark.parametrize("command", ["collective", "topology"])
def test_help_is_light(command: str) -> None:
    loaded = modules_loaded_by(command, "--help")
    assert {name.partition(".")[0] for name in loaded} & {
        "numpy",
        "pydantic",
        "networkx",
        "pandas",
        "matplotlib",
    } == set()
    assert {name for name in loaded if name.startswith("trnsim.")} <= {
        "trnsim.cli",
        "trnsim.cli.app",
        "trnsim.cli.commands",
        f"trnsim.cli.commands.{command}",
        "trnsim.cli.options",
        "trnsim.cli.output",
        "trnsim.cli.progress",
        "trnsim.errors",
        "trnsim.record",
    }


def test_a_collective_loads_neither_tables_nor_figures_nor_training() -> None:
    loaded = modules_loaded_by("collective", "barrier", "--on", "star", "--ranks", "2", "--link-bandwidth", "1 GB/s")
    assert {name.partition(".")[0] for name in loaded} & {"pandas", "matplotlib", "networkx"} == set()
    assert not any(name.startswith(("trnsim.training", "trnsim.scenario", "trnsim.workload")) for name in loaded)


def test_topology_counts(capsys: pytest.CaptureFixture[str]) -> None:
    # 4 x 4 x 4: 64 chips, 192 cables in two directions
    assert trnsim("topology", "trn2-ultraserver") == 0
    out = capsys.readouterr().out
    assert "links, one per direction  384" in out
    found = document(capsys, "topology", "torus:4x4x4", *LINKS)
    assert (found["endpoints"], found["diameter"]) == (
        64,
        {"links": 6, "latency_s": pytest.approx(1.5e-6), "is_exact": True},
    )
    assert found["bisection"] == {"bytes_per_s": 1.6e12, "cut": "across axis 1", "is_exact": True}


def test_topology_of_a_fabric_says_what_it_is_shown_with(capsys: pytest.CaptureFixture[str]) -> None:
    assert document(capsys, "topology", "ultracluster")["endpoints"] == 1024
    options = ("--server", "trn1.32xlarge", "--servers", "2", "--rank", "logical_core")
    assert document(capsys, "topology", "ultracluster", *options)["endpoints"] == 64
    assert (
        document(capsys, "topology", "trn1.32xlarge", "--servers", "2", "--fabric", "ultracluster")["endpoints"] == 32
    )


def test_topology_picture(capsys: pytest.CaptureFixture[str]) -> None:
    assert trnsim("topology", "star", "--ranks", "3", *LINKS, "--plot", "a.pdf", "--json", "a.json") == 0
    assert Path("a.pdf").read_bytes().startswith(b"%PDF")
    assert json.loads(Path("a.json").read_text())["endpoints"] == 3


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        ((), 2, "Missing argument 'NAME'"),
        (("nvl71",), 2, "did you mean nvl72"),
        (("star",), 2, "link_bandwidth"),
        (("star", *LINKS), 2, "a star takes its size from the number of ranks"),
        (("star", *LINKS, "--ranks", "-1"), 2, "at least 1 is due"),
        (("nvl72", "--server", "trn1.32xlarge"), 2, "nvl72 is no fabric"),
        (("ultracluster", "--server", "trn1.2xlarge"), 2, "has no scale-out links"),
        (("ultracluster", "--servers", "0"), 2, "at least 1 is due"),
        (("torus:512x512", *LINKS, "--plot", "a.png"), 2, "links are more than the"),
        (("nvl72", "--plot", "a.doc"), 2, "its name ends in .png, .svg, .pdf"),
    ],
)
def test_mistakes_of_topology(
    arguments: tuple[str, ...], code: int, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert trnsim("topology", *arguments) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert sentence in captured.err
    assert "bug" not in captured.err


def test_commands_are_named_after_their_modules() -> None:
    assert (collective.command.name, topology.command.name) == ("collective", "topology")
