"""Run the scenarios that ship with trnsim; write their answers and fingerprints: `python tests/scenarios/update.py "why"`.

Each file gets its `# Answer:` line, and fingerprints.yaml one entry; only an entry that changed takes the new reason.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ruamel.yaml import YAML

import trnsim

if TYPE_CHECKING:
    from trnsim import Result
    from trnsim.results import ErrorBand

REPOSITORY = Path(__file__).parents[2]
SCENARIOS = REPOSITORY / "scenarios"
FINGERPRINTS = Path(__file__).with_name("fingerprints.yaml")
ANSWER = re.compile(r"^# Answer: (.*)$", re.MULTILINE)
HEAD = """\
# What each scenario gives, and why it last changed. Written by update.py, held by test_scenarios.py.
"""


def names() -> list[str]:
    """Return the names of the scenarios, sorted."""
    return sorted(path.stem for path in SCENARIOS.glob("*.yaml"))


def answer(result: Result, precision: str) -> str:
    """Return what a result answers, as the header of its scenario has it."""
    step = result.step
    return (
        f"{step.time_s:.4g} s a step, {short(step.tokens_per_s)} tokens/s, {100 * step.mfu:.1f} % MFU ({precision}); "
        f"{error(step.error_band)}"
    )


def short(value: float) -> str:
    """Write a number with four digits and a prefix.

    >>> short(143_645.2), short(21.46e6), short(7_318.0)
    ('143.6 k', '21.46 M', '7.318 k')
    """
    scale, prefix = next((s, p) for s, p in ((1e9, " G"), (1e6, " M"), (1e3, " k"), (1.0, "")) if value >= s)
    return f"{value / scale:.4g}{prefix}"


def error(band: ErrorBand) -> str:
    """Write the error band, or that there is none."""
    if band.kind == "no measurement":
        return band.kind
    return f"error band {band.low_s:.3g} to {band.high_s:.3g} s"


def numbers(result: Result) -> dict[str, Any]:
    """Return the numbers of a result that are held."""
    return {"fingerprint": result.provenance.fingerprint, "step_s": result.step.time_s, "mfu": result.step.mfu}


def read_entries() -> dict[str, dict[str, Any]]:
    """Return the entries of fingerprints.yaml by scenario."""
    return YAML(typ="safe").load(FINGERPRINTS) or {} if FINGERPRINTS.exists() else {}


def write_entries(entries: dict[str, dict[str, Any]]) -> None:
    """Write fingerprints.yaml."""
    blocks = [
        f"{name}:\n" + "".join(f"  {key}: {json.dumps(value)}\n" for key, value in entry.items())
        for name, entry in entries.items()
    ]
    FINGERPRINTS.write_text("\n".join([HEAD, *blocks]), encoding="utf-8")


def main(why: str) -> None:
    """Run every scenario and rewrite what it says."""
    before, after = read_entries(), {}
    for name in names():
        scenario = trnsim.load(SCENARIOS / f"{name}.yaml")
        result = trnsim.simulate(scenario)
        text = scenario.source.read_text(encoding="utf-8")
        line = f"# Answer: {answer(result, scenario.training.precision)}"
        scenario.source.write_text(ANSWER.sub(line, text, count=1), encoding="utf-8")
        entry = before.get(name, {})
        same = {**entry, **numbers(result)} == entry
        after[name] = entry if same else {**numbers(result), "why": why}
        sys.stdout.write(f"{name:<24}{'same' if same else 'changed'}\n")
    write_entries(after)


if __name__ == "__main__":
    if len(sys.argv) != len(("update.py", "why")):
        sys.exit('usage: python tests/scenarios/update.py "why the numbers change"')
    main(sys.argv[1])
