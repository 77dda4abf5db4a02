"""What a million chips cost to simulate, and single ranks without folding.

    python benchmarks/scale.py [--all] [WORD ...]

Each case is `trnsim run` in a process of its own, which then times two SimPy loops that do nothing. *Events* is one process
that waits for as many events as the engines of the run processed. *Wake-ups* is as many events, for each of which as many
processes wait as did in the run, and as many processes as it had: when a tensor group of eight goes on, one event wakes eight.
Wake-ups are counted in a run before, in another process, as counting them takes time. What replays do is an event and a
wake-up each. Words choose cases by name; without `--all` those are left out that take minutes. Exits with 1 if a case needs
more events or memory than it may.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from time import monotonic, process_time
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

SYMMETRIC = """\
schema: 1
name: scale
cluster: {server: trn3-gen2-ultraserver, servers: 6945, fabric: ultracluster}
model: gpt-1t
training: {sequence_length: 8192, global_batch: 444480, micro_batch: 1, recompute: selective, bucket_parameters: 7e9}
layout: {rank: chip, order: [tp, cp, pp, dp], tp: 16, pp: 9, dp: auto}
schedule: {kind: 1f1b}
collectives:
  algorithm:
    all-gather: {server: ring, cluster: ring}
    reduce-scatter: {server: ring, cluster: ring}
    all-reduce: {server: ring, cluster: ring}
run: {steps: 1}
"""
SINGLE = """\
schema: 1
name: single ranks
cluster: {server: trn2-ultraserver, servers: 16, fabric: ultracluster}
model: {name: small GPT, layers: 16, hidden_size: 1024, attention_heads: 16, kv_heads: 16, head_dim: 64, ffn_size: 4096,
  gated_mlp: false, vocabulary: 4096, tied_embeddings: false}
training: {sequence_length: 512, global_batch: 128, micro_batch: 1, bucket_parameters: 20e6}
layout: {rank: chip, order: [tp, cp, pp, dp], tp: 8, pp: 8, dp: auto}
schedule: {kind: 1f1b}
run: {steps: 1, folding: "off"}
"""
PP_60 = ("layout.tp=4", "layout.pp=60", "training.global_batch=1066752", "training.recompute=full")
FIVE_SERVERS = ("layout.pp=45", "training.global_batch=88896")


def perturbed(slow_chips: int) -> str:
    """Return some slow chips and 100 degraded uplinks, as an override."""
    return "perturbations=" + json.dumps([
        {"name": "slow chips", "of": "chips", "speed": 0.87, "count": slow_chips},
        {"name": "degraded uplinks", "of": "tor-leaf", "speed": 0.5, "count": 100},
    ])  # fmt: skip


class Case(NamedTuple):
    """A scenario, and what its run is to stay below: seconds, megabytes (10**6), events of a step.

    Events and memory are held; all else is reported.
    """

    name: str
    text: str
    overrides: tuple[str, ...]
    wall_s: float
    megabytes: float
    events: int | None
    is_long: bool = False
    is_fold_alone: bool = False


def five_servers(slow_chips: int, wall_s: float, megabytes: float, events: int, fidelity: str = "flow") -> Case:
    """Return a case whose replicas lie across 5 servers, so that messages and gradients leave through the same NICs."""
    name = f"1M, 5 servers, {slow_chips:,} slow, 100 uplinks, {fidelity}"
    overrides = (*FIVE_SERVERS, perturbed(slow_chips), f"run.fidelity={fidelity}")
    return Case(name, SYMMETRIC, overrides, wall_s, megabytes, events, is_long=True)


def single(servers: int, wall_s: float, megabytes: float, *, is_long: bool = False) -> Case:
    """Return a case without folding."""
    sizes = (f"cluster.servers={servers}", f"training.global_batch={8 * servers}")
    name = f"folding off, {64 * servers:,} chips"
    return Case(name, SINGLE, sizes, wall_s, megabytes, 60 * 64 * servers, is_long=is_long)


CASES = (
    Case("1M, symmetric, pp 9", SYMMETRIC, (), 1.0, 100, (4 * 14 + 6) * 9 * 64),
    Case("1M, symmetric, pp 60", SYMMETRIC, PP_60, 2.5, 120, (4 * 2 + 6) * 60 * 256, is_long=True),
    Case("1M, 100 slow, 100 uplinks", SYMMETRIC, (perturbed(100),), 2.5, 150, 250_000),
    Case("1M, 1,000 slow, 100 uplinks", SYMMETRIC, (perturbed(1000),), 2.5, 150, 250_000),
    Case("same, ranks folded alone", SYMMETRIC, (perturbed(1000),), 6, 400, None, is_fold_alone=True),
    Case("1M, 5 servers, symmetric", SYMMETRIC, FIVE_SERVERS, 12, 200, 1_500_000, is_long=True),
    five_servers(100, 12, 200, 1_500_000),
    five_servers(1000, 75, 300, 8_000_000),
    five_servers(100, 12, 200, 1_500_000, "closed_form"),
    five_servers(1000, 75, 300, 8_000_000, "closed_form"),
    single(16, 1.5, 120),
    single(64, 4, 150, is_long=True),
    single(256, 20, 250, is_long=True),
    single(1024, 90, 500, is_long=True),
)
COLUMNS = ("wall", "CPU", "may take", "memory", "may take", "events", "may be", "cohorts", "x events", "x wake-ups")


class Measured(NamedTuple):
    """What a case took: seconds, megabytes, events of a step, cohorts, and the engine against two loops that do nothing."""

    wall_s: float
    cpu_s: float
    megabytes: float
    events: int
    cohorts: int
    times_events: float | None
    times_wakes: float | None


def inside(case: Case, began_s: float, woken: dict[int, int]) -> Measured:
    """Run a case in this process, which `began_s` ago was not there yet."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "scale.yaml")
        path.write_text(case.text, encoding="utf-8")
        return fold_alone(path, case) if case.is_fold_alone else whole(path, case, began_s, woken)


