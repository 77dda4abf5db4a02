"""Several collectives at once on the same links."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from trnsim.engine.clock import picoseconds
from trnsim.engine.sharing import Fluid
from trnsim.engine.turns import Turns
from trnsim.fabric.network_steps import Paths, folded, paths_of
from trnsim.record import Record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from trnsim.collectives.program import Phase
    from trnsim.engine.sharing import Flow
    from trnsim.fabric.network_steps import Step
    from trnsim.topology.network import Network

__all__ = ["Job", "ends_s"]


class Job(Record):
    """One collective: its phases, the endpoints of its members, and the bytes of its buffer."""

    phases: Sequence[Phase]
    members: NDArray[np.int64]
    size_bytes: float


def ends_s(
    network: Network,
    jobs: Mapping[str, Job],
    orders: Mapping[int, Sequence[str]],
    *,
    collective_s: float,
    step_s: float,
) -> dict[str, float]:
    """Return when each of several collectives ends that share links fairly.

    Each goes on to its next step when all transfers of a step have ended. Where all have come to the beginning of a step
    of the same phases as once before, what happened since then is repeated without being computed again.

    Parameters
    ----------
    network
        Links and routes.
    jobs
        The collectives by name. One without phases takes no time.
    orders
        Of some endpoints, the collectives that they call, in order; see `trnsim.engine.turns.Turns`.
    collective_s, step_s
        Time that passes before each collective, and before each step.

    Raises
    ------
    SimulationStalledError
        If members wait for one another for ever.
    """
    turns = Turns({name: frozenset(job.members.tolist()) if orders else () for name, job in jobs.items()}, orders)
    phases = [(job, phase) for job in jobs.values() for phase in job.phases]
    paths = [paths_of(network, job.members, phase, symmetric=False) for job, phase in phases]
    owner = np.repeat(np.arange(len(paths)), [len(each.share) for each in paths])
    step = folded(network, Paths.joined(paths), owner) if paths else None
    flows = _flows_by_owner(step, owner, [job.size_bytes for job, _ in phases]) if step else []
    courses = {}
    for name, job in jobs.items():
        stages = [_Stage(flows.pop(0), phase.steps) for phase in job.phases]
        courses[name] = _Course(name, stages, picoseconds(collective_s) if stages else 0)
    fluid: Fluid[tuple[str, int]] = Fluid(step.capacities if step else [])
    _Run(fluid, courses, turns, picoseconds(step_s)).to_the_end()
    return {name: course.end_ps / 1e12 for name, course in courses.items()}


class _Stage(Record):
    """A phase: the flows of one step, and the number of steps."""

    flows: list[Flow]
    steps: int


class _Course(Struct):
    """How far a collective has come."""

    name: str
    stages: list[_Stage]
    delay_ps: int
    stage: int = -1
    done: int = 0
    under_way: int = 0
    end_ps: int = 0

    @property
    def is_over(self) -> bool:
        return self.stage == len(self.stages)

    @property
    def steps_left(self) -> int:
        """Steps of the phase that are left."""
        return 0 if self.is_over or self.stage < 0 else self.stages[self.stage].steps - self.done

    def count(self, steps: int) -> None:
        """Count steps as done, and turn to the next phase after the last one."""
        self.done += steps
        if not self.steps_left:
            self.stage, self.done = self.stage + 1, 0


def _flows_by_owner(step: Step, owner: NDArray[np.int64], sizes: list[float]) -> list[list[Flow]]:
    """Return the flows of each owner, in order; each has a buffer size of its own."""
    of_class = owner[step.classes.path]
    by_size = {size: step.flows(size) for size in set(sizes)}
    return [[by_size[size][index] for index in np.flatnonzero(of_class == number)] for number, size in enumerate(sizes)]


class _Run:
    """All collectives, from the first to the last."""

    def __init__(self, fluid: Fluid[tuple[str, int]], courses: dict[str, _Course], turns: Turns, step_ps: int) -> None:
        self._fluid = fluid
        self._courses = courses
        self._turns = turns
        self._step_ps = step_ps
        self._skipped_ps = 0
        self._seen: dict[tuple[int, ...], tuple[int, tuple[int, ...]]] = {}

    def to_the_end(self) -> None:
        """Let everything happen."""
        for name in self._turns.begin():
            self._start(self._courses[name], 0)
        while ended := self._fluid.advance():
            for name, _ in ended:
                self._courses[name].under_way -= 1
            through = [self._courses[name] for name in dict(ended) if not self._courses[name].under_way]
            for course in through:
                course.count(1)
            if not any(course.under_way for course in self._courses.values()):
                self._repeat()
            for course in through:
                self._go_on(course, self._fluid.now_ps)
        if not self._turns.over:
            raise self._turns.stalled((self._fluid.now_ps + self._skipped_ps) / 1e12)

    def _start(self, course: _Course, now_ps: int) -> None:
        course.stage = 0
        self._go_on(course, now_ps + course.delay_ps)

    def _go_on(self, course: _Course, now_ps: int) -> None:
        """Begin the next step; one within an endpoint has no flows, and is over after its latency."""
        while not course.is_over:
            now_ps += self._step_ps
            flows = course.stages[course.stage].flows
            for index, flow in enumerate(flows):
                self._fluid.add((course.name, index), replace(flow, start_ps=now_ps + flow.start_ps))
            course.under_way = len(flows)
            if flows:
                return
            course.count(1)
        course.end_ps = now_ps + self._skipped_ps
        for name in self._turns.after(course.name):
            self._start(self._courses[name], now_ps)

    def _repeat(self) -> None:
        """Skip as often as possible what happened since the same phases began a step together."""
        courses, now_ps = self._courses.values(), self._fluid.now_ps
        state, done = tuple(course.stage for course in courses), tuple(course.done for course in courses)
        before_ps, before = self._seen.get(state, (now_ps, done))
        self._seen[state] = now_ps, done
        steps = [now - then for now, then in zip(done, before, strict=True)]
        moving = [(course, each) for course, each in zip(courses, steps, strict=True) if each]
        times = min((course.steps_left // each for course, each in moving), default=0)
        self._skipped_ps += times * (now_ps - before_ps)
        if times:
            for course, each in moving:
                course.count(times * each)
