"""Programs are proved: executed on arrays they give the collective's result, and move no byte too many."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pytest

from trnsim.collectives import Arrangement, algorithm_names, busbw_factor, disjoint_cycles, program

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnsim.collectives import Program

    Contributions = np.ndarray[tuple[int, int, int], np.dtype[np.int64]]

REDUCING = ("reduce-scatter", "all-gather", "all-reduce")
LARGEST = 33


def arrangements(ranks: int) -> Iterator[tuple[str, Arrangement]]:
    """Every algorithm for a group, hierarchical with every inner, and where it is a square rings on two cycles."""
    inners = [inner for inner in range(1, ranks + 1) if ranks % inner == 0]
    for algorithm in algorithm_names("all-reduce"):
        yield from (
            (algorithm, Arrangement(ranks, inner)) for inner in (inners if algorithm == "hierarchical" else [1])
        )
    for side in range(3, 6):
        if ranks % side**2 == 0:
            yield "hierarchical", Arrangement(ranks, side**2, disjoint_cycles(side))
        if ranks == side**2:
            yield "ring", Arrangement(ranks, ranks, disjoint_cycles(side))


def execute(plan: Program, held: Contributions) -> Contributions:
    """Run a program; `held` says how often a rank holds, in a cell, the contribution of each rank."""
    held = held.copy()
    for step in plan.transfers():
        messages = [(transfer, held[transfer.source, list(transfer.cells)]) for transfer in step]
        for transfer, message in messages:
            cells = list(transfer.cells)
            kept = held[transfer.target, cells] if transfer.reduces else 0
            held[transfer.target, cells] = kept + message
    return held


def cells_of(plan: Program, rank: int) -> slice:
    return slice(rank * plan.lanes, (rank + 1) * plan.lanes)


def own_contributions(plan: Program) -> Contributions:
    """Each rank holds its own contribution to every cell: the start of a reduction."""
    held = np.zeros((plan.ranks, plan.ranks * plan.lanes, plan.ranks), dtype=np.int64)
    for rank in range(plan.ranks):
        held[rank, :, rank] = 1
    return held


def own_chunks(plan: Program) -> Contributions:
    """Each rank holds its own chunk, finished, and nothing else: the start of a gathering."""
    held = np.zeros((plan.ranks, plan.ranks * plan.lanes, plan.ranks), dtype=np.int64)
    for rank in range(plan.ranks):
        held[rank, cells_of(plan, rank)] = 1
    return held


@pytest.mark.parametrize("ranks", range(1, LARGEST + 1))
def test_every_rank_ends_with_every_contribution_once(ranks: int) -> None:
    # reduce-scatter: rank r ends with chunk r summed over all ranks, each once; all-gather: from its own chunk to all
    # chunks; all-reduce: from its own contributions to all contributions to all chunks
    for algorithm, arrangement in arrangements(ranks):
        scatter, gather, reduce = (program(op, algorithm, arrangement) for op in REDUCING)
        scattered = execute(scatter, own_contributions(scatter))
        for rank in range(ranks):
            assert (scattered[rank, cells_of(scatter, rank)] == 1).all(), (algorithm, arrangement)
        assert (execute(gather, own_chunks(gather)) == 1).all(), (algorithm, arrangement)
        assert (execute(reduce, own_contributions(reduce)) == 1).all(), (algorithm, arrangement)


@pytest.mark.parametrize("ranks", range(1, LARGEST + 1))
def test_bytes_per_rank_are_the_textbook_count(ranks: int) -> None:
    # every one of these algorithms is optimal in volume: 2 (p-1)/p S for an all-reduce, (p-1)/p S for its halves;
    # what a rank sends it also receives, the phases count what the transfers move, and each carries its fraction
    for op, (algorithm, arrangement) in product(REDUCING, arrangements(ranks)):
        plan = program(op, algorithm, arrangement)
        cells = ranks * plan.lanes
        sizes = [phase.fraction * cells for phase in plan.phases for _ in range(phase.steps)]
        sent: Counter[int] = Counter()
        received: Counter[int] = Counter()
        for step, size in zip(plan.transfers(), sizes, strict=True):
            for transfer in step:
                assert transfer.source != transfer.target
                assert len(transfer.cells) == size
                sent[transfer.source] += len(transfer.cells)
                received[transfer.target] += len(transfer.cells)
        moved = {Fraction(count, cells) for count in (*sent.values(), *received.values())}
        textbook = (2 if op == "all-reduce" else 1) * Fraction(ranks - 1, ranks)
        assert plan.sent_fraction == textbook
        assert moved == ({textbook} if ranks > 1 else set())
        assert float(textbook) == pytest.approx(busbw_factor(op, ranks))


@pytest.mark.parametrize("ranks", range(2, LARGEST + 1))
def test_steps_are_the_textbook_number(ranks: int) -> None:
    # ring: p - 1 per half; halving: ceil(log2 p) for every p; direct: 1; hierarchical: inner - 1 + ceil(log2 outer)
    def steps(algorithm: str, inner: int = 1) -> int:
        return sum(phase.steps for phase in program("reduce-scatter", algorithm, Arrangement(ranks, inner)).phases)

    assert steps("ring") == ranks - 1
    assert steps("recursive-halving-doubling") == (ranks - 1).bit_length()
    assert steps("direct") == 1
    for inner in (inner for inner in range(1, ranks + 1) if ranks % inner == 0):
        assert steps("hierarchical", inner) == inner - 1 + (ranks // inner - 1).bit_length()


@pytest.mark.parametrize("ranks", [2, 4, 8, 16, 32])
def test_powers_of_two_exchange_across_one_bit(ranks: int) -> None:
    # the hypercube's halving: partners differ in one bit and send each other the same amount
    for step in program("all-reduce", "recursive-halving-doubling", Arrangement(ranks)).transfers():
        pairs = {(transfer.source, transfer.target) for transfer in step}
        assert all((source ^ target).bit_count() == 1 for source, target in pairs)
        assert pairs == {(target, source) for source, target in pairs}


def test_a_ring_of_a_million_ranks_is_two_phases() -> None:
    # in each of p - 1 steps per half every rank sends half a chunk both ways
    ranks = 1_000_080
    plan = program("all-reduce", "ring", Arrangement(ranks))
    assert [phase.steps for phase in plan.phases] == [ranks - 1, ranks - 1]
    assert all(phase.fraction == Fraction(1, 2 * ranks) for phase in plan.phases)
    assert plan.sent_fraction == Fraction(2 * (ranks - 1), ranks)


def test_a_ring_sends_both_ways_at_once() -> None:
    for step in program("all-reduce", "ring", Arrangement(5)).transfers():
        ends = Counter((transfer.source, transfer.target) for transfer in step)
        assert ends == Counter({(rank, (rank + way) % 5): 1 for rank in range(5) for way in (1, -1)})


@pytest.mark.parametrize("ranks", [1, 2, 5, 33])
def test_send_recv_hands_each_chunk_to_the_next_rank(ranks: int) -> None:
    # rank i sends its chunk, S / p, to rank i + 1 mod p
    plan = program("send-recv", "direct", Arrangement(ranks))
    held = execute(plan, own_chunks(plan))
    for rank in range(ranks):
        assert (held[rank, cells_of(plan, (rank - 1) % ranks)] == 1).all()
    assert plan.sent_fraction == (Fraction(1, ranks) if ranks > 1 else 0)


@pytest.mark.parametrize("algorithm", algorithm_names("all-reduce"))
def test_a_group_of_one_does_nothing(algorithm: str) -> None:
    plan = program("all-reduce", algorithm, Arrangement(1))
    assert plan.phases == ()
    assert list(plan.transfers()) == []
    assert plan.sent_fraction == 0


def test_hierarchical_moves_only_its_share_between_servers() -> None:
    # between servers a rank has 1/inner of the buffer left: 2 (m-1)/m S/r each, for m servers of r ranks
    inner, outer = 4, 6
    plan = program("all-reduce", "hierarchical", Arrangement(inner * outer, inner))
    crossing = sum(
        len(transfer.cells)
        for step in plan.transfers()
        for transfer in step
        if transfer.source // inner != transfer.target // inner
    )
    per_rank = Fraction(crossing, plan.lanes * plan.ranks * plan.ranks)
    assert per_rank == 2 * Fraction(outer - 1, outer) / inner
