"""Small scenarios for laws: a tiny GPT on a few servers, written as overrides of one file."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import trnsim

if TYPE_CHECKING:
    from pathlib import Path

    from trnsim import Result
    from trnsim.scenario import Scenario

BASE = """\
schema: 1
name: small
cluster: {server: trn3-gen2-ultraserver, servers: 1, fabric: ultracluster, allow_idle: true}
model:
  name: small GPT
  layers: 8
  hidden_size: 1024
  attention_heads: 16
  kv_heads: 16
  head_dim: 64
  ffn_size: 4096
  gated_mlp: false
  vocabulary: 4096
  tied_embeddings: false
training: {sequence_length: 512, global_batch: 64, micro_batch: 1, bucket_parameters: 20e6}
layout: {order: [tp, cp, pp, dp], tp: 2, pp: 2, dp: 4}
schedule: {kind: 1f1b}
run: {steps: 2}
"""


def load_small(folder: Path, **overrides: Any) -> Scenario:
    """Load the small scenario; keys are written with two underscores for a dot."""
    return trnsim.load(_file(folder), _written(overrides))


def simulate_small(folder: Path, **overrides: Any) -> Result:
    """Simulate the small scenario."""
    return trnsim.simulate(load_small(folder, **overrides))


def json_of_small(folder: Path, *, hash_seed: str, **overrides: Any) -> str:
    """Simulate the small scenario in a process with a hash seed of its own; return its JSON document."""
    code = (
        "import sys, trnsim; from trnsim.results import json_text; "
        "print(json_text(trnsim.simulate(trnsim.load(sys.argv[1], sys.argv[2:])).to_dict()))"
    )
    command = [sys.executable, "-c", code, str(_file(folder)), *_written(overrides)]
    return subprocess.run(command, env={"PYTHONHASHSEED": hash_seed}, capture_output=True, text=True, check=True).stdout


def _file(folder: Path) -> Path:
    path = folder / "small.yaml"
    if not path.exists():
        path.write_text(BASE, encoding="utf-8")
    return path


def _written(overrides: dict[str, Any]) -> list[str]:
    return [f"{key.replace('__', '.')}={value}" for key, value in overrides.items()]
