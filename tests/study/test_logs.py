"""Logs of nccom-test and nccl-tests: sizes and times as they stand there, and what GB means in them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.study.logs import Log, read_log

LOGS = Path(__file__).parent / "logs"
NCCOM = "size(B)    count(elems)    type    time(us)    algbw(GB/s)    busbw(GB/s)"


def read(name: str) -> Log:
    return read_log((LOGS / name).read_text(encoding="utf-8"))


def test_nccom_tables_of_2023_say_gb_and_hold_gib() -> None:
    # 32 MiB in 768 us are 43.69e9 B/s and 40.69 x 2**30 B/s; the table prints 40.69.
    log = read("nccom_test_trn1.txt")
    assert [(table.op, table.ranks, len(table.rows)) for table in log.tables] == [
        ("all-reduce", 2, 1),
        ("all-reduce", 2, 6),
        ("all-gather", 32, 2),
        ("all-reduce", 64, 5),
    ]
    assert {(table.printed_unit, table.unit) for table in log.tables} == {("GB/s", "GiB/s")}
    assert log.tables[0].rows[0].bytes == 2**25
    assert log.tables[0].rows[0].time_s == pytest.approx(768e-6)
    assert log.tables[3].rows[-1].time_s == pytest.approx(41_806e-6)
    assert log.skipped == ()


def test_nccl_tables_are_decimal_and_the_first_columns_are_out_of_place() -> None:
    # 8 GiB in 47,535 us are 180.71e9 B/s; the in-place time, 47,743 us, is not taken. busbw / algbw = 2 (16 - 1) / 16.
    (table,) = read("nccl_all_reduce_2x8_h100.txt").tables
    assert (table.op, table.ranks, len(table.rows), table.unit, table.printed_unit) == (None, None, 11, "GB/s", "GB/s")
    assert table.rows[-1].bytes == 2**33
    assert table.rows[-1].time_s == pytest.approx(47_535e-6)
    assert table.bus_factor == pytest.approx(2 * 15 / 16, rel=1e-3)


def test_every_number_of_a_table_is_read() -> None:
    # The sums of the columns, added up here from the text in another way.
    text = (LOGS / "nccl_all_reduce_2x8_h100.txt").read_text(encoding="utf-8")
    cells = [line.split() for line in text.splitlines() if not line.startswith("#")]
    (table,) = read_log(text).tables
    assert sum(row.bytes for row in table.rows) == sum(int(row[0]) for row in cells)
    assert sum(row.time_s for row in table.rows) == pytest.approx(sum(float(row[5]) for row in cells) * 1e-6)


OLD_NCCL = """\
# nThread 1 nGpus 2 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20 validation: 1
#   Rank  0 Pid  12979 on  host device  0 [0x45] GeForce GTX 1080
#   Rank  1 Pid  12979 on  host device  1 [0xc4] GeForce GTX 1080
#                                             out-of-place                       in-place
#       size         count    type     time   algbw   busbw  error     time   algbw   busbw  error
#        (B)    (elements)             (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
           8             1   float    21.03    0.00    0.00  0e+00    20.68    0.00    0.00  0e+00
