"""What a whole run takes beside the bare imports of the packages that it needs; reported, never gated.

    python benchmarks/startup.py [NAME ...]

All processes take turns, nine times, so that whatever else the machine does falls on each of them; medians are printed.
The two yardsticks: an import of each package by its name, and of every module of theirs that a run has loaded at its end.
"""

from __future__ import annotations

import subprocess
import sys
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median
from time import perf_counter

from scenarios import PACKAGES, bare_imports

TURNS = 9
SCENARIOS = ("llama3.1-405b-trn3", "trn3-million")


def main(names: list[str]) -> None:
    """Let the processes take turns, and print one table."""
    subprocess.run([sys.executable, "-m", "compileall", "-q", "trnsim"], check=True)
    by_name = ", ".join("ruamel.yaml" if package == "ruamel" else package for package in PACKAGES)
    packages, modules = "packages, imported by name", "packages, every module used"
    processes = {
        packages: ["-c", f"import {by_name}"],
        modules: ["-c", bare_imports(names[0])],
        "trnsim --help": ["-m", "trnsim", "--help"],
        **{f"trnsim run {name}": ["-m", "trnsim", "run", name] for name in names},
    }
    taken: dict[str, list[tuple[float, float]]] = {title: [] for title in processes}
    for _ in range(TURNS):
        for title, arguments in processes.items():
            taken[title].append(seconds(arguments))
    wall_s = {title: median(wall for wall, _ in turns) for title, turns in taken.items()}
    cpu_s = {title: median(cpu for _, cpu in turns) for title, turns in taken.items()}
    print(f"{'':<34}{'wall':>10}{'processor':>12}{'x packages':>12}{'x modules':>12}")
    for title, cpu in cpu_s.items():
        shares = f"{cpu / cpu_s[packages]:>12.2f}{cpu / cpu_s[modules]:>12.2f}"
        print(f"{title:<34}{wall_s[title]:>8.2f} s{cpu:>10.2f} s{shares}")


def seconds(arguments: list[str]) -> tuple[float, float]:
    """Return what a Python process takes on the clock, and of the processor."""
    start_s, before = perf_counter(), getrusage(RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    after = getrusage(RUSAGE_CHILDREN)
    return perf_counter() - start_s, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main(sys.argv[1:] or list(SCENARIOS))
