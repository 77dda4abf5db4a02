"""Collectives on networks: closed forms, what `auto` takes and why, and every mistake in one report."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trnsim
from trnsim.collectives import busbw_factor, op_names
from trnsim.collectives.policy import neuron_algorithm
from trnsim.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from trnsim.results.collective_times import CollectiveTimes

GIB = 2**30
STAR: dict[str, Any] = {"on": "star", "link_bandwidth": "50 GB/s", "link_latency": "250 ns"}


def times_on_star(op: str, **asked: Any) -> CollectiveTimes:
    return trnsim.collective(op, **{**STAR, **asked})


def problems_of(op: str = "all-reduce", **asked: Any) -> dict[str, str]:
    """Return what is wrong with a question, key to message."""
    with pytest.raises(InputError) as refused:
        trnsim.collective(op, **asked)
    return {problem.key: problem.message for problem in refused.value.problems}


@pytest.mark.parametrize(
    ("ranks", "milliseconds", "fidelity"),
    [
        (8, 37.587964, "closed_form"),
        (8, 37.587964, "flow"),
        (8, 37.587964, "chunk"),
        (64, 42.341584, "flow"),
        (144, 42.794409, "closed_form"),
    ],
)
def test_ring_on_a_star_takes_what_simgrid_says(ranks: int, milliseconds: float, fidelity: str) -> None:
    # 2 (N - 1) (S / (N B) + 0.5 us) for a path of two links of 250 ns; SimGrid 3.32, model CM02 without corrections,
    # prints these milliseconds. A single message is cut through: the same, as every link carries one message a step.
    (row,) = times_on_star("all-reduce", ranks=ranks, sizes="1GiB", algorithm="ring", fidelity=fidelity).rows
    assert row.time_s == pytest.approx(2 * (ranks - 1) * (GIB / (ranks * 50e9) + 500e-9), rel=1e-6)
    assert row.time_s * 1e3 == pytest.approx(milliseconds, rel=1e-6)


@pytest.mark.parametrize(("ranks", "milliseconds"), [(64, 21.139792), (144, 21.326204)])
def test_all_to_all_on_a_star_takes_what_simgrid_says(ranks: int, milliseconds: float) -> None:
    # (N - 1) S / (N B) + 0.5 us
    (row,) = times_on_star("all-to-all", ranks=ranks, sizes="1GiB", algorithm="direct").rows
    assert row.time_s == pytest.approx((ranks - 1) * GIB / (ranks * 50e9) + 500e-9, rel=1e-9)
    assert row.time_s * 1e3 == pytest.approx(milliseconds, rel=1e-6)


def test_ties_split_or_positive() -> None:
    # Even axis of k: a positive tie puts k/2 (k/2 + 1) / 2 on a positive link, a split one the average of both ways.
    # 4x4x4: 16.106627 ms against 10.737418 ms plus the latency of six hops.
    asked: dict[str, Any] = {
        "on": "torus:4x4x4",
        "link_bandwidth": "50 GB/s",
        "link_latency": "500 ns",
        "sizes": "1GiB",
    }
    split = trnsim.collective("all-to-all", algorithm="direct", **asked).rows[0].time_s
    positive = trnsim.collective("all-to-all", algorithm="direct", ties="positive", **asked).rows[0].time_s
    assert positive == pytest.approx(16.106627e-3, rel=1e-4)
    assert 0 < split - GIB / 2 / 50e9 < 3e-6


@pytest.mark.parametrize("op", [op for op in op_names() if op != "barrier"])
def test_bandwidths_follow_from_size_time_and_the_ring_convention(op: str) -> None:
    # algbw = bytes / time, busbw = algbw x factor; nothing beats its bound
    times = times_on_star(op, ranks=6, sizes="1KiB:64MiB")
    assert times.bus_factor == busbw_factor(op, 6)
    for row in times.rows:
        assert row.algbw_bytes_per_s == row.bytes / row.time_s
        assert row.busbw_bytes_per_s == row.algbw_bytes_per_s * busbw_factor(op, 6)
        assert row.time_s >= row.bound_s * (1 - 1e-9)
        assert row.ranks == 6


def test_a_group_of_one_takes_no_time_and_has_no_bandwidth() -> None:
    (row,) = times_on_star("all-reduce", ranks=1, sizes="8").rows
    assert (row.time_s, row.algbw_bytes_per_s, row.busbw_bytes_per_s, row.bound_s, row.bound_by) == (
        0,
        None,
        None,
        0,
        "",
    )


def test_a_barrier_has_no_size() -> None:
    # log2 of 8 rounds of 500 ns
    times = times_on_star("barrier", ranks=8, algorithm="dissemination")
    (row,) = times.rows
    assert row.bytes == 0
    assert row.time_s == pytest.approx(3 * 500e-9)
    assert times.warnings == ()
    assert times_on_star("barrier", ranks=8, sizes="8").warnings == (
        "bytes: a barrier has no buffer, so sizes make no difference",
    )


def test_what_bounds_a_row_is_what_takes_more_than_half() -> None:
    # ring over 4: 6 steps of 500 ns, and 1.5 S / B: equal where S = 100,000 bytes
    small, large = times_on_star("all-reduce", ranks=4, sizes=[99_000, 101_000], algorithm="ring").rows
    assert (small.bound_by, large.bound_by) == ("latency", "up, as chip 0 -> switch")


def test_auto_is_never_slower_than_any_algorithm_and_says_by_how_much() -> None:
    sizes = "1KiB:64MiB"
    asked: dict[str, Any] = {"on": "torus:4x4", "link_bandwidth": "50 GB/s", "link_latency": "1 us", "sizes": sizes}
    auto = trnsim.collective("all-reduce", **asked)
    for name in ("ring", "recursive-halving-doubling", "direct", "torus", "double-binary-tree"):
        for best, row in zip(auto.rows, trnsim.collective("all-reduce", algorithm=name, **asked).rows, strict=True):
            assert best.time_s <= row.time_s * (1 + 1e-12)
            rival = {rival.name: rival for rival in best.rivals}.get(name)
            if rival is None:
                assert best.algorithm == name
            elif rival.at_least:
                assert best.time_s <= rival.time_s <= row.time_s * (1 + 1e-9)
            else:
                assert rival.time_s == pytest.approx(row.time_s)
    assert len({row.algorithm for row in auto.rows}) > 1


def test_pipelines_are_cut_into_as_many_pieces_as_pay() -> None:
    # Up and down in P pieces, h switches apart: about (P + 1) (latency + S / (P B)); the best of powers of two is no
    # slower than one piece, 2 (latency + S / B), and for a large buffer nearly half.
    asked: dict[str, Any] = {**STAR, "on": "switch", "ranks": 8, "algorithm": "in-network", "sizes": "1GiB"}
    try:
        (row,) = trnsim.collective("all-reduce", **asked).rows
    except InputError:
        asked["on"] = "star"
        (row,) = trnsim.collective("all-reduce", **asked).rows
    assert GIB / 50e9 < row.time_s < 1.02 * GIB / 50e9


def test_a_generic_switch_adds_only_when_that_is_named() -> None:
    times = trnsim.collective("all-reduce", **{**STAR, "on": "switch"}, ranks=8, sizes="1GiB")
    assert times.rows[0].algorithm != "in-network"
    assert trnsim.collective("all-reduce", on="dgx-h100", sizes="1GiB").rows[0].algorithm == "in-network"


def test_neurons_policy_goes_by_size() -> None:
    # mesh below 1 MB, recursive halving and doubling up to 56 MB, KangaRing above
    sizes = [999_999, 10**6, 56 * 10**6, 56 * 10**6 + 1]
    asked: dict[str, Any] = {"on": "trn2.48xlarge", "rank": "logical_core", "policy": "neuron", "sizes": sizes}
    times = trnsim.collective("all-reduce", **asked)
    assert [row.algorithm for row in times.rows] == [neuron_algorithm(size) for size in sizes]
    assert [row.algorithm for row in times.rows] == [
        "direct",
        "recursive-halving-doubling",
        "recursive-halving-doubling",
        "kangaring",
    ]
    assert times.notes == ()


def test_neurons_policy_takes_the_ring_where_no_two_ranks_share_a_chip_and_says_so() -> None:
    times = trnsim.collective("all-reduce", on="trn2.48xlarge", policy="neuron", sizes="1GiB")
    assert times.rows[0].algorithm == "ring"
    assert times.notes == ("ring in place of kangaring, which needs an even number of members on each chip",)


def test_a_policy_beside_a_named_algorithm_is_warned_about() -> None:
    times = times_on_star("all-reduce", ranks=4, sizes="8", algorithm="ring", policy="neuron")
    assert times.warnings == ("policy: ring was named, so there is nothing to choose",)


@given(
    links=st.integers(1, 8),
    factor=st.sampled_from([0.1, 0.25, 0.5, 1.0]),
)
@settings(max_examples=12)
def test_a_ring_is_as_slow_as_its_slowest_link(links: int, factor: float) -> None:
    # Every step waits for the slowed uplinks: the transfer takes 1 / factor as long, however many they are.
    whole = times_on_star("all-reduce", ranks=8, sizes="1GiB", algorithm="ring").rows[0].time_s
    slowed = times_on_star("all-reduce", ranks=8, sizes="1GiB", algorithm="ring", degrade=f"{links}:{factor}")
    latency_s = 14 * 500e-9
    assert slowed.rows[0].time_s - latency_s == pytest.approx((whole - latency_s) / factor, rel=1e-6)
    assert f"{links} of 8 uplinks" in slowed.provenance["described"]


def test_all_to_all_v_goes_by_its_matrix(tmp_path: Path) -> None:
    # The buffer is the largest of what a rank sends or gets, 8; 0 sends 6 of it to 1, and that takes longest.
    file = tmp_path / "sends.csv"
    file.write_text("2,6,0\n0,1,1\n3,0,0\n")
    times = times_on_star("all-to-all-v", sizes="8GB", matrix=str(file))
    assert times.rows[0].time_s == pytest.approx(6e9 / 50e9 + 500e-9)
    assert times.provenance["ranks"] == 3
    equal = times_on_star("all-to-all-v", sizes="8GB", ranks=4).rows[0]
    assert equal.time_s == times_on_star("all-to-all", sizes="8GB", ranks=4, algorithm="direct").rows[0].time_s


@pytest.mark.parametrize("op", ["All-Reduce", "all_reduce", "ALLREDUCE"])
def test_names_are_read_without_regard_to_case_and_dashes(op: str) -> None:
    times = times_on_star(op, ranks=4, sizes="8", algorithm="Recursive_Halving_Doubling", fidelity="Closed-Form")
    assert (times.op, times.rows[0].algorithm) == ("all-reduce", "recursive-halving-doubling")
    assert times.rows[0].fidelity == "closed_form"


def test_ranks_are_all_endpoints_unless_they_are_named() -> None:
    assert trnsim.collective("barrier", on="trn2.48xlarge").provenance["ranks"] == 16
    assert trnsim.collective("barrier", on="trn2.48xlarge", rank="logical_core").provenance["ranks"] == 64
    assert trnsim.collective("barrier", on="trn1.32xlarge", servers=2, ranks=20).provenance["ranks"] == 20
    assert (
        trnsim.collective("barrier", on="trn1.32xlarge", servers=2, fabric="ultracluster-2to1").provenance["ranks"]
        == 32
    )
    assert trnsim.collective("barrier", on="hypercube:3", link_bandwidth="1 GB/s").provenance["ranks"] == 8


def test_every_problem_is_in_one_report() -> None:
    asked: dict[str, Any] = {
        "on": "star",
        "ranks": 0,
        "servers": 2,
        "rank": "core",
        "sizes": "0",
        "algorithm": "rign",
        "fidelity": "flaw",
        "policy": "best",
        "link_bandwidth": "50",
        "link_latency": "1 GB",
        "ties": "both",
        "degrade": "10",
        "matrix": "nowhere.csv",
    }
    found = problems_of("all-redcue", **asked)
    assert found.keys() == {*asked, "op", "bytes"} - {"on", "sizes", "algorithm"}
    assert "did you mean all-reduce" in found["op"]
    assert "did you mean flow" in found["fidelity"]
    assert found["link_bandwidth"].startswith("50 is a bare number")
    assert found["matrix"] == "no such file"
    with pytest.raises(InputError) as refused:
        trnsim.collective("all-redcue", **asked)
    assert refused.value.exit_code == 2


@pytest.mark.parametrize(
    ("asked", "key", "sentence"),
    [
        ({"on": "taurus:4x4", "link_bandwidth": "1 GB/s"}, "on", 'unknown topology or server "taurus"; did you mean torus'),
        ({"on": "trn2-ultrserver"}, "on", "did you mean trn2-ultraserver"),
        ({"on": "ultracluster"}, "on", "it joins servers and has no chips of its own"),
        ({"on": "star", "ranks": 4}, "link_bandwidth", 'write it like "50 GB/s"'),
        ({"on": "star", "link_bandwidth": "1 GB/s"}, "ranks", "a star takes its size from the number of ranks"),
        ({"on": "star", "ranks": 4, "link_bandwidth": "1 GB/s", "rank": "logical_core"}, "rank", "only for servers of the catalog"),
        ({"on": "star", "ranks": 4, "link_bandwidth": "1 GB/s", "fabric": "ultracluster"}, "fabric", "only for servers"),
        ({"on": "torus:4xx", "link_bandwidth": "1 GB/s"}, "", "a torus is written like torus:4x4x4"),
        ({"on": "trn2.48xlarge", "link_bandwidth": "1 GB/s"}, "link_bandwidth", "only for generic machines"),
        ({"on": "trn2.48xlarge", "ties": "split"}, "ties", "only for generic machines"),
        ({"on": "clos-two-tier", "servers": 2}, "servers", "only for servers of the catalog"),
        ({"on": "trn1.2xlarge", "servers": 2}, "cluster.server", "has no scale-out links"),
        ({"on": "trn2.48xlarge", "servers": 2, "fabric": "ultraclutser"}, "", "did you mean ultracluster"),
        ({"on": "trn2.48xlarge", "algorithm": "rign"}, "algorithm", "did you mean ring"),
        ({"on": "trn2.48xlarge", "algorithm": "kangaring"}, "algorithm", "an even number of members on each chip"),
        ({"on": "trn2.48xlarge", "algorithm": "in-network"}, "algorithm", "a switch that joins all members"),
        ({"on": "trn2.48xlarge", "degrade": "999:0.5"}, "degrade", "999 are to be slowed"),
        ({"on": "trn2.48xlarge", "degrade": "1:0"}, "degrade", "like 10:0.5"),
        ({"on": "trn2.48xlarge", "degrade": "0:0.5"}, "degrade", "like 10:0.5"),
        ({"on": "trn2.48xlarge", "degrade": "1:2"}, "degrade", "like 10:0.5"),
        ({"on": "trn2.48xlarge", "degrade": "1:nan"}, "degrade", "like 10:0.5"),
        ({"on": "trn2.48xlarge", "sizes": "8 us"}, "bytes", '"us" is not a unit of size'),
        ({"on": "trn2.48xlarge", "sizes": "-8"}, "bytes", "outside the range of a size"),
        ({"on": "trn2.48xlarge", "sizes": [8, 0]}, "bytes", "at least 1 B"),
        ({"on": "trn2.48xlarge", "matrix": "pyproject.toml"}, "matrix", "for an all-to-all-v, not for all-reduce"),
    ],
)  # fmt: skip
def test_a_mistake_is_named(asked: dict[str, Any], key: str, sentence: str) -> None:
    assert sentence in problems_of(**asked).get(key, "")


def test_neurons_policy_knows_three_operations() -> None:
    assert "not for broadcast" in problems_of("broadcast", on="trn2.48xlarge", policy="neuron")["policy"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("1,2\n3\n", "it is square"),
        ("", "it is square"),
        ("1,x\n3,4\n", "whole numbers"),
        ("0,-1\n1,0\n", "not negative"),
        ("0,0\n0,0\n", "not all of it zero"),
        ("1,2\n3,4\n", "it has 2 rows, and there are 3 ranks"),
        ("\udcff", "not text in UTF-8"),
    ],
)
def test_a_matrix_that_is_none(text: str, sentence: str, tmp_path: Path) -> None:
    file = tmp_path / "m.csv"
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert sentence in problems_of("all-to-all-v", **STAR, ranks=3, matrix=str(file))["matrix"]


def test_too_few_endpoints_are_exit_code_3_and_another_mistake_makes_it_2() -> None:
    cases: tuple[tuple[dict[str, Any], int], ...] = (({}, 3), ({"degrade": "x"}, 2))
    for more, code in cases:
        with pytest.raises(InputError) as refused:
            trnsim.collective("all-reduce", on="trn1.32xlarge", rank="logical_core", ranks=33, **more)
        assert refused.value.exit_code == code
    assert "trn1.32xlarge has 32 logical cores" in str(refused.value)
    with pytest.raises(InputError) as refused:
        trnsim.collective("all-reduce", on="torus:4x4x4", link_bandwidth="1 GB/s", ranks=65)
    assert refused.value.exit_code == 3


def test_single_messages_of_more_than_16384_ranks_are_refused() -> None:
    with pytest.raises(InputError) as refused:
        times_on_star("all-reduce", ranks=16_385, fidelity="chunk")
    assert refused.value.exit_code == 2
    assert "up to 16,384 ranks, not 16,385" in str(refused.value)


def test_what_is_too_large_to_try_is_said() -> None:
    # 2,047 steps of 2,048 ranks that all differ
    times = trnsim.collective("all-to-all", **{**STAR, "on": "torus:8x16x16"}, sizes="1GiB", fidelity="closed_form")
    assert [note.split(":")[0] for note in times.notes] == ["auto leaves pairwise out"]


def test_explanation_is_of_the_largest_size() -> None:
    # 14 steps of S / 8 on every uplink
    times = times_on_star("all-reduce", ranks=8, sizes="8:1GiB", algorithm="ring", explain=True)
    found = times.explanation
    assert found is not None
    assert (found.steps, found.bytes_by_kind["up"]) == (14, 14 * GIB)
    assert found.time_s == times.rows[-1].time_s
    assert times_on_star("all-reduce", ranks=8, sizes="8").explanation is None


def test_simulation_imports_no_numpy() -> None:
    # A closed-form run of a scenario does without it, so the package must not bring it in.
    import subprocess
    import sys

    code = "import sys, trnsim.simulation; print('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_frame_and_csv_hold_the_rows() -> None:
    times = times_on_star("all-gather", ranks=4, sizes="1KiB:4KiB")
    assert times.frame()["time_s"].tolist() == [row.time_s for row in times.rows]
    assert times.csv_text().splitlines()[0].startswith("bytes,ranks,algorithm,fidelity,time_s,algbw_bytes_per_s")
    assert math.isclose(float(times.csv_text().splitlines()[3].split(",")[4]), times.rows[2].time_s)
