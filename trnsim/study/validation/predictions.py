"""Measured steps simulated, on all cores of this machine."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from trnsim import scenario
from trnsim.errors import InputError
from trnsim.record import Record
from trnsim.simulation.estimate import estimate
from trnsim.simulation.least_time import least_time_s
from trnsim.study.validation.configurations import UnclearRowError, scenarios_of
from trnsim.study.validation.groups import of_its_own
from trnsim.study.validation.measurements import Measurement, Skipped, set_of
from trnsim.workload import flops_per_token

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from trnsim.documents import Document
    from trnsim.scenario import Scenario
    from trnsim.simulation.estimate import Estimate
    from trnsim.study.validation.groups import GroupFile

    Change = Callable[[Scenario], Scenario]
    Watch = Callable[[Iterable[Any], int], Iterable[Any]]

__all__ = ["Ideal", "Prediction", "Task", "ideal_times", "predict", "tasks_of"]


_ABOVE_THE_PEAK: Final = "batch and time imply more than the peak of the chips"
_WORTH_A_PROCESS: Final = 16
"""So many steps take longer than to start processes for them."""

_MUCH_GARBAGE: Final = 300_000
"""Objects that a collection is worth its time for."""


class Ideal(Record):
    """What the trivial baseline knows of a measured step.

    Parameters
    ----------
    time_s
        Time that the model FLOPs of the step, with those of recompute, take at the peak of all chips, longer by the
        bubble of the pipeline: what the baseline divides by a constant.
    chip, maker
        The chip that ran it, as the catalog calls it, and who makes it.
    """

    time_s: float
    chip: str
    maker: str


class Prediction(Record):
    """A measured step and what trnsim says of it.

    Parameters
    ----------
    measurement
        What was measured.
    time_s, regime
        What is predicted, and in which regime it lies.
    ideal
        What the trivial baseline makes its time from.
    band
        Mean error, as a fraction, that the software family states for the regime; None where none was measured.
    """

    measurement: Measurement
    time_s: float
    regime: str
    ideal: Ideal
    band: float | None

    @property
    def error(self) -> float:
        """Predicted over measured, less 1."""
        return self.time_s / self.measurement.time_s - 1


class Task(Record):
    """A measurement with the scenarios that stand for it; the fastest counts."""

    measurement: Measurement
    documents: tuple[Document, ...]


def tasks_of(
    found: Iterable[Measurement], known: Mapping[str, GroupFile]
) -> tuple[tuple[Task, ...], tuple[Skipped, ...]]:
    """Make scenarios of measured steps; what cannot be made is skipped, with the reason."""
    tasks, skipped = [], []
    for one in found:
        try:
            tasks.append(Task(one, scenarios_of(one.row, known.get(set_of(one.row)) or of_its_own(one.row))))
        except UnclearRowError as error:
            skipped.append(Skipped(one.row, str(error), is_step=True))
    return tuple(tasks), tuple(skipped)


def predict(
    tasks: Sequence[Task],
    *,
    jobs: int,
    change: Change | None = None,
    watch: Watch = lambda found, _: found,
) -> tuple[Prediction | Skipped, ...]:
    """Simulate measured steps, the longest simulations first, so that all processes end together.

    Parameters
    ----------
    tasks
        What to simulate.
    jobs
        Processes to use. >= 1, or -1 for as many as there are cores.
    change
        Returns another scenario to simulate in place of the one that was made, as a fit does.
    watch
        Wraps what comes of different scenarios, with their number.

    Returns
    -------
    tuple of Prediction or Skipped
        In the order of the tasks; what trnsim refuses to simulate is skipped, with the reason. Scenarios that
        differ in name only are simulated once.
    """
    from joblib import Parallel, delayed

    places: dict[str, list[int]] = {}
    for place, task in enumerate(tasks):
        places.setdefault(_question(task), []).append(place)
    order = sorted(places.values(), key=lambda same: -_passes(tasks[same[0]]))
    parallel = Parallel(n_jobs=jobs if len(order) >= _WORTH_A_PROCESS else 1, return_as="generator")
    outcomes = parallel(delayed(_predicted)([tasks[place] for place in same], change) for same in order)
    by_place: dict[int, Prediction | Skipped] = {}
    for same, found in zip(order, watch(outcomes, len(order)), strict=True):
        by_place |= zip(same, found, strict=True)
    return tuple(by_place[place] for place in range(len(tasks)))


def _question(task: Task) -> str:
    """Return what its scenarios ask, without their names."""
    return repr([{**document.data, "name": None} for document in task.documents])


def _passes(task: Task) -> int:
    """Return how many passes of a microbatch through a stage its scenarios have: simulating takes as long."""
    total = 0
    for document in task.documents:
        training, layout = document.data["training"], document.data["layout"]
        microbatches = training["global_batch"] // max(1, training["micro_batch"] * layout["dp"])
        total += microbatches * layout["pp"] * document.data["schedule"].get("virtual_stages", 1)
    return total


def ideal_times(tasks: Iterable[Task]) -> Iterator[tuple[Measurement, Ideal]]:
    """Yield measured steps and what the baseline knows of them; nothing is simulated, and what trnsim refuses is left out."""
    for task in tasks:
        made = _resolved(task.documents)
        if not isinstance(made, str):
            yield task.measurement, _ideal(made[0])


def _predicted(same: Sequence[Task], change: Change | None) -> tuple[Prediction | Skipped, ...]:
    """Return the outcome of each of the measurements that the same scenarios stand for."""
    made = _resolved(same[0].documents)
    if isinstance(made, str):
        return tuple(Skipped(task.measurement.row, made, is_step=True) for task in same)
    busy_s = _busy_s(made[0])
    if all(task.measurement.time_s < busy_s for task in same):
        return tuple(Skipped(task.measurement.row, _ABOVE_THE_PEAK, is_step=True) for task in same)
    with _garbage_kept():
        found = _fastest([change(one) if change else one for one in made])
    return tuple(_outcome(task.measurement, found, busy_s, made[0]) for task in same)


def _outcome(step: Measurement, found: Estimate | str, busy_s: float, made: Scenario) -> Prediction | Skipped:
    if step.time_s < busy_s:
        return Skipped(step.row, _ABOVE_THE_PEAK, is_step=True)
    if isinstance(found, str):
        return Skipped(step.row, found, is_step=True)
    band = made.cluster.software.errors.get(found.regime)
    return Prediction(step, found.time_s, found.regime, _ideal(made), None if band is None else band.value)


def _resolved(documents: Iterable[Document]) -> list[Scenario] | str:
    """Return the scenarios that trnsim accepts, or why there is none."""
    made, refusal = [], "no combination of what is tried divides the batch"
    for document in documents:
        try:
            made.append(scenario.resolve(document))
        except InputError as error:
            refusal = _why(error)
    return made or refusal


def _fastest(candidates: Sequence[Scenario]) -> Estimate | str:
    """Simulate all that could be the fastest, and return it; or why none can be simulated."""
    best, refusal = None, ""
    least = [least_time_s(one) if len(candidates) > 1 else 0.0 for one in candidates]
    for least_s, candidate in sorted(zip(least, candidates, strict=True), key=itemgetter(0)):
        if best is not None and least_s >= best.time_s:
            break
        try:
            found = estimate(candidate)
        except InputError as error:
            refusal = _why(error)
            continue
        if best is None or found.time_s < best.time_s:
            best = found
    return best or refusal


def _why(error: InputError) -> str:
    return "; ".join(problem.message for problem in error.problems)


@contextmanager
def _garbage_kept() -> Iterator[None]:
    """Collect garbage after a simulation and not during it, which would take a third of its time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if gc.get_count()[0] > _MUCH_GARBAGE:
            gc.collect()
        if was_enabled:
            gc.enable()


def _busy_s(made: Scenario) -> float:
    """Time that the model FLOPs of a step take at the peak of the chips in use."""
    chip = made.cluster.server.chip
    chips = made.ranks / made.ranks_per_chip
    flops = flops_per_token(made.model, made.training.sequence_length, causal=True) * made.tokens
    return flops / (chips * chip.peak_flops_per_s[made.training.precision].value)


def _ideal(made: Scenario) -> Ideal:
    """Return what the baseline knows of a step; the first scenario that stands for it counts."""
    chip = made.cluster.server.chip
    again = 4 / 3 if made.training.recompute == "full" else 1.0
    stretch = (made.layout.pp - 1) / (made.schedule.virtual_stages * made.microbatches)
    return Ideal(_busy_s(made) * again * (1 + stretch), chip.name, chip.maker)