"""
LATENCIES = """\
nccom-test --nworkers 8 --show-input-output-size reduce_scatter
size(B) count(elems) total_input_size(B) total_output_size(B) type algorithm time:avg(us) time:p50(us) algbw(GB/s) busbw(GB/s)
65536 16384 65536 8192 fp32 mesh 10.5 10.0 6.24 5.46
"""


@pytest.mark.parametrize(
    ("text", "op", "ranks", "size", "time_s"),
    [
        (OLD_NCCL, None, 2, 8, 21.03e-6),  # no redop, no root, an error instead of wrong values
        (LATENCIES, "reduce-scatter", 8, 65536, 10.5e-6),  # more columns, several times
        (f"nccom-test -r16 alltoall\n{NCCOM.replace('us', 'ms')}\n8 2 fp32 1.5 0 0\n", "all-to-all", 16, 8, 1.5e-3),
        (f"[1,0]<stdout>:# sendrecv_perf\n[1,0]<stdout>:# {NCCOM}\n[1,0]<stdout>: 8 2 f 3 0 0", "send-recv", None, 8, 3e-6),
        (f"\ufeff{NCCOM}\r\n 8 2 fp32 3 0 0\r\n", None, None, 8, 3e-6),
        ("# size time\n# (B) (s)\n 4096 2\n", None, None, 4096, 2.0),
    ],
)  # fmt: skip
def test_other_tables_of_their_shape(text: str, op: str | None, ranks: int | None, size: int, time_s: float) -> None:
    # Columns are found by their names and units, wherever they stand and whatever stands between.
    (table,) = read_log(text).tables
    assert (table.op, table.ranks, table.rows[0].bytes) == (op, ranks, size)
    assert table.rows[0].time_s == pytest.approx(time_s)


def test_each_test_of_a_log_has_its_own_operation_and_ranks() -> None:
    # nccl-tests name the operation before or after the list of ranks, and once more at the end.
    ranks = "#  Rank  0 Group  0 Pid 1 on a device 0\n#  Rank  1 Group  0 Pid 2 on a device 1\n"
    text = (
        f"# Collective test starting: all_gather_perf\n{ranks}# {NCCOM}\n 8 2 f 3 0 0\n"
        f"# Collective test concluded: all_gather_perf\n./build/alltoall_perf -b 8\n{ranks}{ranks.replace('1 G', '2 G')}"
        f"# {NCCOM}\n 8 2 f 3 0 0\n./broadcast_perf\n# {NCCOM}\n 8 2 f 3 0 0\n"
    )
    found = [(table.op, table.ranks) for table in read_log(text).tables]
    assert found == [("all-gather", 2), ("all-to-all", 3), ("broadcast", None)]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("0 0 fp32 12.0 0 0", "a size of 0"),
        (f"{'9' * 19} 2 fp32 12.0 0 0", f"a size of {'9' * 19}"),
        ("8 2 fp32 N/A N/A N/A", "a time of N/A"),
        ("8 2 fp32 0.0 0 0", "a time of 0.0"),
        ("8 2 fp32 nan 0 0", "a time of nan"),
        ("8 2 fp32 -3 0 0", "a time of -3"),
        (
            "33554432    Failure running neuron-bench - log file x.log",
            "8 cells where 6 columns are: Failure running neuron-bench - log file x.log",
        ),
    ],
)
def test_lines_that_are_no_measurement_are_named(row: str, reason: str) -> None:
    log = read_log(f"nccom-test -r 2 allr\n{NCCOM}\n{row}\n16 4 fp32 10 0 0\n")
    assert [(skipped.line, skipped.reason) for skipped in log.skipped] == [(3, reason)]
    assert [measured.line for measured in log.tables[0].rows] == [4]


def test_operations_that_failed_their_check_are_skipped() -> None:
    log = read_log("# size time #wrong\n# (B) (us)\n 8 5 0\n 16 5 12\n 32 5 N/A\n")
    assert [skipped.reason for skipped in log.skipped] == ["12 wrong values: the operation failed its check"]
    assert [row.bytes for row in log.tables[0].rows] == [8, 32]


def test_time_in_an_unknown_unit_is_skipped() -> None:
    log = read_log("size(B) time(cycles)\n8 5\n")
    assert (log.tables, [skipped.reason for skipped in log.skipped]) == ((), ["a time in cycles"])


def test_json_report() -> None:
    # The keys of a result are the names of the columns, in any order.
    entries = [
        {"type": "fp32", "size(B)": 1024, "time:avg(us)": 6.19, "algbw(GB/s)": 0.17},
        {"size(B)": 524288, "algbw(GB/s)": 22.688776793562784, "busbw(GB/s)": 21.9798, "time:avg(us)": 23.11},
        {"size(B)": 8},
    ]
    log = read_log(json.dumps({"results": entries}))
    assert [(row.line, row.bytes) for row in log.tables[0].rows] == [(1, 1024), (2, 524288)]
    assert log.tables[0].unit == "GB/s"
    assert [(skipped.line, skipped.reason) for skipped in log.skipped] == [(3, "a result without size and time")]


@pytest.mark.parametrize(
    "text", ["", "nothing of the kind\n1 2 3\n", "{", "{}", '{"results": 3}', '{"results": [1]}', NCCOM]
)
def test_text_without_a_table_has_none(text: str) -> None:
    assert read_log(text) == Log((), ())


@given(
    sizes=st.lists(st.integers(1 << 20, 1 << 34), min_size=1, max_size=8),
    rate=st.floats(2e9, 900e9),
    unit=st.sampled_from([("GB/s", 1e9), ("GiB/s", 2.0**30)]),
)
def test_the_meaning_of_gb_follows_from_size_and_time(sizes: list[int], rate: float, unit: tuple[str, float]) -> None:
    # algbw = size / time / unit, printed with two decimals; times with two decimals too.
    name, scale = unit
    times = [round(size / rate * 1e6, 2) for size in sizes]
    lines = [
        f"{size} 1 fp32 {time:.2f} {size / (time * 1e-6) / scale:.2f} 0"
        for size, time in zip(sizes, times, strict=True)
    ]
    (table,) = read_log("\n".join([NCCOM, *lines])).tables
    assert table.unit == name
    assert [row.bytes for row in table.rows] == sizes
    assert [row.time_s * 1e6 for row in table.rows] == pytest.approx(times)


def test_bandwidths_that_follow_from_neither_say_nothing() -> None:
    (table,) = read_log(f"{NCCOM}\n1073741824 1 fp32 1000 500 500\n").tables
    assert (table.unit, table.printed_unit, table.bus_factor) == (None, "GB/s", 1.0)


@given(st.text(alphabet='#0123456789 \n.:()sizetmeuBcra_pf-[]{}"', max_size=300))
def test_no_text_stops_the_reader(text: str) -> None:
    read_log(f"{NCCOM}\n{text}")
