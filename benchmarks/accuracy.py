"""Simulate the measured steps of docs/accuracy.md and rewrite its table."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import NamedTuple

import trnsim
from trnsim.workload import flops_per_token

PAGE = Path(__file__).parent.parent / "docs" / "accuracy.md"
GLOBAL_BATCH = 1024
BASELINE_MFU = 0.34
CHIPS_PER_INSTANCE = 16
PEAK_FLOPS_PER_S = 190e12


class Row(NamedTuple):
    """A measured step: the configuration and sequences per second."""

    model: str
    sequence: int
    instances: int
    tp: int
    pp: int
    dp: int
    measured: float


class Checked(NamedTuple):
    """What the simulator and the baseline say of it; errors are those of the step time, predicted/measured - 1."""

    row: Row
    simulated: float
    error: float
    baseline_error: float


def table_rows(text: str) -> list[Row]:
    """Read the measured columns of the table."""
    lines = [line for line in text.splitlines() if line.startswith(("| gpt3", "| llama"))]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [Row(c[0], int(c[1]), int(c[2]), int(c[3]), int(c[4]), int(c[5]), float(c[6])) for c in cells]


def check(row: Row) -> Checked:
    """Simulate one row."""
    rules = "megatron" if row.model.startswith("gpt") else "nxd"
    text = f"""\
schema: 1
cluster: {{server: trn1.32xlarge, servers: {row.instances}, fabric: ultracluster}}
model: {row.model}
training: {{sequence_length: {row.sequence}, global_batch: {GLOBAL_BATCH}, recompute: full}}
layout: {{rank: logical_core, tp: {row.tp}, pp: {row.pp}, dp: {row.dp}, rules: {rules}}}
run: {{steps: 1}}
"""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "row.yaml"
        path.write_text(text, encoding="utf-8")
        scenario = trnsim.load(path)
    simulated = trnsim.simulate(scenario).step.sequences_per_s
    flops = flops_per_token(scenario.model, row.sequence) * scenario.tokens
    chips = row.instances * CHIPS_PER_INSTANCE
    bubble = 1 + (row.pp - 1) / scenario.microbatches
    baseline_s = flops / (BASELINE_MFU * chips * PEAK_FLOPS_PER_S) * bubble
    measured_s = GLOBAL_BATCH / row.measured
    return Checked(row, simulated, row.measured / simulated - 1, baseline_s / measured_s - 1)


def table_line(checked: Checked) -> str:
    """Write one row of the table."""
    cells = [*checked.row[:6], f"{checked.row.measured:.2f}", f"{checked.simulated:.1f}"]
    errors = [f"{error:+.1%}".replace("%", " %") for error in checked[2:]]
    return f"| {' | '.join(str(cell) for cell in [*cells, *errors])} |"


def mean_line(every: list[Checked]) -> str:
    """Write the sentence below the table."""
    ours, baseline = (
        sum(abs(error) for error in errors) / len(every)
        for errors in ([c.error for c in every], [c.baseline_error for c in every])
    )
    return f"Mean absolute error of step time: {ours:.1%} simulated, {baseline:.1%} baseline.".replace("%", " %")


def page(text: str, every: list[Checked]) -> str:
    """Return the page with the table and the sentence below it renewed."""
    fresh = iter([table_line(checked) for checked in every])
    lines = [next(fresh) if line.startswith(("| gpt3", "| llama")) else line for line in text.splitlines()]
    return "\n".join(mean_line(every) if line.startswith(("MEAN", "Mean absolute")) else line for line in lines) + "\n"


if __name__ == "__main__":
    before = PAGE.read_text(encoding="utf-8")
    after = page(before, [check(row) for row in table_rows(before)])
    PAGE.write_text(after, encoding="utf-8")
    print(after)
