"""Programs are proved: executed on arrays they give the collective's result, and move no byte too many.

What a member sends (and receives) in each half of an all-reduce, in buffers, p being the members:

========================== ============================== ============================= ============================
algorithm                  sent                           steps                         source
========================== ============================== ============================= ============================
ring                       (p-1)/p                        p - 1                         Patarasuk, Yuan 2009
rail-ring                  (p-1)/p                        p - 1                         the same, on several tours
recursive halving          (p-1)/p                        ceil(log2 p)                  Thakur 2005; any p: Träff 2024
direct                     (p-1)/p                        1                             Thakur et al. 2005
torus                      (p-1)/p                        axes x (longest axis - 1)     Jain, Sabharwal 2010
kangaring                  (p-1)/p                        p/2                           AWS Neuron SDK
in-network, all-reduce     1                              pieces + 1                    Graham et al. 2016
double binary tree         at most 1                      pieces + ceil(log2 p) - 1     Sanders et al. 2009
binary tree, chain         at most 2, at most 1           pieces + height - 1           Sanders et al. 2009
binomial tree              root ceil(log2 p)              ceil(log2 p)                  Thakur et al. 2005
scatter and all-gather     root 2 (p-1)/p                 2 ceil(log2 p)                Thakur et al. 2005
all-to-all                 (p-1)/p, sum over levels       1; pairwise p - 1             Thakur et al. 2005
dissemination              0                              ceil(log2 p)                  Hensgen et al. 1988
========================== ============================== ============================= ============================
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from arrangements import LARGEST, cases
from executions import MEANINGS, execute, heard_of

from trnsim.collectives import SWITCH, Arrangement, busbw_factor, program

if TYPE_CHECKING:
    from trnsim.collectives import Move, Program, Transfer

OPTIMAL = ("ring", "rail-ring", "unidirectional-ring", "recursive-halving-doubling", "direct", "torus", "kangaring")
"""Algorithms by which every member sends as little as an all-reduce can do with, and all members as much."""

everyone = pytest.mark.parametrize("ranks", range(1, LARGEST + 1))


@everyone
def test_every_program_gives_the_result_and_moves_what_its_moves_say(ranks: int) -> None:
    for plan, arrangement in cases(ranks):
        if is_both_halves(plan, arrangement):
            continue  # each half is proved alone, the gathering with rubbish in all chunks but the own
        steps = list(plan.transfers())
        check_result(plan, steps)
        check_sizes(plan, steps)
        check_bytes_by_member(plan, arrangement, steps)


def is_both_halves(plan: Program, arrangement: Arrangement) -> bool:
    """Say whether an all-reduce is a reduce-scatter and then an all-gather."""
    if plan.op != "all-reduce" or "tree" in plan.algorithm:
        return False
    halves = [program(op, plan.algorithm, arrangement) for op in ("reduce-scatter", "all-gather")]
    joined = plan.phases == halves[0].phases + halves[1].phases
    assert not joined or plan.sent_fraction == sum(half.sent_fraction for half in halves)
    return joined


def check_result(plan: Program, steps: list[list[Transfer]]) -> None:
    # e.g. reduce-scatter: member r ends with chunk r summed over all members, each once; see MEANINGS
    if plan.op == "barrier":
        assert heard_of(steps, plan.ranks) == [set(range(plan.ranks))] * plan.ranks, plan
        return
    before, after = MEANINGS[plan.op]
    assert after(plan, execute(steps, before(plan))), plan


def check_sizes(plan: Program, steps: list[list[Transfer]]) -> None:
    # the arrays of pairs are the transfers of each step, and fraction x buffer is what each of them carries
    expected = {move: by_arrays(plan, move) for phase in plan.phases for move in phase.moves}
    moves_of_steps = [phase.moves for phase in plan.phases for _ in range(phase.steps)]
    for step, moves in zip(steps, moves_of_steps, strict=True):
        found = sorted((max(each.source, SWITCH), max(each.target, SWITCH), len(each.cells)) for each in step)
        assert found == sorted(transfer for move in moves for transfer in expected[move]), plan
        assert all(each.source != each.target and len(set(each.cells)) == len(each.cells) for each in step)


def by_arrays(plan: Program, move: Move) -> list[tuple[int, int, int]]:
    sources, targets = (ends.tolist() for ends in move.pairs(plan.ranks))
    assert move.weights(plan.ranks) is None
    cells = move.fraction * plan.buffer_cells
    assert cells.denominator == 1
    return [(source, target, cells.numerator) for source, target in zip(sources, targets, strict=True)]


def check_bytes_by_member(plan: Program, arrangement: Arrangement, steps: list[list[Transfer]]) -> None:
    sent, received = Counter[int](), Counter[int]()
    for transfer in (transfer for step in steps for transfer in step):
        sent[transfer.source] += len(transfer.cells)
        received[transfer.target] += len(transfer.cells)
    members = range(plan.ranks)
    out, into = ([Fraction(count[member], plan.buffer_cells) for member in members] for count in (sent, received))
    assert plan.sent_fraction == max(out)
    if plan.ranks == 1:
        assert out == into == [0]
    elif (textbook := sent_and_received(plan.op, plan.algorithm, arrangement)) is not None:
        assert (set(out), set(into)) == ({textbook[0]}, {textbook[1]}), plan
    else:
        check_tree(plan, out, into)


def sent_and_received(op: str, algorithm: str, arrangement: Arrangement) -> tuple[Fraction, Fraction] | None:
    """Return what every member sends and receives, in buffers; None if members differ."""
    members = arrangement.ranks
    rest = Fraction(members - 1, members)
    if algorithm.startswith("hierarchical"):
        return by_levels(op, algorithm, arrangement)
    if op.startswith("all-to-all"):
        return rest, rest
    if op in {"send-recv", "barrier"}:
        once = Fraction(1, members) if op == "send-recv" else Fraction(0)
        return once, once
    if op not in {"all-reduce", "all-gather", "reduce-scatter"}:
        return None
    if algorithm == "in-network":
        own, all_chunks = Fraction(1, members), Fraction(1)
        return own if op == "all-gather" else all_chunks, own if op == "reduce-scatter" else all_chunks
    halves = 2 if op == "all-reduce" else 1
    return (halves * rest, halves * rest) if algorithm in OPTIMAL else None


def by_levels(op: str, algorithm: str, arrangement: Arrangement) -> tuple[Fraction, Fraction] | None:
    """Add up levels: each works on what those inside it left, the farthest does all of an all-reduce at once."""
    sizes = arrangement.level_sizes
    bounds = [1]
    names = []
    for level, name in levels_of(op, algorithm):
        if sizes[level] > bounds[-1]:
            bounds.append(sizes[level])
            names.append(name)
    total = [Fraction(0), Fraction(0)]
    for number, (name, (below, size)) in enumerate(zip(names, pairwise(bounds), strict=True)):
        circle, share = Arrangement(size // below), 1 if op == "all-to-all" else Fraction(1, below)
        nearer = op == "all-reduce" and number + 1 < len(names)
        for each in ("reduce-scatter", "all-gather") if nearer else (op,):
            found = sent_and_received(each, name, circle)
            if found is None:
                return None
            total = [so_far + share * more for so_far, more in zip(total, found, strict=True)]
    return total[0], total[1]


def levels_of(op: str, algorithm: str) -> list[tuple[str, str]]:
    parts = algorithm.partition(":")[2] or (
        "direct/direct" if op == "all-to-all" else "ring/recursive-halving-doubling"
    )
    names = [part.rpartition("=") for part in parts.split("/")]
    plain = ("server", "fabric") if len(names) == 2 else ("chip", "server", "rack", "fabric")
    return [(level or plain[number], name) for number, (level, _, name) in enumerate(names)]


def check_tree(plan: Program, out: list[Fraction], into: list[Fraction]) -> None:
    # broadcast: everyone but the root receives the buffer once, and nobody sends more than the tree has branches;
    # reduce is its mirror image; an all-reduce is both
    kind = plan.algorithm.rpartition("/")[2]
    if plan.op == "all-reduce":
        assert kind == "double-binary-tree"
        if plan.algorithm == kind:
            assert sum(out) == sum(into) == 2 * (plan.ranks - 1)
            assert max(out) <= 2 >= max(into)
        return
    out, into = (out, into) if plan.op == "broadcast" else (into, out)
    if kind == "scatter-all-gather":
        rest = Fraction(plan.ranks - 1, plan.ranks)
        assert (out[0], into[0]) == (2 * rest, rest)
        return
    assert into == [0, *[1] * (plan.ranks - 1)]
    rounds = (plan.ranks - 1).bit_length()
    most = {"binomial-tree": rounds, "binary-tree": 2, "double-binary-tree": 1, "chain": 1, "in-network": 1}
    assert max(out) <= most[kind]
    assert out[0] == (rounds if kind == "binomial-tree" else 1)


@pytest.mark.parametrize("ranks", range(2, LARGEST + 1))
def test_steps_are_the_textbook_number(ranks: int) -> None:
    rounds = (ranks - 1).bit_length()

    def steps(op: str, algorithm: str, **known: Any) -> int:
        return program(op, algorithm, Arrangement(ranks, reducing_switch=True, **known)).steps

    assert steps("reduce-scatter", "ring") == steps("all-gather", "unidirectional-ring") == ranks - 1
    assert steps("reduce-scatter", "recursive-halving-doubling") == steps("barrier", "dissemination") == rounds
    assert steps("reduce-scatter", "direct") == steps("all-to-all", "direct") == steps("send-recv", "direct") == 1
    assert steps("all-to-all", "pairwise") == ranks - 1
    assert steps("broadcast", "binomial-tree") == rounds
    assert steps("reduce", "scatter-all-gather") == 2 * rounds
    assert steps("barrier", "in-network") == 2
    if ranks % 2 == 0:
        assert steps("all-gather", "kangaring", per_chip=2) == ranks // 2
    for pieces in (1, 2, 7, 40):
        assert steps("broadcast", "chain", pieces=pieces) == pieces + ranks - 2
        assert steps("broadcast", "binary-tree", pieces=pieces) == pieces + rounds - 1
        assert steps("all-reduce", "double-binary-tree", pieces=pieces) == 2 * (pieces + rounds - 1)
        assert steps("all-reduce", "in-network", pieces=pieces) == pieces + 1
    for inner in (inner for inner in range(1, ranks + 1) if ranks % inner == 0):
        assert steps("reduce-scatter", "hierarchical", inner=inner) == inner - 1 + (ranks // inner - 1).bit_length()


@pytest.mark.parametrize("shape", [(4, 4), (4, 2), (2, 3, 5), (3, 3, 3), (7,), (4, 1, 4)])
@pytest.mark.parametrize("per_chip", [1, 2, 3])
def test_a_torus_waits_for_its_longest_axis(shape: tuple[int, ...], per_chip: int) -> None:
    # per_chip - 1 steps on the chip; then each of m lanes turns through m axes, every turn as long as the longest axis
    axes = [span for span in shape if span > 1]
    chips = Arrangement(1).ranks
    for span in shape:
        chips *= span
    ranks = chips * per_chip
    plan = program("reduce-scatter", "torus", Arrangement(ranks, ranks, per_chip=per_chip, shape=shape))
    assert plan.steps == per_chip - 1 + len(axes) * (max(axes) - 1)


@pytest.mark.parametrize("shape", [(4, 4), (4, 4, 4), (5, 3), (2, 3, 4)])
def test_no_axis_of_a_torus_serves_two_lanes_and_a_square_one_never_rests(shape: tuple[int, ...]) -> None:
    # in every step each axis carries one lane, S / m, both ways: half of it in either direction
    ranks = 1
    for span in shape:
        ranks *= span
    plan = program("all-reduce", "torus", Arrangement(ranks, ranks, shape=shape))
    for phase in plan.phases:
        ways = Counter((move.pattern.stride, move.pattern.targets(0)) for move in phase.moves if move.pattern.span > 2)
        assert set(ways.values()) == {1}
        if len(set(shape)) == 1:
            assert len(phase.moves) == 2 * len(shape)


@pytest.mark.parametrize("ranks", [2, 4, 8, 16, 32])
def test_powers_of_two_exchange_across_one_bit(ranks: int) -> None:
    # the hypercube's halving: partners differ in one bit and send each other the same amount
    for step in program("all-reduce", "recursive-halving-doubling", Arrangement(ranks)).transfers():
        pairs = {(transfer.source, transfer.target) for transfer in step}
        assert all((source ^ target).bit_count() == 1 for source, target in pairs)
        assert pairs == {(target, source) for source, target in pairs}


@pytest.mark.parametrize(("algorithm", "ways"), [("ring", 2), ("unidirectional-ring", 1)])
def test_a_ring_of_a_million_ranks_is_two_phases(algorithm: str, ways: int) -> None:
    # in each of p - 1 steps per half every rank sends a chunk, cut in as many parts as there are ways round
    ranks = 1_000_080
    plan = program("all-reduce", algorithm, Arrangement(ranks))
    assert [phase.steps for phase in plan.phases] == [ranks - 1, ranks - 1]
    assert all([move.fraction for move in phase.moves] == [Fraction(1, ways * ranks)] * ways for phase in plan.phases)
    assert plan.sent_fraction == Fraction(2 * (ranks - 1), ranks)
    sources, targets = plan.phases[0].moves[0].pairs(ranks)
    assert ((targets - sources) % ranks == 1).all()
    assert len(sources) == ranks


@pytest.mark.parametrize("op", ["all-reduce", "broadcast"])
def test_trees_over_a_million_ranks_are_small(op: str) -> None:
    # phases: the pipeline fills in h - 1 steps, runs, and drains in h - 1
    plan = program(op, "double-binary-tree", Arrangement(1_000_080, pieces=1000))
    assert len(plan.phases) == (2 if op == "all-reduce" else 1) * (2 * 20 - 1)


@pytest.mark.parametrize(("algorithm", "ways"), [("ring", (1, -1)), ("unidirectional-ring", (1,))])
def test_a_ring_sends_its_ways_at_once(algorithm: str, ways: tuple[int, ...]) -> None:
    for number, step in enumerate(program("all-reduce", algorithm, Arrangement(5)).transfers()):
        turned = 1 if number < 4 else -1  # the all-gather is the mirror image
        ends = Counter((transfer.source, transfer.target) for transfer in step)
        assert ends == Counter({(rank, (rank + turned * way) % 5): 1 for rank in range(5) for way in ways})


@pytest.mark.parametrize("ranks", [2, 3, 8, 9, 24, 33])
def test_of_two_trees_one_has_its_leaves_where_the_other_has_inner_members(ranks: int) -> None:
    # Sanders et al.: no member has children in both, the root aside
    plan = program("broadcast", "double-binary-tree", Arrangement(ranks))
    children: list[Counter[int]] = [Counter(), Counter()]
    for step in plan.transfers():
        for transfer in step:
            children[transfer.cells[0] % 2][transfer.source] += 1
    assert set(children[0]) & set(children[1]) == {0}
    assert all(max(tree.values()) <= 2 for tree in children)
    assert all(sum(tree.values()) == ranks - 1 for tree in children)


def test_members_of_a_chip_share_a_place_of_the_kangaring() -> None:
    # between chips a chunk travels once, (p-2)/p of the buffer sent by each member in a half; the rest inside the chip;
    # memory is touched 3 times per two members and chunk in a gathering, 4 times in a reduction; a ring takes 4 and 6
    ranks = 16
    for op, touches, ring_touches in (("all-gather", 3, 4), ("reduce-scatter", 4, 6)):
        plan = program(op, "kangaring", Arrangement(ranks, per_chip=2))
        between = [(phase.steps, move) for phase in plan.phases for move in phase.moves if not move.fused]
        beside = [(phase.steps, move) for phase in plan.phases for move in phase.moves if move.fused]
        assert sum(steps * move.fraction for steps, move in between) == Fraction(ranks - 2, 2 * ranks)
        assert sum(steps * move.fraction for steps, move in beside) == Fraction(1, 2)
        assert {sum(move.touches) for _, move in between} == {touches - 1}
        assert {sum(move.touches) for _, move in beside} == {1}
        ring = program(op, "ring", Arrangement(ranks))
        assert {2 * sum(move.touches) for move in ring.phases[0].moves} == {ring_touches}


def test_blocks_of_an_all_to_all_v_have_the_sizes_of_the_matrix() -> None:
    # the buffer is the largest row or column sum, 9 here (what member 2 gets), and S w_ij / 9 goes from i to j
    sizes = ((5, 1, 0), (0, 2, 6), (4, 1, 3))
    plan = program("all-to-all-v", "direct", Arrangement(3, sizes=sizes))
    (move,) = plan.phases[0].moves
    sources, targets = move.pairs(3)
    weights = move.weights(3)
    assert weights is not None
    assert move.fraction == Fraction(1, 9)
    assert list(weights) == [sizes[source][target] for source, target in zip(sources, targets, strict=True)]
    assert MEANINGS["all-to-all-v"][1](plan, execute(plan.transfers(), MEANINGS["all-to-all-v"][0](plan)))


@pytest.mark.parametrize("op", ["all-reduce", "all-gather", "reduce-scatter", "all-to-all"])
def test_bus_bandwidth_counts_what_the_ring_sends(op: str) -> None:
    # nccl-tests: busbw is the bandwidth of a link in a direct or ring algorithm
    for ranks in range(2, LARGEST + 1):
        assert program(op, "direct", Arrangement(ranks)).sent_fraction == pytest.approx(busbw_factor(op, ranks))


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
    per_rank = Fraction(crossing, plan.buffer_cells * plan.ranks)
    assert per_rank == 2 * Fraction(outer - 1, outer) / inner
