"""Counting by arithmetic equals counting one by one."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from trnsim.collectives import Shift
from trnsim.fabric.meetings import Line, count_by_tier, count_everyone_by_tier, count_within, shift_lines

lines = st.builds(Line, *[st.integers(0, 200)] * 3, st.integers(1, 40))
blocks_of_tiers = st.lists(st.integers(1, 5), min_size=1, max_size=3)


def pairs_of(line: Line) -> list[tuple[int, int]]:
    return [(line.source + k * line.step, line.target + k * line.step) for k in range(line.pairs)]


def meeting(pair: tuple[int, int], blocks: list[int]) -> int:
    return next(tier for tier, block in enumerate(blocks) if pair[0] // block == pair[1] // block)


@given(lines, st.integers(1, 150))
def test_pairs_in_one_block(line: Line, block: int) -> None:
    assert count_within(line, block) == sum(a // block == b // block for a, b in pairs_of(line))


@given(st.lists(lines, max_size=5), blocks_of_tiers)
def test_pairs_by_tier(several: list[Line], factors: list[int]) -> None:
    blocks = nested(factors)
    expected = Counter(meeting(pair, blocks) for line in several for pair in pairs_of(line))
    assert count_by_tier(several, blocks) == expected


@given(st.lists(st.integers(0, 199), min_size=1, max_size=30), st.integers(1, 9), blocks_of_tiers)
def test_everyone_by_tier(endpoints: list[int], chips: int, factors: list[int]) -> None:
    blocks = nested(factors)
    ordered = [(a, b) for a in endpoints for b in endpoints if a // chips != b // chips]
    assert count_everyone_by_tier(endpoints, chips, blocks) == Counter(meeting(pair, blocks) for pair in ordered)


@given(st.integers(1, 8), st.integers(1, 6), st.integers(1, 6), st.data())
def test_lines_of_a_shift_hold_each_transfer_once(span: int, stride: int, above: int, data: st.DataObject) -> None:
    distance = data.draw(st.integers(0, span - 1))
    size = span * stride * above
    pattern = Shift(distance, span, stride)
    expected = Counter((member, *pattern.targets(member)) for member in range(size))
    assert Counter(pair for line in shift_lines(distance, span, stride, size) for pair in pairs_of(line)) == expected


def test_lines_of_a_large_shift_are_few() -> None:
    # the longest of the three digits is never listed
    assert len(list(shift_lines(1, span=1_000_000, stride=1, size=1_000_000))) == 2
    assert len(list(shift_lines(1, span=2, stride=2**10, size=2**20))) == 2 * 2**9


def nested(factors: list[int]) -> list[int]:
    """Return block sizes of which each divides the next, the last one large."""
    blocks = [1]
    for factor in factors:
        blocks.append(blocks[-1] * factor)
    return [*blocks[1:], blocks[-1] * 10_000]
