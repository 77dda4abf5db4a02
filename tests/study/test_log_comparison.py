"""A log beside its simulation: which rows are compared, with what, and why others are not."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any

import pytest
from pages import TABLES_PAGE, section

from trnsim.errors import InputError
from trnsim.study.log_comparison import COMPARED_COLUMNS, LogComparison, compare_log

LOGS = Path(__file__).parent / "logs"
NCCOM = str(LOGS / "nccom_test_trn1.txt")
NCCL = str(LOGS / "nccl_all_reduce_2x8_h100.txt")
STAR: dict[str, Any] = {
    "on": "star",
    "link_bandwidth": "50 GB/s",
    "link_latency": "250 ns",
    "fidelity": "closed_form",
    "algorithm": "ring",
}
TRN1: dict[str, Any] = {"on": "trn1.32xlarge", "rank": "logical_core", "fidelity": "closed_form", "algorithm": "ring"}


def written(folder: Path, text: str) -> str:
    (folder / "log.txt").write_text(text, encoding="utf-8")
    return str(folder / "log.txt")


def refused(*arguments: str, **asked: Any) -> dict[str, str]:
    with pytest.raises(InputError) as error:
        compare_log(*arguments, **asked)
    assert error.value.exit_code == 2
    return {problem.key: problem.message for problem in error.value.problems}


def test_each_row_has_its_own_size_time_and_error() -> None:
    # simulated: 2 (N - 1) (S / (N B) + 0.5 us); error = simulated / measured - 1
    comparison = compare_log(NCCL, "all-reduce", ranks=16, **STAR)
    assert len(comparison.rows) == 11
    for row in comparison.rows:
        assert row.time_s == pytest.approx(30 * (row.bytes / (16 * 50e9) + 500e-9), rel=1e-9)
        assert row.error_fraction == pytest.approx(row.time_s / row.measured_s - 1)
    assert comparison.rows[-1].measured_s == pytest.approx(47_535e-6)
    assert comparison.median_error_fraction == median(abs(row.error_fraction) for row in comparison.rows)


def test_tables_of_other_operations_and_ranks_are_skipped_by_name() -> None:
    comparison = compare_log(NCCOM, "all-reduce", ranks=2, **TRN1)
    assert [row.line for row in comparison.rows] == [4, *range(8, 14)]
    assert [(skipped.line, skipped.reason) for skipped in comparison.skipped] == [
        (16, "a table of all-gather, 2 rows"),
        (21, "a table of 64 ranks, 5 rows"),
    ]


def test_the_log_says_how_many_ranks_if_nobody_else_does() -> None:
    assert {row.ranks for row in compare_log(NCCOM, "all_gather", **TRN1).rows} == {32}
    assert refused(NCCOM, "all-reduce", **TRN1) == {"ranks": "the log has tables of 2, 64 ranks; say which"}


def test_old_nccom_tables_hold_gib_and_that_is_said() -> None:
    # Only size and time are taken, so that nothing depends on it.
    comparison = compare_log(NCCOM, "all-gather", **TRN1)
    assert comparison.notes == ("the log says GB/s and holds GiB/s: size over time tells; bandwidths here are 1e9 B/s",)
    assert comparison.rows[-1].measured_s == pytest.approx(179e-6)
    assert compare_log(NCCL, "all-reduce", ranks=16, **STAR).notes == (
        "the log does not say of which operation it is; taken for all-reduce",
    )


def test_another_number_of_ranks_shows_in_the_bus_factor() -> None:
    # busbw / algbw = 2 (16 - 1) / 16 = 1.875 in the log, 2 (8 - 1) / 8 = 1.75 here
    notes = compare_log(NCCL, "all-reduce", ranks=8, **STAR).notes
    assert any(note.startswith("busbw over algbw is 1.875 in the log and 1.750 here") for note in notes)


def test_a_send_recv_of_the_log_sends_its_size(tmp_path: Path) -> None:
    # nccl-tests print what a rank sends; the buffer here is that times the ranks, of which each rank sends S / N.
    log = written(tmp_path, "# sendrecv_perf\n# size time\n# (B) (us)\n 1000000 25.0\n")
    asked: dict[str, Any] = {**STAR, "algorithm": "auto"}
    comparison = compare_log(log, "send-recv", ranks=8, **asked)
    assert comparison.rows[0].bytes == 8_000_000
    assert comparison.rows[0].time_s == pytest.approx(1e6 / 50e9 + 500e-9)
    assert "a send-recv of the log sends its size" in comparison.notes[0]


def test_lines_that_are_no_measurement_are_listed(tmp_path: Path) -> None:
    log = written(tmp_path, "nccom-test -r 4 allr\nsize(B) time(us)\n0 5\n8 5\n16 N/A\n")
    comparison = compare_log(log, "all-reduce", **STAR)
    assert [skipped.reason for skipped in comparison.skipped] == ["a size of 0", "a time of N/A"]
    assert len(comparison.rows) == 1


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("no table", "no table of nccom-test or nccl-tests is in it"),
        ("nccom-test -r 4 allg\nsize(B) time(us)\n8 5\n", "line 2: a table of all-gather, 1 row"),
        ("nccom-test -r 5 allr\nsize(B) time(us)\n8 5\n", "line 2: a table of 5 ranks, 1 row"),
        ("size(B) time(us)\n0 5\n0 6\n0 7\n0 8\n", "line 4: a size of 0; line 4: a size of 0"),
    ],
)
def test_a_log_without_anything_to_compare_is_refused(text: str, sentence: str, tmp_path: Path) -> None:
    message = refused(written(tmp_path, text), "all-reduce", ranks=4, **STAR)["compare"]
    assert sentence in message or message.startswith("nothing in it can be compared: line 2: a size of 0; line 3")


def test_a_missing_log_and_a_wrong_question_are_one_report() -> None:
    found = refused("nowhere.log", "all-redcue", ranks=4, **STAR | {"link_bandwidth": "50"})
    assert found.keys() == {"compare", "op", "link_bandwidth"}
    assert found["compare"] == "no such file"


def comparison() -> LogComparison:
    return compare_log(NCCL, "all-reduce", ranks=16, **STAR)


def test_document_frame_and_csv_hold_the_same() -> None:
    found = comparison()
    document = found.to_dict()
    assert document["measured"]["median_error_fraction"] == found.median_error_fraction
    frame = found.frame()
    assert list(frame.columns) == [column.name for column in COMPARED_COLUMNS]
    assert document["measured"]["rows"] == frame.to_dict("records")
    assert len(document["rows"]) == len(frame) == len(found.csv_text().splitlines()) - 1


def test_columns_are_explained() -> None:
    assert section("collective beside a log", COMPARED_COLUMNS) in TABLES_PAGE.read_text(encoding="utf-8")