def wakes(case: Case) -> dict[int, int]:
    """Run a case in this process and return how many of its events woke so many processes."""
    import simpy

    from trnsim.engine import Agenda, Arrival, Engine

    events: Counter[int] = Counter()
    woken_beside = 0

    def resumed(event: simpy.Event) -> int:
        return sum(getattr(callback, "__func__", None) is simpy.Process._resume for callback in event.callbacks)  # noqa: SLF001

    def run_engine(engine: Engine) -> None:
        do_step = engine.environment.step

        def step() -> None:
            nonlocal woken_beside
            woken, woken_beside = resumed(engine.environment._queue[0][-1]), 0  # noqa: SLF001
            do_step()
            events[woken + woken_beside] += 1

        engine.environment.step = step  # type: ignore[method-assign]
        do_run_engine(engine)

    def happen(arrival: Arrival) -> None:
        nonlocal woken_beside
        woken_beside += resumed(arrival)
        do_happen(arrival)

    def run_agenda(agenda: Agenda) -> None:
        before = agenda.events
        do_run_agenda(agenda)
        events[1] += agenda.events - before

    do_run_engine, Engine.run = Engine.run, run_engine  # type: ignore[assignment,method-assign]
    do_run_agenda, Agenda.run = Agenda.run, run_agenda  # type: ignore[assignment,method-assign]
    do_happen, Arrival.happen = Arrival.happen, happen  # type: ignore[assignment,method-assign]
    inside(case, monotonic(), {})
    return dict(events)


