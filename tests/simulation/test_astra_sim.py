"""ASTRA-sim's ring by its own formula, and where its answers cannot be."""

from __future__ import annotations

from typing import Any

import pytest
from astra_sim import ANSWERS, BANDWIDTH_BYTES_PER_S, LATENCY_S, SIZE_BYTES, Answer, formula_s, trnsim_s

import trnsim


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: str(answer.ranks))
def test_its_formula_reproduces_its_answers(answer: Answer) -> None:
    # 2 (N-1)/N S / (B GiB/s) + 3 (N-1)/N S / M + 2 (N-1) splits (latency + endpoint delay), to 0.04 %
    assert formula_s(answer.ranks) == pytest.approx(answer.time_s, rel=4e-4)


@pytest.mark.parametrize("answer", ANSWERS[:3], ids=lambda answer: str(answer.ranks))
def test_what_is_left_of_it_without_memory_and_splits_is_the_ring(answer: Answer) -> None:
    # 2 (N-1) (S / (N B) + latency): the same links, one direction, nothing else
    ring_s = 2 * (answer.ranks - 1) * (SIZE_BYTES / (answer.ranks * BANDWIDTH_BYTES_PER_S) + LATENCY_S)
    assert trnsim_s(answer.ranks) == pytest.approx(ring_s, rel=1e-6)
    assert trnsim_s(answer.ranks) < answer.time_s


def test_its_direct_all_reduce_of_144_beats_any_machine_with_those_links() -> None:
    # 0.30 ms, where every rank has to get S over 50 GB/s, even if a switch adds
    (row,) = trnsim.collective(
        "all-reduce", on="star", ranks=144, sizes="1GiB", algorithm="direct", link_bandwidth="50 GB/s"
    ).rows
    assert row.bound_s >= SIZE_BYTES / 50e9 * 0.99 > 70 * 0.30e-3
    assert row.time_s == pytest.approx(2 * 143 / 144 * SIZE_BYTES / 50e9)


def test_its_ring_through_a_switch_takes_twice_what_full_duplex_links_allow() -> None:
    # 82.6 ms against 2 (N-1) (S / (N B) + 0.5 us) = 42.8 ms
    (row,) = trnsim.collective(
        "all-reduce",
        on="star",
        ranks=144,
        sizes="1GiB",
        algorithm="ring",
        link_bandwidth="50 GB/s",
        link_latency="250 ns",
    ).rows
    assert 1.9 < 82.6e-3 / row.time_s < 2.0


def test_the_shape_of_a_torus_counts() -> None:
    # 2 and 3 axes: bandwidth of 4 and 6 links a chip, so all axes at once take 15/16 / 4 against 63/64 / 6 of 2 S / B.
    links: dict[str, Any] = {"link_bandwidth": "50 GB/s", "sizes": "1GiB", "algorithm": "torus"}
    flat, deep = (
        trnsim.collective("all-reduce", on=f"torus:{shape}", **links).rows[0].time_s for shape in ("4x4", "4x4x4")
    )
    assert flat == pytest.approx(2 * 15 / 16 / 4 * SIZE_BYTES / 50e9, rel=1e-6)
    assert deep == pytest.approx(2 * 63 / 64 / 6 * SIZE_BYTES / 50e9, rel=1e-6)
