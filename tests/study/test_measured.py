"""Measured tables: what columns and blanks mean, what is refused; and memory that was published beside what is counted."""

from __future__ import annotations

from statistics import mean
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from trnsim.errors import InputError
from trnsim.study.measured import read_measured, shipped
from trnsim.study.measured_memory import CONVENTIONS, check_memory_rows

if TYPE_CHECKING:
    from pathlib import Path

HEAD = "id,group,model,metric,value,unit,source"


def table(folder: Path, text: str) -> Path:
    path = folder / "measured.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_blanks_mean_what_the_reader_says(tmp_path: Path) -> None:
    # A degree is 1, kv_heads are heads, dp is what is left of the accelerators, the split is test; else not stated.
    text = f"{HEAD},tp,pp,vpp,cp,dp,heads,kv_heads,accelerators,seq_parallel,split,grad_accum\n"
    text += "a,set,model,iteration_time,1.5,s,somewhere,4,,,,,32,,16,,,\n"
    text += "b,set,model,iteration_time,1.5,s,somewhere,4,2,,,3,32,8,16,yes,calibration,7\n"
    one, two = read_measured(table(tmp_path, text))
    assert (one.tp, one.pp, one.vpp, one.cp, one.dp, one.kv_heads) == (4, 1, 1, 1, 4, 32)
    assert (one.seq_parallel, one.split, one.grad_accum, one.recompute) == (False, "test", None, "")
    assert (two.pp, two.dp, two.kv_heads, two.seq_parallel, two.split, two.grad_accum) == (
        2,
        3,
        8,
        True,
        "calibration",
        7,
    )
    assert (one.line, two.line) == (2, 3)


def test_unknown_columns_are_ignored(tmp_path: Path) -> None:
    text = f"\ufeffweather,{HEAD},confidence\nfine,a,set,model,mfu,0.4,fraction,somewhere,verbatim\n"
    (row,) = read_measured(table(tmp_path, text))
    assert (row.id, row.value, row.dp) == ("a", 0.4, None)


@pytest.mark.parametrize(
    ("text", "due"),
    [
        ("id,group,model,metric,value\na,set,model,mfu,1\n", "line 1  unit  a column unit is due"),
        ("id,model,metric,value,unit\na,model,mfu,1,s\n", "line 1  group  a column group is due"),
        ("id,group,model\n", "a column metric, value, unit is due"),
        ("", "a column id, group, model, metric, value, unit is due"),
        (f"{HEAD}\n", "the table has no rows"),
    ],
)
def test_what_is_no_measured_table_is_an_input_error(tmp_path: Path, text: str, due: str) -> None:
    with pytest.raises(InputError) as error:
        read_measured(table(tmp_path, text))
    assert error.value.exit_code == 2
    assert due in str(error.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"{HEAD}\na,set,model,mfu,597[^note],x,y\n", "value is 597[^note], and a number of at least 0 is due"),
        (f"{HEAD}\na,set,model,mfu,,x,y\n", "value is blank, and a number of at least 0 is due"),
        (f"{HEAD}\na,set,model,mfu,nan,x,y\n", "value is nan, and a number of at least 0 is due"),
        (f"{HEAD},tp\na,set,model,mfu,1,x,y,2.5\n", "tp is 2.5, and a whole number is due"),
        (f"{HEAD},tp\na,set,model,mfu,1,x,y,0\n", "tp is 0, and a degree is at least 1"),
        (f"{HEAD},split\na,set,model,mfu,1,x,y,half\n", "split is half; choose from calibration, test"),
        (f"{HEAD}\na,,model,mfu,1,x,y\n", "group is blank"),
        (
            f"{HEAD},tp,split\na,set,model,mfu,x,,y,0,half\n",
            (
                "value is x, and a number of at least 0 is due; split is half; choose from calibration, test; "
                "unit is blank; tp is 0, and a degree is at least 1"
            ),
        ),
    ],
)
def test_a_row_that_cannot_be_read_is_kept_with_every_reason(tmp_path: Path, text: str, reason: str) -> None:
    (row,) = read_measured(table(tmp_path, text))
    assert (row.id, row.skipped) == ("a", reason)


def test_a_missing_file_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_measured(tmp_path / "nothing.csv")


def test_every_row_that_is_shipped_has_a_source_and_a_name_of_its_own() -> None:
    rows = read_measured(shipped("memory"))
    assert len({row.id for row in rows}) == len(rows) == 56
    assert {row.group for row in rows} == set(CONVENTIONS)
    assert all(row.split == "test" for row in rows)  # nothing was fitted to them


def test_published_memory_is_met() -> None:
    # Mean error of all rows at most 5 %; of each set at most what its page says of it.
    checked = check_memory_rows()
    assert len(checked) == 45
    assert mean(abs(each.error) for each in checked) <= 0.05
    most = {"korthikanti22": 1e-3, "simumax-b200": 0.03, "torchtitan": 0.13, "internevo": 0.05}
    for group, limit in most.items():
        assert mean(abs(each.error) for each in checked if each.row.group == group) <= limit


def test_a_convention_holds_for_all_rows_of_its_set() -> None:
    # Twice the microbatches change nothing at pp 1, where one is in flight: SimuMax measured that.
    rows = {row.id: row for row in read_measured(shipped("memory"))}
    row = rows["sm-llama3_405b_l4_tp2_pp1_dp4_mbc4_cef-mem"]
    counted = [check_memory_rows([replace(row, grad_accum=accumulated)])[0].counted for accumulated in (4, 8, 32)]
    assert len(set(counted)) == 1
    assert rows["sm-llama3_405b_l4_tp2_pp1_dp4_mbc32_cef-mem"].value == row.value
