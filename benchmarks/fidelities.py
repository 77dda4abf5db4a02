"""What the fidelities say of the same step, and of the same collective: where they agree, and what apart.

    python benchmarks/fidelities.py [--markdown]

In closed form every transfer has its links to itself; flow shares the links of a rank; chunk follows every message over
every link of the machine, and no rank waits for a whole group. `--markdown` writes the tables of docs/collectives.md.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import trnsim

FIDELITIES = ("closed_form", "flow", "chunk")

MODEL = """\
schema: 1
cluster: {server: trn3-gen2-ultraserver, servers: 1, fabric: ultracluster, allow_idle: true}
model:
  name: 8 layers of Llama 3 8B
  layers: 8
  hidden_size: 4096
  attention_heads: 32
  kv_heads: 8
  head_dim: 128
  ffn_size: 14336
  gated_mlp: true
  vocabulary: 32000
  tied_embeddings: false
training: {sequence_length: 4096, global_batch: 32, micro_batch: 1, bucket_parameters: 20e6}
layout: {tp: 4, pp: 2, dp: 8}
"""

STEPS = {
    "Trn3 UltraServer, 64 chips: tp 4, dp 8, pp 2": (),
    "Trn3 UltraServer, 32 chips: tp 2, dp 16": ("layout.pp=1", "layout.tp=2", "layout.dp=16"),
    "Trn2 UltraServer, 64 chips: tp 4, dp 8, pp 2": ("cluster.server=trn2-ultraserver",),
    "Trn2 UltraServer, 16 chips: tp 4, dp 4": ("cluster.server=trn2-ultraserver", "layout.pp=1", "layout.dp=4"),
    "2 Trn1 instances: tp 8 of 2 cores a chip, dp 8": (
        *("cluster.server=trn1.32xlarge", "cluster.servers=2", "layout.rank=logical_core"),
        *("layout.tp=8", "layout.pp=1", "layout.dp=8", "training.data_parallel_overlap=buckets"),
    ),
}

COLLECTIVES = {
    "all-reduce, ring, 64 chips of a Trn2 UltraServer": ("all-reduce", "trn2-ultraserver", 64, "ring"),
    "all-reduce, torus, 64 chips of a Trn2 UltraServer": ("all-reduce", "trn2-ultraserver", 64, "torus"),
    "all-gather, direct, 4 chips of a Trn3 sled": ("all-gather", "trn3-gen2-ultraserver", 4, "direct"),
    "all-reduce, direct, 64 chips of a Trn3 UltraServer": ("all-reduce", "trn3-gen2-ultraserver", 64, "direct"),
    "all-reduce, ring, 16 chips of a Trn1 instance": ("all-reduce", "trn1.32xlarge", 16, "ring"),
    "all-to-all, direct, 16 chips of a Trn2 instance": ("all-to-all", "trn2.48xlarge", 16, "direct"),
}
SIZE = "16MiB"
EXPOSED = ("exposed_tp", "exposed_pp", "exposed_dp", "straggler_wait", "bubble")


def steps() -> tuple[list[str], list[list[str]]]:
    """Return a table of steps: for each fidelity the time and what of it is exposed, in milliseconds."""
    head = ["step", "fidelity", "ms", *(part.replace("_", " ") for part in EXPOSED), "to flow"]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fidelities.yaml"
        path.write_text(MODEL, encoding="utf-8")
        for name, overrides in STEPS.items():
            found = {
                each: trnsim.simulate(trnsim.load(path, [*overrides, f"run.fidelity={each}"])).step
                for each in FIDELITIES
            }
            for each, step in found.items():
                parts = step.breakdown_s.parts()
                cells = (f"{parts[part] * 1e3:.3f}" for part in EXPOSED)
                apart = _apart(step.time_s, found["flow"].time_s)
                rows.append([name if each == FIDELITIES[0] else "", each, f"{step.time_s * 1e3:.3f}", *cells, apart])
    return head, rows


def collectives() -> tuple[list[str], list[list[str]]]:
    """Return a table of collectives alone, in microseconds."""
    rows = []
    for name, (op, server, ranks, algorithm) in COLLECTIVES.items():
        times = [
            trnsim.collective(op, on=server, ranks=ranks, sizes=SIZE, algorithm=algorithm, fidelity=each).rows[0].time_s
            for each in FIDELITIES
        ]
        rows.append([name, *(f"{time_s * 1e6:.2f}" for time_s in times), _apart(times[2], times[1])])
    return ["collective of 16 MiB", *(f"{each}, us" for each in FIDELITIES), "chunk to flow"], rows


def _apart(time_s: float, flow_s: float) -> str:
    return f"{100 * (time_s / flow_s - 1):+.3f} %"


def _print(head: list[str], rows: list[list[str]], *, markdown: bool) -> None:
    if markdown:
        print(*(f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *rows)), sep="\n", end="\n\n")
        return
    widths = [max(len(line[column]) for line in (head, *rows)) for column in range(len(head))]
    for line in (head, *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    print()


if __name__ == "__main__":
    for made in (steps, collectives):
        _print(*made(), markdown="--markdown" in sys.argv[1:])
