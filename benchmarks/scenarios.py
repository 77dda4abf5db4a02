"""What simulations cost: cohorts and events, which are gated, and seconds and memory, which are only reported.

    python benchmarks/scenarios.py [NAME ...]

Each scenario runs three times as a whole process, and once in a process of its own that times the engine alone, next
to a bare SimPy loop of as many events. Exits with 1 if a counted fact is broken.
"""

from __future__ import annotations

import json
import subprocess
import sys
from time import perf_counter
from typing import Any, NamedTuple

from costs import bare_loop_s, whole_process

PACKAGES = ("simpy", "networkx", "pydantic", "ruamel", "msgspec", "click", "rich", "rich_click")
EVENTS_PER_MICROBATCH = 6
EVENTS_PER_STEP = 30
SIZES = (10, 100, 6945)
MICROBATCHES = 64


class Counted(NamedTuple):
    """What the engine counts in one scenario, and how long it and a bare loop take; made by `inside`."""

    chips: int
    stages: int
    cohorts: int
    microbatches: int
    steps: int
    events: int
    is_bounded: bool
    engine_s: float
    bare_s: float

    @property
    def bound(self) -> int:
        """Most events that a run may need whose passes are alone: some for each microbatch of each cohort and step.

        Messages beside the work meet tensor collectives, and ZeRO-2 and 3 exchange in every pass; these are reported only.
        """
        per_step = EVENTS_PER_MICROBATCH * self.microbatches + EVENTS_PER_STEP
        return self.cohorts * self.steps * per_step

    @property
    def per_stage_and_microbatch(self) -> float:
        """Events of one step over stages and microbatches."""
        return self.events / (self.steps * self.stages * self.microbatches)


def counted(name: str, overrides: tuple[str, ...] = ()) -> Counted:
    """Count in a process of its own, so that the memory of this one stays small (a child starts with its parent's peak)."""
    command = [sys.executable, __file__, "--inside", name, *overrides]
    return Counted(**json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout))


def inside(name: str, overrides: list[str]) -> dict[str, Any]:
    """Simulate a scenario and time its engine."""
    import trnsim
    from trnsim.engine import Engine

    engine_s, events, run = 0.0, 0, Engine.run

    def timed(engine: Engine) -> None:
        nonlocal engine_s, events
        start_s = perf_counter()
        run(engine)
        engine_s += perf_counter() - start_s
        events += engine.events

    Engine.run = timed  # type: ignore[assignment,method-assign]
    scenario = trnsim.load(name, overrides)
    result = trnsim.simulate(scenario)
    return {
        "chips": result.cluster.chips,
        "stages": len(result.stages),
        "cohorts": result.engine.cohorts,
        "microbatches": scenario.microbatches,
        "steps": scenario.run.steps,
        "events": result.engine.events,
        "is_bounded": scenario.schedule.sends == "blocking" and scenario.layout.zero < 2,
        "engine_s": engine_s,
        "bare_s": bare_loop_s(events),
    }


def bare_imports(name: str) -> str:
    """Return Python that imports what a run of a scenario loads of the packages that trnsim uses, and nothing else."""
    listing = f"""
import runpy, sys
sys.argv = ["trnsim", "run", {name!r}]
try:
    runpy.run_module("trnsim", run_name="__main__")
except SystemExit:
    pass
wanted = [name for name in sys.modules if name.partition(".")[0] in {PACKAGES}]
print(*(name for name in wanted if sys.modules[name].__name__ == name), file=sys.stderr)
"""
    run = subprocess.run([sys.executable, "-c", listing], capture_output=True, text=True, check=True)
    modules = run.stderr.splitlines()[-1].split()
    return f"from importlib import import_module\nfor module in {modules}:\n    import_module(module)"


def broken_facts(rows: dict[str, Counted]) -> list[str]:
    """Return the counted facts that do not hold."""
    broken = [
        f"{name}: {row.events:,} events, more than {row.bound:,}"
        for name, row in rows.items()
        if row.is_bounded and row.events > row.bound
    ]
    sizes = [
        counted(
            "trn3-million",
            (
                f"cluster.servers={size}",
                f"training.global_batch={size * MICROBATCHES}",
                "run.fidelity=closed_form",  # how often transfers meet depends on how long they take
            ),
        )
        for size in SIZES
    ]
    if len({(row.cohorts, row.events) for row in sizes}) > 1:
        found = ", ".join(f"{row.cohorts:,} and {row.events:,} at {row.chips:,} chips" for row in sizes)
        broken.append(f"cohorts and events of trn3-million grow with its servers: {found}")
    return broken


def main(names: list[str]) -> None:
    """Print one table, and exit with 1 if a counted fact is broken."""
    bare, helped = whole_process(["-c", bare_imports(names[0])]), whole_process(["-m", "trnsim", "--help"])
    print(f"bare imports: {bare.wall_s:.2f} s, {bare.mebibytes} MiB; trnsim --help: {helped.wall_s:.2f} s", end="\n\n")
    print_row("", "", "", "", "events per", "whole", "", "x cpu of", "engine x")
    print_row("scenario", "chips", "cohorts", "events", "stage and mb", "process", "memory", "imports", "bare loop")
    rows: dict[str, Counted] = {}
    for name in names:
        row, cost = counted(name), whole_process(["-m", "trnsim", "run", name])
        rows[name] = row
        print_row(
            name,
            f"{row.chips:,}",
            f"{row.cohorts:,}",
            f"{row.events:,}",
            f"{row.per_stage_and_microbatch:.1f}",
            f"{cost.wall_s:.2f} s",
            f"{cost.mebibytes} MiB",
            f"{cost.cpu_s / bare.cpu_s:.1f}",
            f"{row.engine_s / row.bare_s:.1f}",
        )
    broken = broken_facts(rows)
    print("\n" + ("\n".join(f"broken: {fact}" for fact in broken) or "every counted fact holds"))
    sys.exit(1 if broken else 0)


def print_row(name: str, *cells: str) -> None:
    print(f"{name:<20}" + "".join(f"{cell:>13}" for cell in cells))


def shipped() -> list[str]:
    """Return the names of the scenarios that ship with trnsim."""
    command = [sys.executable, "-m", "trnsim", "list", "scenarios", "--json"]
    listed = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return [entry["name"] for entry in listed["scenarios"]]


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        print(json.dumps(inside(sys.argv[2], sys.argv[3:])))
    else:
        main(sys.argv[1:] or shipped())
