"""Flow times by their definition: every path a flow of its own, exact fractions, no classes, no repetition skipped."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct
from network_programs import moved

from trnsim.collectives import Everyone, Move, Phase, Program, Shift
from trnsim.fabric import network_fabric
from trnsim.fabric.network_fabric import NetworkFabric
from trnsim.topology.machines import machine

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trnsim.topology.network import Network

Job = tuple[Program, "NDArray[np.int64]", int]

SPECS = ["torus:3x2", "torus:4", "mesh:2x3", "hypercube:2", "fat-tree:2x3", "fat-tree:3x2:2"]


class Flow(Struct):
    """One path of one transfer."""

    links: list[int]
    start_s: Fraction
    left: Fraction


class Course(Struct):
    """A collective on its way: the steps that it has not begun, and the flows of the one that it has."""

    network: Network
    steps: list[Phase]
    members: NDArray[np.int64]
    size_bytes: int
    flows: list[Flow]
    end_s: Fraction = Fraction(0)

    def next_step(self, now_s: Fraction) -> None:
        self.end_s = now_s
        while self.steps and not self.flows:
            for move in self.steps.pop(0).moves:
                self.flows += self._flows_of(move, now_s)

    def _flows_of(self, move: Move, now_s: Fraction) -> list[Flow]:
        sources, targets = move.pairs(len(self.members))
        routes = self.network.routes(self.members[sources], self.members[targets])
        weights = move.weights(len(self.members))
        found = []
        for path, (transfer, parts) in enumerate(zip(routes.transfer.tolist(), routes.parts.tolist(), strict=True)):
            links = routes.link[routes.first[path] : routes.first[path + 1]].tolist()
            share = move.fraction * (1 if weights is None else Fraction(weights[transfer])) / parts
            latency_s = sum((Fraction(str(self.network.latency_s[link])) for link in links), Fraction(0))
            found.append(Flow(links, now_s + latency_s, share * self.size_bytes))
        return found


def ends_s(network: Network, jobs: list[Job]) -> list[float]:
    courses = [
        Course(network, [phase for phase in plan.phases for _ in range(phase.steps)], members, size, [])
        for plan, members, size in jobs
    ]
    now_s = Fraction(0)
    for course in courses:
        course.next_step(now_s)
    while flows := [flow for course in courses for flow in course.flows]:
        begun = [flow for flow in flows if flow.start_s <= now_s]
        rates = level(network, begun)
        ends = [now_s + flow.left / rate for flow, rate in zip(begun, rates, strict=True)]
        then_s = min(ends + [flow.start_s for flow in flows if flow.start_s > now_s])
        for flow, rate in zip(begun, rates, strict=True):
            flow.left -= rate * (then_s - now_s)
        now_s = then_s
        for course in courses:
            if course.flows:
                course.flows = [flow for flow in course.flows if flow.left or flow.start_s > now_s]
                if not course.flows:
                    course.next_step(now_s)
    return [float(course.end_s) for course in courses]


def level(network: Network, flows: list[Flow]) -> list[Fraction]:
    """Raise all rates alike and fix those of the flows whose link is full, until all are fixed."""
    room = {link: Fraction(int(network.bytes_per_s[link])) for flow in flows for link in flow.links}
    rates: dict[int, Fraction] = {}
    while len(rates) < len(flows):
        growing = Counter(link for index, flow in enumerate(flows) if index not in rates for link in flow.links)
        shares = {link: room[link] / count for link, count in growing.items()}
        least = min(shares.values())
        full = {link for link, share in shares.items() if share == least}
        for index, flow in enumerate(flows):
            if index not in rates and full & set(flow.links):
                rates[index] = least
                for link in flow.links:
                    room[link] -= least
    return [rates[index] for index in range(len(flows))]


@st.composite
def networks(draw: st.DrawFn) -> Network:
    """Return a small machine with some links slowed to one of few speeds, so that alike and unlike ones meet."""
    ties = draw(st.sampled_from(["split", "positive"]))
    spec = draw(st.sampled_from(SPECS))
    built = machine(spec, bandwidth_bytes_per_s=50e9, latency_s=500e-9, ties="split" if ties == "split" else "positive")
    for factor in draw(st.lists(st.sampled_from([0.5, 0.3]), max_size=2)):
        built = built.degraded(draw(st.lists(st.integers(0, built.links - 1), min_size=1, max_size=3)), factor)
    return built


@st.composite
def moves(draw: st.DrawFn, ranks: int) -> Move:
    """Return a shift or an exchange with all, of a share of the buffer, now and then with unequal transfers."""
    fraction = draw(st.sampled_from([Fraction(1, 3), Fraction(1, ranks), Fraction(1)]))
    pattern = draw(st.one_of(st.builds(Shift, st.integers(1, ranks - 1), st.just(ranks)), st.just(Everyone(ranks))))
    count = len(moved(pattern, fraction).pairs(ranks)[0])
    weights = draw(st.none() | st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=count, max_size=count))
    return moved(pattern, fraction, tuple(weights or ()))


@st.composite
def jobs(draw: st.DrawFn, network: Network) -> Job:
    """Return a program of a few steps on some members or all, and a size."""
    seats = draw(st.lists(st.integers(0, network.endpoints - 1), min_size=2, max_size=4, unique=True))
    members = np.arange(network.endpoints) if draw(st.booleans()) else np.array(seats)
    some = st.builds(Phase, st.lists(moves(len(members)), min_size=1, max_size=2).map(tuple), st.integers(1, 3))
    phases = draw(st.lists(some, min_size=1, max_size=2))
    return Program("any", "any", len(members), tuple(phases)), members, draw(st.sampled_from([0, 1000, 10**6, 10**8]))


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_alone(data: st.DataObject) -> None:
    # Law: classes stand for their paths exactly, and so do paths that are told apart only where their rates differ; what is
    # rounded is a rate (to 1e-4 B/s) and an end (to 1 ps).
    network = data.draw(networks())
    program, members, size = data.draw(jobs(network))
    expected = ends_s(network, [(program, members, size)])[0]
    for most_folded in (10**6, 0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(network_fabric, "MOST_FOLDED", most_folded)
            found = NetworkFabric(network, members).time_s(program, size)
        assert found == pytest.approx(expected, rel=1e-9, abs=5e-11)


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_together(data: st.DataObject) -> None:
    # Law: steps that repeat themselves are skipped, and nobody notices; ends of all collectives, not only of the last.
    network = data.draw(networks())
    several = data.draw(st.lists(jobs(network), min_size=2, max_size=3))
    found = NetworkFabric(network).concurrent_s(several)
    assert found == pytest.approx(ends_s(network, several), rel=1e-9, abs=2e-10)
