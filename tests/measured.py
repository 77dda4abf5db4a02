"""Measured tables written by tests."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

# GPT of 1.7 B parameters on one node, as a row of Korthikanti et al. has its cells; small, so that it is simulated quickly.
KORTHIKANTI: dict[str, Any] = {
    "id": "a",
    "group": "korthikanti22",
    "model": "1.7B",
    "layers": 24,
    "hidden": 2304,
    "heads": 24,
    "ffn": 9216,
    "vocab": 51200,
    "seq": 2048,
    "global_batch": 32,
    "micro_batch": 4,
    "tp": 4,
    "pp": 2,
    "vpp": 1,
    "dp": 1,
    "seq_parallel": "yes",
    "recompute": "full",
    "precision": "fp16",
    "hardware": "NVIDIA A100-SXM4-80GB",
    "accelerators": 8,
    "metric": "iteration_time",
    "value": 2.0,
    "unit": "s",
    "software": "Megatron-LM",
    "table": "a table",
}


def table(folder: Path, *rows: dict[str, Any], name: str = "measured.csv") -> Path:
    """Write rows as a table and return its path."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(key for row in rows for key in row)), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    path = folder / name
    path.write_text(text.getvalue(), encoding="utf-8")
    return path
