"""The tables: one declaration per column holds for the frames, the CSV files and the docs."""

from __future__ import annotations

import csv
import io

import pytest
from fakes import fake_result
from msgspec.structs import replace
from pages import TABLES_PAGE, section

from trnsim.results import TABLES, csv_text


@pytest.mark.parametrize("name", TABLES)
def test_frame_has_the_declared_columns_and_dtypes(name: str) -> None:
    frame = fake_result().table(name)
    assert list(frame.columns) == [column.name for column in TABLES[name]]
    for column in TABLES[name]:
        assert frame[column.name].dtype == column.dtype


def test_empty_table_keeps_its_columns_and_dtypes() -> None:
    # A run on one chip has no collective: the frame is empty but typed.
    frame = replace(fake_result(), collectives=()).table("collectives")
    assert len(frame) == 0
    assert [str(dtype) for dtype in frame.dtypes] == [column.dtype for column in TABLES["collectives"]]


@pytest.mark.parametrize("name", TABLES)
def test_csv_and_frame_hold_the_same(name: str) -> None:
    rows = list(csv.DictReader(io.StringIO(csv_text(fake_result(), name))))
    frame = fake_result().table(name)
    assert rows == [{key: str(value) for key, value in row.items()} for row in frame.to_dict("records")]


def test_a_frame_says_of_what_run_it_is() -> None:
    result = fake_result()
    assert result.table("step").attrs["provenance"] == result.to_dict()["provenance"]


def test_breakdown_sums_to_the_step() -> None:
    frame = fake_result().table("breakdown")
    assert frame["time_s"].sum() == pytest.approx(10.0)
    assert frame["fraction"].sum() == pytest.approx(1.0)


def test_memory_terms_sum_to_the_bytes() -> None:
    result = fake_result()
    assert result.table("memory")["bytes"].sum() == result.memory.bytes


def test_unknown_table_lists_the_known_ones() -> None:
    with pytest.raises(KeyError, match="no table 'link'; there are step, breakdown"):
        fake_result().table("link")


@pytest.mark.parametrize("name", TABLES)
def test_docs_show_the_declarations(name: str) -> None:
    assert section(name, TABLES[name]) in TABLES_PAGE.read_text(encoding="utf-8")


def test_notebook_shows_an_escaped_table() -> None:
    html = fake_result(name="<a> & b")._repr_html_()
    assert html.startswith("<table><caption>&lt;a&gt; &amp; b</caption>")
    assert "<tr><th>step time</th><td>10.0 s</td></tr>" in html
