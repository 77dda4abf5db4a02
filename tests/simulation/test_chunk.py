"""Training steps whose messages are followed one by one, against closed forms and bounds."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from small import json_of_small, load_small, simulate_small

import trnsim
from trnsim.errors import InputError
from trnsim.fabric.price import MESSAGE
from trnsim.parallel import Group
from trnsim.simulation.machine import build_machine

if TYPE_CHECKING:
    from pathlib import Path

    from trnsim import Result
    from trnsim.fabric import Price
    from trnsim.fabric.chunk import ChunkFabric
    from trnsim.simulation.machine import Machine


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("small")


def both(folder: Path, **overrides: Any) -> tuple[Result, Result]:
    """Simulate in closed form and by single messages."""
    closed, chunk = (simulate_small(folder, **overrides, run__fidelity=each) for each in ("closed_form", "chunk"))
    return closed, chunk


def rounding_s(result: Result) -> float:
    """Return by how much rounding may part the two: it is derived, not tuned.

    Of each step of a program the latency of each link is rounded by half a picosecond, its time by one; bandwidths are
    whole bytes/s, of links of at least 1e9 bytes/s. A path has at most 6 links, a program at most 2 N steps. The path to
    the end of the step leads through no more of each collective than every rank of a pipeline has.
    """
    stages = max(1, len(result.stages))
    programs = sum(use.count * 2 * use.group_size * (6 * 0.5 + 1) + use.count for use in result.collectives)
    return 1e-12 * stages * programs + 0.5e-9 * result.step.time_s


ALONE: Final[dict[str, dict[str, Any]]] = {
    "pairs in a sled and between racks": {"layout__tp": 2, "layout__pp": 2, "layout__dp": 4},
    "a stage a sled": {"layout__tp": 4, "layout__pp": 4, "layout__dp": 2, "layout__order": "[tp, cp, pp, dp]"},
    "a stage a row of a torus": {
        "cluster__server": "trn2.48xlarge",
        "layout__tp": 4,
        "layout__pp": 4,
        "layout__dp": 1,
    },
    "the same, on two instances": {
        "cluster__server": "trn1.32xlarge",
        "cluster__servers": 2,
        "layout__tp": 4,
        "layout__pp": 4,
        "layout__dp": 2,
    },
}


@pytest.mark.parametrize("name", ALONE)
def test_a_step_whose_transfers_meet_nobody_takes_its_closed_form(folder: Path, name: str) -> None:
    # No link is used by two transfers at once and all members of a collective come together: every part of the step,
    # sends, bubbles and buckets included, is that of the closed form but for rounding.
    overrides = {**ALONE[name], "collectives__algorithm": "ring", "training__data_parallel_overlap": "none"}
    closed, chunk = both(folder, **overrides)
    assert chunk.step.time_s == pytest.approx(closed.step.time_s, abs=rounding_s(closed))
    for part, seconds in closed.step.breakdown_s.parts().items():
        assert chunk.step.breakdown_s.parts()[part] == pytest.approx(seconds, abs=rounding_s(closed)), part
    assert [(link.name, link.bytes) for link in chunk.links] == [(link.name, link.bytes) for link in closed.links]
    assert chunk.collectives[0].time_s == closed.collectives[0].time_s


def test_messages_of_several_axes_queue_on_the_same_links(folder: Path) -> None:
    # Buckets leave while tensor collectives use the same links of a sled: the step is longer than in closed form, and by
    # no more than all bytes of a step one after the other.
    closed, chunk = both(folder, layout__pp=1, layout__dp=8)
    sent_s = sum(use.count * use.time_s for use in closed.collectives)
    assert rounding_s(closed) < chunk.step.time_s - closed.step.time_s < sent_s


@settings(max_examples=15)
@given(
    server=st.sampled_from(["trn3-gen2-ultraserver", "trn2-ultraserver", "trn1.32xlarge"]),
    rank=st.sampled_from(["chip", "logical_core"]),
    order=st.permutations(["tp", "dp", "pp"]),
    tp=st.sampled_from([1, 2, 4]),
    pp=st.integers(1, 3),
    dp=st.integers(1, 4),
    microbatches=st.integers(1, 3),
    overlap=st.sampled_from(["none", "buckets"]),
    zero=st.integers(0, 1),
    tied=st.sampled_from(["true", "false"]),
    algorithm=st.sampled_from(["auto", "ring", "direct", "recursive-halving-doubling"]),
)
def test_no_step_beats_its_bounds(
    folder: Path,
    server: str,
    rank: str,
    order: list[str],
    tp: int,
    pp: int,
    dp: int,
    microbatches: int,
    overlap: str,
    zero: int,
    tied: str,
    algorithm: str,
) -> None:
    # One step from a cold start: each rank does all of its own work, and no link carries more than its bandwidth. Parts
    # sum to the picosecond, every rank is simulated, and the bytes are those of the closed form.
    overrides = {
        "cluster__server": server,
        "cluster__servers": 2,
        "layout__rank": rank,
        "layout__order": [order[0], "cp", *order[1:]],
        "layout__tp": tp,
        "layout__pp": pp,
        "layout__dp": dp,
        "layout__zero": zero,
        "training__global_batch": microbatches * dp,
        "training__data_parallel_overlap": overlap,
        "model__tied_embeddings": tied,
        "model__layers": 3,
        "collectives__algorithm": algorithm,
        "run__steps": 1,
    }
    try:
        closed, chunk = both(folder, **overrides)
    except InputError:  # an instance takes only some numbers of cores (rule 15)
        assume(False)
    parts = chunk.step.breakdown_s.parts()
    assert sum(round(part * 1e12) for part in parts.values()) == round(chunk.step.time_s * 1e12)
    own = ("compute", "recompute", "skew", "overhead", "optimizer")
    assert chunk.step.time_s >= sum(closed.step.breakdown_s.parts()[part] for part in own) * (1 - 1e-9)
    assert chunk.engine.cohorts == tp * pp * dp
    assert [(link.name, link.bytes) for link in chunk.links] == [(link.name, link.bytes) for link in closed.links]
    assert all(link.utilization_fraction <= 1 for link in chunk.links)


def carried(machine: Machine, chunk: ChunkFabric, ranks: tuple[int, ...], price: Price) -> dict[str, float]:
    """Return the bytes that the messages of a task put on the links of each kind: busy time x bandwidth."""
    network, found = chunk.network, defaultdict[str, float](float)
    for each in chunk.exchanges(ranks, price.task):
        for send in (send for sends in each.sends for send in sends):
            for link, busy_ps in send.path:
                found[network.kinds[network.kind[link]]] += each.steps * busy_ps * int(network.bytes_per_s[link]) / 1e12
    return dict(found)


@settings(max_examples=40)
@given(
    server=st.sampled_from(["trn3-gen2-ultraserver", "trn2-ultraserver", "trn1.32xlarge"]),
    size=st.integers(2, 12),
    stride=st.sampled_from([1, 2, 8, 16]),
    first=st.integers(0, 3),
    op=st.sampled_from(["all-reduce", "reduce-scatter", "all-gather", MESSAGE]),
    algorithm=st.sampled_from(["ring", "direct", "recursive-halving-doubling", "hierarchical"]),
)
def test_messages_carry_the_bytes_of_the_price(
    folder: Path, server: str, size: int, stride: int, first: int, op: str, algorithm: str
) -> None:
    # Bytes on the links of each kind, over all messages, equal what the closed form counts; a message keeps a link busy
    # for whole picoseconds, so it may seem larger by bandwidth x 1 ps: less than a byte.
    overrides = {"cluster__server": server, "cluster__servers": 4, "layout__tp": 4, "layout__pp": 1, "layout__dp": 4}
    machine = build_machine(load_small(folder, **overrides, run__fidelity="chunk"))
    group = Group(first, stride, size)
    assume(first + stride * size <= machine.cluster.chips)
    chunk = machine.chunk
    assert chunk is not None
    ranks: tuple[int, ...]
    if op == MESSAGE:
        ranks, price = (first, first + stride), machine.fabric.send(first, first + stride, 3e6)
    else:
        ranks, price = tuple(group.members()), machine.fabric.price(op, algorithm, group, 3e6)
    messages = sum(each.steps * len(sends) for each in chunk.exchanges(ranks, price.task) for sends in each.sends)
    found = carried(machine, chunk, ranks, price)
    assert found.keys() == price.bytes_by_kind.keys()
    for kind, size_bytes in price.bytes_by_kind.items():
        assert size_bytes * (1 - 1e-9) <= found[kind] <= size_bytes * (1 + 1e-9) + 8 * messages


def test_json_does_not_depend_on_hash_seeds(folder: Path) -> None:
    # The same bytes from processes with PYTHONHASHSEED 0 and 1.
    keys = {"run__fidelity": "chunk", "layout__pp": 1, "layout__dp": 8, "model__layers": 2}
    first, second = (json_of_small(folder, hash_seed=seed, **keys) for seed in ("0", "1"))
    assert first == second
    assert json.loads(first)["engine"]["cohorts"] == 16


def test_folding_is_off_with_chunk(folder: Path) -> None:
    # implied and said; what was written about it has no effect, and that is said as well
    scenario = load_small(folder, run__fidelity="chunk", run__folding="auto")
    assert scenario.run.folding == "off"
    assert scenario.derived["folding"] == "off: chunk follows the messages of every rank"
    assert "run.folding has no effect: chunk follows every rank by itself" in scenario.warnings
    assert "run.folding" not in load_small(folder, run__fidelity="chunk").defaults


def test_more_ranks_than_can_be_followed_are_refused(folder: Path) -> None:
    # 2 x 2 x 4,608 = 18,432 ranks on 128 UltraServers
    large = {"cluster__servers": 128, "layout__dp": 4608, "training__global_batch": 4608}
    with pytest.raises(
        InputError, match=r"tp 2 x pp 2 x dp 4,608 = 18,432 ranks.*up to 16,384; use flow, or dp 4,096"
    ) as error:
        load_small(folder, **large, run__fidelity="chunk")
    assert error.value.exit_code == 2
    assert load_small(folder, **large).ranks == 18_432


def test_more_messages_than_can_be_followed_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The estimate is above what a run counts, and not by much: events of members without messages, and of first links.
    run = simulate_small(folder, run__fidelity="chunk", run__steps=1)
    monkeypatch.setattr("trnsim.fabric.chunk.MOST_EVENTS", run.engine.events // 2)
    with pytest.raises(
        InputError, match=r"run.fidelity = chunk .*events of messages a step x 1 steps.*use flow"
    ) as error:
        simulate_small(folder, run__fidelity="chunk", run__steps=1)
    assert error.value.exit_code == 2


def test_a_program_of_too_many_messages_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # a direct exchange of 8 members has 56 transfers: refused before they are listed, at the key of the scenario
    monkeypatch.setattr("trnsim.fabric.chunk.MOST_EVENTS", 20)
    with pytest.raises(InputError, match=r"run.fidelity = chunk .*use flow"):
        simulate_small(folder, layout__tp=8, layout__pp=1, layout__dp=1, run__fidelity="chunk")


def test_closed_form_of_a_collective_alone_between_ranks(folder: Path) -> None:
    # From python as from a run: the tensor ring of 4 chips of a sled, alone, takes its price.
    (row,) = trnsim.collective(
        "all-reduce", on="trn3-gen2-ultraserver", ranks=4, sizes="1MiB", algorithm="ring", fidelity="chunk"
    ).rows
    machine = build_machine(load_small(folder))
    price = machine.fabric.price("all-reduce", "ring", Group(0, 1, 4), 2**20)
    assert row.time_s == pytest.approx(price.time_s, abs=6 * 4e-12)


def test_links_that_are_not_whole_are_refused(folder: Path) -> None:
    # slow chips are followed; degraded links are not, nor is a fold verified that is not made
    entry = "[{{name: one, of: {}, at: [server 0/chip 5], speed: 0.5}}]"
    chunk = {"run__fidelity": "chunk", "run__steps": 1, "model__layers": 2}
    whole = simulate_small(folder, **chunk)
    slow = simulate_small(folder, **chunk, perturbations=entry.format("chips"))
    assert slow.step.time_s > whole.step.time_s
    with pytest.raises(InputError, match=r"perturbations\[0\].of = efa .*links that are whole"):
        load_small(folder, **chunk, perturbations=entry.format("efa"), cluster__servers=2)
    with pytest.raises(InputError, match=r"run.folding = verify .*no fold to verify"):
        load_small(folder, **chunk, run__folding="verify")
    with pytest.raises(InputError, match=r"tensor_parallel_overlap = ring .*beside a matmul"):
        load_small(folder, **chunk, training__tensor_parallel_overlap="ring")
