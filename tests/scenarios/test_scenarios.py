"""Every scenario that ships with trnsim runs, says so in its header, and gives what it gave before."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

import trnsim

UPDATE = runpy.run_path(str(Path(__file__).with_name("update.py")))
FOLDER: Path = UPDATE["SCENARIOS"]
NAMES: list[str] = UPDATE["names"]()
RERUN = 'if the change is meant: python tests/scenarios/update.py "why"'

NEARLY_FULL = {
    "llama3.1-405b-h100": "memory of stage 1 is 95% of its limit; measured runs this full are 20 to 45 % slow",
}
THE_STEP_IS_LARGE = "one step has 444,480 x 8,192 = 3.64 G tokens; few trainings go beyond 100 M"


@pytest.mark.parametrize("name", NAMES)
def test_gives_what_its_header_and_the_fingerprints_say(name: str) -> None:
    # The trajectories of all ranks hash to the recorded fingerprint, and the Answer line has the numbers of this run.
    scenario = trnsim.load(name)
    result = trnsim.simulate(scenario)
    text = (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")
    assert UPDATE["ANSWER"].findall(text) == [UPDATE["answer"](result, scenario.training.precision)], RERUN
    entry = UPDATE["read_entries"]()[name]
    assert entry["fingerprint"] == result.provenance.fingerprint, RERUN
    assert (entry["step_s"], entry["mfu"]) == pytest.approx((result.step.time_s, result.step.mfu), rel=1e-9), RERUN
    chips = result.cluster.chips  # D16: the skew is marked where no run as large was measured
    beyond = (f"skew with scale is extrapolated: {chips:,} chips, measured up to 12,288 accelerators",)
    large_step = (THE_STEP_IS_LARGE,) if name.startswith("trn3-million") else ()
    nearly_full = (NEARLY_FULL[name],) if name in NEARLY_FULL else ()
    assert result.warnings == (*large_step, *nearly_full, *(beyond if chips > 12_288 else ()))
    # One screen shows everything that was derived and every default.
    summary = " ".join(result.summary().split())
    shown = [f"{key}: {text}" for key, text in result.derived.items()]
    shown += [f"{key.rpartition('.')[2]} {text}" for key, text in result.defaults.items()]
    assert scenario.perturbations or [fact for fact in shown if fact not in summary] == []
    assert all(f"{each.name}: {each.struck} struck" in summary for each in result.perturbations)


def test_every_scenario_and_no_other_has_a_fingerprint_and_a_reason() -> None:
    entries = UPDATE["read_entries"]()
    assert sorted(entries) == NAMES
    assert all(entry["why"] for entry in entries.values())


@pytest.mark.parametrize("name", NAMES)
def test_header_has_question_answer_and_source(name: str) -> None:
    # The comment at the top: one question, one answer, one source, in this order, each with something to say.
    header = (FOLDER / f"{name}.yaml").read_text(encoding="utf-8").partition("schema: 1")[0].splitlines()
    assert all(line.startswith("# ") for line in header)
    words = [line.split()[1] for line in header if not line.startswith("#  ")]
    assert words == ["Question:", "Answer:", "Source:"]
    assert all(len(line.split()) > 2 for line in header if not line.startswith("#  "))
    assert header[0].endswith("?") or "? (with " in header[0]


@pytest.mark.parametrize("name", NAMES)
def test_no_chip_idles_and_the_batch_splits_into_microbatches(name: str) -> None:
    # Ranks = servers x chips x ranks a chip: nothing idles; the batch splits into whole microbatches.
    scenario = trnsim.load(name)
    assert scenario.ranks == scenario.cluster.chips * scenario.ranks_per_chip
    assert scenario.microbatches * scenario.layout.dp * scenario.training.micro_batch == scenario.training.global_batch
