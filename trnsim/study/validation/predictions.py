"""Measured steps simulated, on all cores of this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsim import scenario
from trnsim.errors import InputError
from trnsim.record import Record
from trnsim.simulation.estimate import Estimate, estimate
from trnsim.study.validation.configurations import UnclearRowError, scenarios_of
from trnsim.study.validation.measurements import Measurement, Skipped, set_of
from trnsim.workload import flops_per_token

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from trnsim.documents import Document
    from trnsim.scenario import Scenario
    from trnsim.study.validation.groups import GroupFile

    Change = Callable[[Scenario], Scenario]

__all__ = ["Prediction", "Task", "ideal_times", "predict", "tasks_of"]


class Prediction(Record):
    """A measured step and what trnsim says of it.

    Parameters
    ----------
    measurement
        What was measured.
    time_s, regime
        What is predicted, and in which regime it lies.
    ideal_s
        Time that the model FLOPs of the step, with those of recompute, take at the peak of all chips, longer by the
        bubble of the pipeline: what the trivial baseline divides by a constant.
    """

    measurement: Measurement
    time_s: float
    regime: str
    ideal_s: float

    @property
    def error(self) -> float:
        """Predicted over measured, less 1."""
        return self.time_s / self.measurement.time_s - 1


class Task(Record):
    """A measurement with the scenarios that stand for it; the fastest counts."""

    measurement: Measurement
    documents: tuple[Document, ...]


class Answer(Record):
    """What a simulation says of a step, whatever was measured.

    Parameters
    ----------
    estimate
        Of the fastest scenario.
    busy_s
        Time that its model FLOPs take at the peak of the chips.
    ideal_s
        As that of a prediction.
    """

    estimate: Estimate
    busy_s: float
    ideal_s: float


def tasks_of(
    found: Iterable[Measurement], known: Mapping[str, GroupFile]
) -> tuple[tuple[Task, ...], tuple[Skipped, ...]]:
    """Make scenarios of measured steps; what cannot be made is skipped, with the reason."""
    tasks, skipped = [], []
    for one in found:
        try:
            tasks.append(Task(one, scenarios_of(one.row, known.get(set_of(one.row)))))
        except UnclearRowError as error:
            skipped.append(Skipped(one.row, str(error), is_step=True))
    return tuple(tasks), tuple(skipped)


def predict(tasks: Iterable[Task], *, jobs: int, change: Change | None = None) -> Iterator[Prediction | Skipped]:
    """Simulate measured steps.

    Parameters
    ----------
    tasks
        What to simulate.
    jobs
        Processes to use. >= 1, or -1 for as many as there are cores.
    change
        Returns another scenario to simulate in place of the one that was made, as a fit does.

    Yields
    ------
    Prediction or Skipped
        In the order of the tasks; what trnsim refuses to simulate is skipped, with the reason. Scenarios that differ in
        name only are simulated once.
    """
    from joblib import Parallel, delayed

    asked = [(_question(task), task) for task in tasks]
    first = dict(reversed(asked))
    order = dict.fromkeys(question for question, _ in asked)
    answers = Parallel(n_jobs=jobs, return_as="generator", batch_size=4)(
        delayed(_answer)(first[question], change) for question in order
    )
    known: dict[str, Answer | str] = {}
    for question, task in asked:
        if question not in known:
            known[question] = next(answers)
        yield _outcome(task, known[question])


def ideal_times(tasks: Iterable[Task], *, jobs: int) -> Iterator[tuple[Measurement, float]]:
    """Yield measured steps and their `ideal_s`, where trnsim does not refuse them; nothing is simulated."""
    from joblib import Parallel, delayed

    chosen = list(tasks)
    times = Parallel(n_jobs=jobs, return_as="generator", batch_size=32)(
        delayed(_allowed_ideal_s)(task) for task in chosen
    )
    for task, time_s in zip(chosen, times, strict=True):
        if time_s is not None:
            yield task.measurement, time_s


def _question(task: Task) -> str:
    """Return what its scenarios ask, without their names."""
    return repr([{**document.data, "name": None} for document in task.documents])


def _answer(task: Task, change: Change | None) -> Answer | str:
    """Return the fastest of the scenarios that stand for a step, or why there is none."""
    best: Answer | None = None
    refusal = "no combination of what is tried divides the batch"
    for document in task.documents:
        try:
            made = scenario.resolve(document)
            found = estimate(change(made) if change else made)
        except InputError as error:
            refusal = "; ".join(problem.message for problem in error.problems)
            continue
        if best is None or found.time_s < best.estimate.time_s:
            best = Answer(found, _busy_s(made), _ideal_s(task))
    return refusal if best is None else best


def _outcome(task: Task, answer: Answer | str) -> Prediction | Skipped:
    if isinstance(answer, str):
        return Skipped(task.measurement.row, answer, is_step=True)
    if task.measurement.time_s < answer.busy_s:
        return Skipped(task.measurement.row, "batch and time imply more than the peak of the chips", is_step=True)
    return Prediction(task.measurement, answer.estimate.time_s, answer.estimate.regime, answer.ideal_s)


def _busy_s(made: Scenario) -> float:
    """Time that the model FLOPs of a step take at the peak of the chips in use."""
    chip = made.cluster.server.chip
    chips = made.ranks / made.ranks_per_chip
    flops = flops_per_token(made.model, made.training.sequence_length, causal=True) * made.tokens
    return flops / (chips * chip.peak_flops_per_s[made.training.precision].value)


def _allowed_ideal_s(task: Task) -> float | None:
    try:
        return _ideal_s(task)
    except InputError:
        return None


def _ideal_s(task: Task) -> float:
    """Return the time that the baseline divides by an efficiency, of the first scenario that stands for a step."""
    made = scenario.resolve(task.documents[0])
    again = 4 / 3 if made.training.recompute == "full" else 1.0
    stretch = (made.layout.pp - 1) / (made.schedule.virtual_stages * made.microbatches)
    return _busy_s(made) * again * (1 + stretch)
