"""Folding of flows: classes answer what every single flow answers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trnsim.engine.sharing import Flow, finish_ps
from trnsim.fabric import flow_classes
from trnsim.fabric.flow_classes import Crossings, FlowClasses, UnsettledError, fold, fold_by_orbits
from trnsim.fabric.many_flows import fair_levels, last_end_ps

SIZES = (6 * 10**6, 9 * 10**6)
WEIGHTS = (1, 3, 1, 2, 2, 1, 1, 3)
Case = tuple[list[int], list[int], list[list[int]]]


@st.composite
def copied_networks(draw: st.DrawFn) -> Case:
    """Draw a small network several times over, with some links of the copies degraded: much to fold, and exceptions."""
    links, copies = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    path = st.lists(st.integers(0, links - 1), min_size=1, max_size=3)
    paths = draw(st.lists(path, min_size=1, max_size=4))
    colours = draw(st.lists(st.integers(0, 1), min_size=len(paths), max_size=len(paths)))
    capacities = draw(st.lists(st.sampled_from([600, 900]), min_size=links, max_size=links)) * copies
    for slow in draw(st.lists(st.integers(0, links * copies - 1), max_size=2)):
        capacities[slow] //= 2
    trunk = links * copies  # one more link, that the first path of some copies crosses
    everywhere = [[link + copy * links for link in each] for copy in range(copies) for each in paths]
    for copy in draw(st.lists(st.integers(0, copies - 1), max_size=3)):
        everywhere[copy * len(paths)].append(trunk)
    return [*capacities, 900], colours * copies, everywhere


def crossings_of(paths: list[list[int]]) -> Crossings:
    """Return crossings by which a path touches a link once, twice or three times, as a copy of both does."""
    first = np.cumsum([0, *map(len, paths)])
    link = np.array([link for path in paths for link in path])
    place = np.arange(len(link)) - np.repeat(first[:-1], np.diff(first))
    return Crossings(first, link, np.array(WEIGHTS)[place])


def weights_of(path: list[int]) -> dict[int, int]:
    """Return the same, by link."""
    return {each: sum(WEIGHTS[place] for place, link in enumerate(path) if link == each) for each in path}


def folded_ends(capacities: list[int], colours: list[int], folded: FlowClasses) -> list[int]:
    flows = [
        Flow(10 * colours[path], SIZES[colours[path]], weights)
        for path, weights in zip(folded.path, folded.weights, strict=True)
    ]
    ends = finish_ps([capacities[link] for link in folded.link], flows)
    return [ends[each] for each in folded.path_class]


@given(copied_networks())
@settings(max_examples=200)
def test_folded_equals_unfolded(case: Case) -> None:
    # Every single path ends when its class does, to the picosecond.
    capacities, colours, paths = case
    folded = fold(np.array(colours), crossings_of(paths), np.array(capacities))
    single = [Flow(10 * colour, SIZES[colour], weights_of(path)) for colour, path in zip(colours, paths, strict=True)]
    assert folded_ends(capacities, colours, folded) == finish_ps(capacities, single)


@given(copied_networks())
def test_weights_and_counts_add_up(case: Case) -> None:
    # Over all links of a class and all flow classes: sum of loads = sum of weights; counts sum to the paths.
    capacities, colours, paths = case
    folded = fold(np.array(colours), crossings_of(paths), np.array(capacities))
    links = np.bincount(folded.link_class[folded.link_class >= 0])
    carried = sum(links[link] * weight for weights in folded.weights for link, weight in weights.items())
    assert carried == sum(sum(weights_of(path).values()) for path in paths)
    assert folded.counts.sum() == len(paths)


def test_a_slow_link_splits_only_what_meets_it() -> None:
    # Four pairs of paths with a link each, one link slow: two classes of links and two of paths.
    folded = fold(np.zeros(8, dtype=np.int64), crossings_of([[i // 2] for i in range(8)]), np.array([9, 9, 5, 9]))
    assert sorted(folded.counts.tolist()) == [2, 6]


def test_a_collision_of_hashes_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    # With a hash that is blind the first time, the check sends the refinement round again with another salt.
    honest = flow_classes._mix
    salts: list[int] = []

    def blind_at_first(values: np.ndarray, salt: int) -> np.ndarray:
        salts.append(salt)
        return honest(values * (salt >= 4), salt)

    monkeypatch.setattr(flow_classes, "_mix", blind_at_first)
    folded = fold(np.array([0, 1, 1]), crossings_of([[0], [1], [1]]), np.array([9, 5]))
    assert max(salts) >= 4
    assert sorted(folded.counts.tolist()) == [1, 2]


@given(st.integers(2, 9), st.integers(1, 8), st.integers(1, 8))
def test_orbits_give_what_refinement_finds(ranks: int, near: int, far: int) -> None:
    # A circle on which everyone sends `near` and `far` places on (colours 0 and 1), link i from i to i + 1.
    lengths = [near % ranks or 1, far % ranks or 1]
    paths = [[(rank + hop) % ranks for hop in range(length)] for rank in range(ranks) for length in lengths]
    capacities, colours = [700] * ranks, [0, 1] * ranks
    refined = fold(np.array(colours), crossings_of(paths), np.array(capacities))
    orbits = fold_by_orbits(np.array([0, 1]), crossings_of(paths[:2]), np.zeros(ranks, dtype=np.int64), ranks)
    assert folded_ends(capacities, colours, refined)[:2] == folded_ends(capacities, colours, orbits)
    assert orbits.counts.sum() == len(paths)


def test_orbits_that_are_none_are_refused() -> None:
    # One link of a class of two cannot carry 1 x 1 / 2 of a path.
    with pytest.raises(ValueError, match="symmetry"):
        fold_by_orbits(np.array([0]), crossings_of([[0]]), np.zeros(2, dtype=np.int64), 1)


@given(copied_networks())
@settings(max_examples=200)
def test_many_flows_end_with_the_last_single_one(case: Case) -> None:
    # Groups that split when rates differ give the last end of the definition, to the picosecond.
    capacities, colours, paths = case
    single = [Flow(10 * colour, SIZES[colour], weights_of(path)) for colour, path in zip(colours, paths, strict=True)]
    starts = [(10 * colour, size) for colour, size in enumerate(SIZES)]
    used = sorted(set(colours))
    group = np.array([used.index(colour) for colour in colours])
    answer = last_end_ps(crossings_of(paths), np.array(capacities), group, [starts[colour] for colour in used])
    assert answer == max(finish_ps(capacities, single))


def test_exceptions_on_a_circle_make_few_groups() -> None:
    # 2 N paths around a circle meet one another in a chain; one slow link makes three rates, not N classes.
    ranks = 1000
    ends = np.array([[rank, ranks + (rank + way) % ranks] for rank in range(ranks) for way in (1, -1)])
    paths = Crossings(np.arange(0, 4 * ranks + 1, 2), ends.ravel(), np.ones(4 * ranks, dtype=np.int64))
    capacity = np.full(2 * ranks, 8000)
    capacity[0] = 2000
    level, rates = fair_levels(paths, capacity, np.ones(2 * ranks, dtype=bool))
    assert rates == [0, 1000, 4000]
    assert np.bincount(level).tolist() == [0, 2, 2 * ranks - 2]
    with pytest.raises(UnsettledError):
        fold(np.zeros(2 * ranks, dtype=np.int64), paths, capacity, most_rounds=20)


def test_a_flood_of_rates_is_refused() -> None:
    # Rates are found for 2 paths, and then for 1.
    pair = Crossings(np.array([0, 1, 2]), np.array([0, 0]), np.array([1, 1]))
    assert last_end_ps(pair, np.array([2]), np.array([0, 1]), [(0, 20), (0, 40)], most_visits=3) == 30
    with pytest.raises(ValueError, match="change too often"):
        last_end_ps(pair, np.array([2]), np.array([0, 1]), [(0, 20), (0, 40)], most_visits=2)
