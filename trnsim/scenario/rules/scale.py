"""The size of a run: what no machine would train, and no simulator should try."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trnsim.scenario.rules.pipeline import SCHEDULE_KEYS, virtual_stages_of
from trnsim.scenario.rules.ranks import RANK_KEYS, ranks_of
from trnsim.scenario.rules.rule import Rule
from trnsim.units import format_time
from trnsim.workload import flops_per_token

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnsim.errors import Problem
    from trnsim.scenario.draft import Draft

__all__ = ["RULES"]

MOST_PASSES: Final = 10_000_000
MOST_SECONDS: Final = 1_000_000


def passes_can_be_simulated(draft: Draft) -> Iterator[Problem]:
    """Rule 22: forward and backward passes that are simulated one by one are not absurdly many."""
    ranks, training, run = ranks_of(draft), draft.file.training, draft.file.run
    if ranks is None or ranks.dp is None:
        return
    microbatches = training.global_batch // (training.micro_batch * ranks.dp)
    folded, virtual_stages = run.folding != "off" and run.fidelity != "chunk", virtual_stages_of(draft)
    simulated, what = (ranks.pp, "stages") if folded else (ranks.replica * ranks.dp, "ranks")
    if virtual_stages > 1:
        simulated, what = simulated * virtual_stages, f"virtual stages of {what}"
    a_step = 2 * microbatches * simulated
    if a_step * run.steps <= MOST_PASSES:
        return
    if not folded and 2 * microbatches * ranks.pp * virtual_stages * run.steps <= MOST_PASSES:
        key, choice = "run.folding", "run.folding: auto simulates ranks that behave alike once, with the same result"
        if run.fidelity == "chunk":
            key, choice = "run.fidelity", "run.fidelity: flow simulates ranks that behave alike once"
    elif a_step <= MOST_PASSES:
        key, choice = "run.steps", f"at most {MOST_PASSES // a_step:,} steps"
    else:
        batch = MOST_PASSES // (2 * simulated * run.steps) * training.micro_batch * ranks.dp
        key, choice = "training.global_batch", f"at most {batch:,} sequences a step"
    message = (
        f"2 x {microbatches:,} microbatches x {simulated:,} {what} x {run.steps:,} steps = {a_step * run.steps:,} passes, and "
        f"{MOST_PASSES:,} is the most that is simulated; {choice}"
    )
    yield draft.document.problem(key, message)


def run_ends(draft: Draft) -> Iterator[Problem]:
    """Rule 22: even at the peak of its chips a run takes no absurdly long time."""
    training, server, model, ranks = draft.file.training, draft.server, draft.model, ranks_of(draft)
    if server is None or model is None or ranks is None or training.precision not in server.chip.peak_flops_per_s:
        return
    tokens = training.global_batch * training.sequence_length * draft.file.run.steps
    chips, peak = ranks.servers * ranks.chips, server.chip.peak_flops_per_s[training.precision].value
    least_s = flops_per_token(model, training.sequence_length) * tokens / (chips * peak)
    if least_s > MOST_SECONDS:
        message = (
            f"{tokens:,} tokens in {draft.file.run.steps:,} steps take {format_time(least_s)} at the peak of {chips:,} chips, and "
            f"{format_time(MOST_SECONDS)} is the most that is simulated; a smaller batch, a shorter sequence, fewer steps"
        )
        yield draft.document.problem("training.global_batch", message)


RULES = (
    Rule(
        (
            *("training.global_batch", "training.micro_batch", "run.steps", "run.folding", "run.fidelity"),
            *(*SCHEDULE_KEYS, *RANK_KEYS),
        ),
        passes_can_be_simulated,
    ),
    Rule(
        ("training.global_batch", "training.sequence_length", "training.precision", "run.steps", "model", *RANK_KEYS),
        run_ends,
    ),
)