def whole(path: Path, case: Case, began_s: float, woken: dict[int, int]) -> Measured:
    """Do what `trnsim run` does."""
    from costs import bare_loop_s, peak_bytes, waking_loop_s

    from trnsim.cli.app import main
    from trnsim.engine import Agenda, Engine

    engine_s, events = 0.0, 0

    def timed(run: Callable[[Any], None]) -> Callable[[Any], None]:
        def run_and_count(engine: Any) -> None:
            nonlocal engine_s, events
            start_s = process_time()
            before = engine.events
            run(engine)
            engine_s += process_time() - start_s
            events += engine.events - before

        return run_and_count

    Engine.run = timed(Engine.run)  # type: ignore[assignment,method-assign]
    Agenda.run = timed(Agenda.run)  # type: ignore[assignment,method-assign]
    answer = path.with_suffix(".json")
    arguments = [part for override in case.overrides for part in ("--set", override)]
    try:
        main(["run", str(path), "--json", str(answer), *arguments])
    except SystemExit as end:
        if end.code:
            raise
    wall_s, cpu_s, megabytes = monotonic() - began_s, process_time(), peak_bytes() / 1e6
    engine = json.loads(answer.read_text(encoding="utf-8"))["engine"]
    times = engine_s / bare_loop_s(events), engine_s / waking_loop_s(woken or {1: events}, engine["cohorts"])
    return Measured(wall_s, cpu_s, megabytes, engine["events"], engine["cohorts"], *times)


def fold_alone(path: Path, case: Case) -> Measured:
    """Sort ranks into cohorts without teams, and do not run them."""
    from costs import peak_bytes

    import trnsim
    from trnsim.simulation.machine import build_machine, build_rates, build_step
    from trnsim.training import Communication, fold, sharing_groups

    scenario = trnsim.load(str(path), case.overrides)
    machine = build_machine(scenario)
    spec = build_step(scenario, machine, build_rates(scenario), folding=True)
    start_s, start_cpu_s = monotonic(), process_time()
    communication = Communication(machine.fabric, spec, scenario.collectives.algorithm_for)
    found = fold(spec, communication, sharing_groups(spec, machine.meeting_tier, machine.blocks))
    wall_s, cpu_s = monotonic() - start_s, process_time() - start_cpu_s
    return Measured(wall_s, cpu_s, peak_bytes() / 1e6, 0, found.colouring.classes, None, None)


def measured(case: Case) -> Measured:
    """Run a case in a process of its own, after another in which wake-ups are counted."""
    woken = {} if case.is_fold_alone else _in_process("--wakes", case.name)
    return Measured(*_in_process("--inside", case.name, str(monotonic()), json.dumps(woken)))


def _in_process(*arguments: str) -> Any:
    command = [sys.executable, __file__, *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def cells(case: Case, found: Measured) -> list[str]:
    """Return what a case took, and what it was to stay below."""
    return [
        f"{found.wall_s:.1f} s",
        f"{found.cpu_s:.1f} s",
        f"{case.wall_s:g} s",
        f"{found.megabytes:.0f} MB",
        f"{case.megabytes:g} MB",
        f"{found.events:,}" if case.events else "",
        f"{case.events:,}" if case.events else "",
        f"{found.cohorts:,}",
        *("" if times is None else f"{times:.1f}" for times in (found.times_events, found.times_wakes)),
    ]


def breaks(case: Case, found: Measured) -> bool:
    """Say whether a case needs more than it may."""
    return found.megabytes > case.megabytes or found.events > (case.events or 0)


def main(arguments: list[str]) -> None:
    """Print one table, and exit with 1 if a case needs more than it may."""
    words = [argument for argument in arguments if argument != "--all"]
    chosen = [
        case
        for case in CASES
        if all(word in case.name for word in words) and ("--all" in arguments or not case.is_long)
    ]
    print(f"| case | {' | '.join(COLUMNS)} |\n|---{'|---:' * len(COLUMNS)}|", flush=True)
    broken = []
    for case in chosen:
        found = measured(case)
        print(f"| {case.name} | {' | '.join(cells(case, found))} |", flush=True)
        if breaks(case, found):
            broken.append(case.name)
    print("\n" + "\n".join(f"broken: {name}" for name in broken) if broken else "\nevery bound holds")
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    if sys.argv[1:2] in (["--inside"], ["--wakes"]):
        asked = next(case for case in CASES if case.name == sys.argv[2])
        if sys.argv[1] == "--wakes":
            print(json.dumps(wakes(asked)))
        else:
            counted = {int(waiting): count for waiting, count in json.loads(sys.argv[4]).items()}
            print(json.dumps(inside(asked, float(sys.argv[3]), counted)))
    else:
        main(sys.argv[1:])
