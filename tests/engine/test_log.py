"""What is written into a journal is what is read from its log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.engine import Journal, Wait

if TYPE_CHECKING:
    from trnsim.engine import Log, Operation

OPERATIONS = [Wait(name, "bubble", "exposed_pp") for name in "abc"]

times = st.integers(-(2**63), 2**63 - 1)
rows = st.tuples(st.sampled_from(OPERATIONS), st.none() | times, times, times)
"""An operation, its start (None: the end of the one before), ready and end."""


def written(
    journal: Journal, found: list[tuple[Operation, int | None, int, int]]
) -> list[tuple[Operation, int, int, int]]:
    """Write rows, and return them with all starts."""
    end_ps, whole = 0, []
    for operation, start_ps, ready_ps, last_ps in found:
        start = end_ps if start_ps is None else start_ps
        journal.add(operation, start, ready_ps, last_ps)
        whole.append((operation, start, ready_ps, last_ps))
        end_ps = last_ps
    return whole


def read(log: Log) -> list[tuple[Operation, int, int, int]]:
    return [(row.operation, row.start_ps, row.ready_ps, row.end_ps) for row in log.rows()]


@given(st.lists(rows, max_size=12))
def test_what_is_written_is_read(found: list[tuple[Operation, int | None, int, int]]) -> None:
    journal = Journal()
    whole = written(journal, found)
    assert read(journal.log) == whole
    assert read(Journal.of(journal.log).log) == whole
    assert len(journal) == len(whole)
    assert journal.end_ps == (whole[-1][3] if whole else 0)


@given(st.lists(st.lists(rows, max_size=6), min_size=2, max_size=4), st.data())
def test_journals_that_begin_alike_may_go_on_differently(
    found: list[list[tuple[Operation, int | None, int, int]]], data: st.DataObject
) -> None:
    # they are written by turns, each up to some row; who is behind and who does something else is drawn
    first = Journal()
    journals = [first, *(Journal(first) for _ in found[1:])]
    left = [[(number, row) for row in wanted] for number, wanted in enumerate(found)]
    whole: list[list[tuple[Operation, int, int, int]]] = [[] for _ in found]
    while any(left):
        number, (operation, start_ps, ready_ps, end_ps) = data.draw(
            st.sampled_from([each for each in left if each])
        ).pop(0)
        start = journals[number].end_ps if start_ps is None else start_ps
        journals[number].add(operation, start, ready_ps, end_ps)
        whole[number].append((operation, start, ready_ps, end_ps))
    assert [read(journal.log) for journal in journals] == whole


def test_a_time_that_does_not_fit_is_refused() -> None:
    with pytest.raises(OverflowError, match=f"{2**63} ps do not fit into 64 bits"):
        Journal().add(OPERATIONS[0], 0, 0, 2**63)
