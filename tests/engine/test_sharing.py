"""Max-min fair sharing against systems of equations, and laws of sharing on random networks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.engine.sharing import Flow, fair_rates, finish_ps

if TYPE_CHECKING:
    import random

Flows = list[dict[int, int]]
LINKS = 4


@st.composite
def networks(draw: st.DrawFn) -> tuple[list[int], Flows]:
    """Few links and many flows, so that every link binds now and then."""
    capacities = draw(st.lists(st.integers(20, 200), min_size=LINKS, max_size=LINKS))
    crossings = st.dictionaries(st.integers(0, LINKS - 1), st.integers(1, 3), min_size=1, max_size=3)
    return capacities, draw(st.lists(crossings, min_size=1, max_size=7))


def test_parking_lot() -> None:
    # One long flow x0 crosses links of 12, 30 and 9 that it shares with x1, x2 and x3:
    #   x0 + x1 = 12, x0 + x2 = 30, x0 + x3 = 9, and x0 = x3 on the link that is tightest.
    rates = fair_rates([12_000, 30_000, 9_000], [{0: 1, 1: 1, 2: 1}, {0: 1}, {1: 1}, {2: 1}])
    assert rates == [4_500, 7_500, 25_500, 4_500]


def test_weights_count_every_crossing() -> None:
    # A class of three flows beside one that touches the link twice per byte: 3 x + 2 x = 1000.
    assert fair_rates([1000], [{0: 3}, {0: 2}]) == [200, 200]


def test_links_that_fill_up_together_are_closed_together() -> None:
    # Both links offer floor(7 / 2) = floor(6 / 2) = 3; closing one first would leave 4 on the other.
    flows = [{0: 1}, {0: 1, 1: 1}, {1: 1}]
    assert fair_rates([6, 7], flows) == fair_rates([7, 6], flows) == [3, 3, 3]


def test_sevenths_leave_no_crumbs() -> None:
    # 1 / 7 seven times is not 1 in floating point, and then flows end apart that end together: rates are whole numbers.
    single, joint = fair_rates([10**9], [{0: 1}] * 7), fair_rates([10**9], [{0: 7}])
    assert set(single) == set(joint) == {10**9 // 7}
    assert all(isinstance(rate, int) for rate in single)
    assert len(set(finish_ps([10**9], [Flow(0, 10**12, {0: 1})] * 7))) == 1


def test_rounds_follow_each_other() -> None:
    # x0 + x1 + x2 = 30 closes first at 10 each; then x3 = 100 - x2, and x4 = 95 - x3 = 5 would be unfair:
    # the third link offers floor(95 / 2) = 47 and closes before the second does.
    rates = fair_rates([30, 100, 95], [{0: 1}, {0: 1}, {0: 1, 1: 1}, {1: 1, 2: 1}, {2: 1}])
    assert rates == [10, 10, 10, 47, 47]


def test_a_flow_without_links_is_refused() -> None:
    with pytest.raises(ValueError, match="crosses no link"):
        fair_rates([1], [{}])


def test_too_coarse_a_unit_is_refused() -> None:
    with pytest.raises(ValueError, match="finer unit"):
        finish_ps([2], [Flow(0, 1, {0: 3})])


def test_departures_free_capacity() -> None:
    # Sizes a < b on one link of c: t_a = 2 a / c, and then b alone: t_b = (a + b) / c.
    assert finish_ps([10], [Flow(0, 1000, {0: 1}), Flow(0, 3000, {0: 1})]) == [200, 400]


def test_arrivals_take_capacity() -> None:
    # Alone until 100; then half each: 1000 = 10 * 30 + 5 (t - 30), so t = 170; the other: 5 * 140 + 10 (t - 170) = 1000.
    assert finish_ps([10], [Flow(0, 1000, {0: 1}), Flow(30, 1000, {0: 1})]) == [170, 200]


def test_two_classes_on_one_link_take_twice_as_long() -> None:
    # n flows of s at c / n end after n s / c; with as many others, after 2 n s / c.
    alone = finish_ps([50_000], [Flow(0, 10**9, {0: 8})])
    assert finish_ps([50_000], [Flow(0, 10**9, {0: 8})] * 2) == [2 * alone[0]] * 2


def test_an_end_is_rounded_up_to_the_picosecond() -> None:
    # ceil(10 / 3) = 4
    assert finish_ps([3], [Flow(7, 10, {0: 1})]) == [11]


def test_nothing_takes_no_time() -> None:
    # A size of 0 ends when it starts; no flows have no ends.
    assert finish_ps([3], [Flow(7, 0, {0: 1})]) == [7]
    assert finish_ps([3], []) == []


@given(networks())
def test_no_link_carries_more_than_it_can(network: tuple[list[int], Flows]) -> None:
    # sum_i w_li x_i <= c_l for every link l
    capacities, flows = network
    assert all(load <= capacity for load, capacity in zip(_loads(flows, fair_rates(*network)), capacities, strict=True))


@given(networks())
def test_every_flow_is_held_back_by_a_full_link_on_which_none_has_more(network: tuple[list[int], Flows]) -> None:
    # Max-min (Bertsekas and Gallager): each flow crosses a link l with c_l - load_l < sum_i w_li and x_i >= x_j for all j.
    capacities, flows = network
    rates = fair_rates(capacities, flows)
    loads = _loads(flows, rates)
    users = [[index for index, crossings in enumerate(flows) if link in crossings] for link in range(LINKS)]
    for crossings, rate in zip(flows, rates, strict=True):
        assert any(
            capacities[link] - loads[link] < sum(flows[index][link] for index in users[link])
            and all(rates[index] <= rate for index in users[link])
            for link in crossings
        )


@given(networks(), st.randoms(use_true_random=False))
def test_order_does_not_matter(network: tuple[list[int], Flows], chance: random.Random) -> None:
    capacities, flows = network
    order = chance.sample(range(len(flows)), len(flows))
    rates = fair_rates(capacities, flows)
    assert fair_rates(capacities, [flows[index] for index in order]) == [rates[index] for index in order]


@given(networks(), st.integers(2, 4), st.lists(st.integers(0, 9), min_size=7, max_size=7))
def test_a_class_is_as_many_single_flows(network: tuple[list[int], Flows], count: int, starts: list[int]) -> None:
    # `count` equal flows with weight w each are one with weight count x w: same rates, same ends.
    capacities, flows = network
    fine = [capacity * 1000 for capacity in capacities]
    single = [Flow(start, 10**6, flow) for start, flow in zip(starts, flows, strict=False) for _ in range(count)]
    joint = [
        Flow(start, 10**6, {link: count * weight for link, weight in flow.items()})
        for start, flow in zip(starts, flows, strict=False)
    ]
    assert finish_ps(fine, single)[::count] == finish_ps(fine, joint)


@given(networks(), st.lists(st.integers(0, 300), min_size=7, max_size=7))
def test_bytes_are_neither_lost_nor_hurried(network: tuple[list[int], Flows], starts: list[int]) -> None:
    # What a link carried until the last end fits: sum_i w_li size_i <= c_l (last end - first start); none beats its own link.
    capacities, crossings = network
    flows = [Flow(start, 5000, flow) for start, flow in zip(starts, crossings, strict=False)]
    ends = finish_ps([capacity * 100 for capacity in capacities], flows)
    for flow, end in zip(flows, ends, strict=True):
        assert end - flow.start_ps >= max(
            5000 * weight / (100 * capacities[link]) for link, weight in flow.crossings.items()
        )
    span = max(ends) - min(flow.start_ps for flow in flows)
    carried = _loads(crossings, [5000] * len(flows))
    assert all(load <= capacity * 100 * span for load, capacity in zip(carried, capacities, strict=True))


@given(networks(), st.lists(st.integers(0, 300), min_size=7, max_size=7), st.lists(st.integers(0, 9000), min_size=7))
def test_rates_below_that_of_an_end_stay(network: tuple[list[int], Flows], starts: list[int], sizes: list[int]) -> None:
    # By definition all rates are found again at every begin and end. Here only those at and above the rate of the flow that
    # ended are: a link that is full below has no share in what becomes free. Both give the same ends.
    capacities, crossings = [capacity * 100 for capacity in network[0]], network[1]
    flows = [Flow(start, size, flow) for start, size, flow in zip(starts, sizes, crossings, strict=False)]
    assert finish_ps(capacities, flows) == _ends_by_definition(capacities, flows)


def _ends_by_definition(capacities: list[int], flows: list[Flow]) -> list[int]:
    now, ends, left = 0, dict[int, int](), [flow.size for flow in flows]
    while len(ends) < len(flows):
        begun = [index for index, flow in enumerate(flows) if flow.start_ps <= now and index not in ends]
        rates = fair_rates(capacities, [flows[index].crossings for index in begun])
        due = {index: now - -left[index] // rate for index, rate in zip(begun, rates, strict=True)}
        after = min([*due.values(), *(flow.start_ps for flow in flows if flow.start_ps > now)])
        for index, rate in zip(begun, rates, strict=True):
            left[index] -= rate * (after - now)
        ends |= {index: after for index in begun if due[index] == after}
        now = after
    return [ends[index] for index in range(len(flows))]


def _loads(flows: Flows, rates: list[int]) -> list[int]:
    return [
        sum(crossings.get(link, 0) * rate for crossings, rate in zip(flows, rates, strict=True))
        for link in range(LINKS)
    ]
