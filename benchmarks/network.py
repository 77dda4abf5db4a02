"""What collectives on large networks cost: flow classes and events, and for whole processes seconds and memory.

    python benchmarks/network.py

Each case runs three times as a whole process and once more in a process that counts: the classes into which the
transfers of its steps fold, and the times at which the solver found that flows ended.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from costs import whole_process

WIRES = ("--link-bandwidth", "50 GB/s", "--link-latency", "250 ns")
CASES = {
    "ring, 1,024 on a star": ("all-reduce", "--on", "star", "--ranks", "1024", "--algorithm", "ring", *WIRES),
    "ring, 1,000,080, 10 uplinks at half": (
        *("all-reduce", "--on", "trn3-gen2-ultraserver", "--servers", "6945", "--ranks", "1000080"),
        *("--algorithm", "ring", "--degrade", "10:0.5"),
    ),
    "all-to-all, 256 on a star": ("all-to-all", "--on", "star", "--ranks", "256", "--algorithm", "direct", *WIRES),
    "all-to-all, torus:8x16x16": ("all-to-all", "--on", "torus:8x16x16", "--algorithm", "direct", *WIRES),
    "all-to-all, fat-tree:64x32:2": ("all-to-all", "--on", "fat-tree:64x32:2", "--algorithm", "direct", *WIRES),
}


def inside(arguments: list[str]) -> dict[str, int]:
    """Run a case in this process and count."""
    import contextlib
    import os

    from trnsim.cli import main as trnsim
    from trnsim.engine.sharing import Fluid
    from trnsim.fabric.network_fabric import NetworkFabric

    found = {"classes": 0, "paths": 0, "events": 0}
    step, advance = NetworkFabric.step, Fluid.advance

    def counted_step(fabric: Any, phase: Any) -> Any:
        result = step(fabric, phase)
        found["classes"] = max(found["classes"], len(result.classes.counts))
        found["paths"] = max(found["paths"], int(sum(result.classes.counts)))
        return result

    def counted_advance(fluid: Any) -> Any:
        found["events"] += 1
        return advance(fluid)

    NetworkFabric.step = counted_step  # type: ignore[assignment,method-assign]
    Fluid.advance = counted_advance  # type: ignore[assignment,method-assign]
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.suppress(SystemExit):
        trnsim(arguments)
    return found


def main() -> None:
    """Print one table."""
    print(f"{'case':<38}{'paths':>12}{'flow classes':>14}{'events':>8}{'seconds':>9}{'cpu s':>8}{'MiB':>8}")
    for name, case in CASES.items():
        arguments = ["collective", *case, "--bytes", "1GiB"]
        code = [sys.executable, __file__, "--inside", *arguments]
        count = json.loads(subprocess.run(code, capture_output=True, text=True, check=True).stdout)
        cost = whole_process(["-m", "trnsim", *arguments])
        print(
            f"{name:<38}{count['paths']:>12,}{count['classes']:>14,}{count['events']:>8,}"
            f"{cost.wall_s:>9.2f}{cost.cpu_s:>8.2f}{cost.mebibytes:>8,}"
        )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        print(json.dumps(inside(sys.argv[2:])))
    else:
        main()
