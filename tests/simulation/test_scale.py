"""What a simulation costs is counted in cohorts and events, and does not grow with the number of chips."""

from __future__ import annotations

import subprocess
import sys

import pytest

import trnsim

MICROBATCHES = 64


@pytest.fixture(scope="module")
def results() -> list[trnsim.Result]:
    """Simulate the million-chip scenario on 10, 100 and 6,945 UltraServers with as many microbatches for each replica."""
    return [on_servers(servers, "closed_form") for servers in (10, 100, 6945)]


def on_servers(servers: int, fidelity: str, *more: str) -> trnsim.Result:
    batch = f"training.global_batch={servers * MICROBATCHES}"
    return trnsim.simulate(
        trnsim.load("trn3-million", [f"cluster.servers={servers}", batch, f"run.fidelity={fidelity}", *more])
    )


def test_events_and_cohorts_are_those_of_ten_servers_at_a_million_chips(results: list[trnsim.Result]) -> None:
    # Replicas that sit alike behave alike, and more servers bring no replica that sits otherwise.
    assert [result.cluster.chips for result in results] == [1_440, 14_400, 1_000_080]
    assert len({result.engine.events for result in results}) == 1
    assert len({result.engine.cohorts for result in results}) == 1


def test_events_on_shared_links_are_the_same_where_passes_are() -> None:
    # Skew with scale makes passes longer on more servers, so that other transfers meet; without it nothing else tells sizes apart.
    events = [on_servers(servers, "flow", "run.skew=off").engine.events for servers in (10, 100, 6945)]
    assert len(set(events)) == 1


def test_events_follow_the_depth_of_the_pipeline_and_cohorts(results: list[trnsim.Result]) -> None:
    # A microbatch costs a cohort at most 6 events: forward and backward, a message after each, and a meeting in each
    # where tensor ranks differ. It is simulated until the pipeline is steady, and while it drains: about three times as
    # many microbatches as there are stages. Three cohorts a stage at most: a team, and two tails, as a tensor group of 16
    # chips lies across both racks once.
    for result in results:
        stages = len(result.stages)
        assert result.engine.cohorts <= 3 * stages
        assert 2 * stages < result.engine.events / result.engine.cohorts < 6 * min(MICROBATCHES, 3 * stages)


def test_shared_links_cost_events_only_where_transfers_meet(results: list[trnsim.Result]) -> None:
    # Gradients meet tensor collectives in the last backward pass only: less than 64 events a cohort more.
    alone, shared = results[-1].engine, on_servers(6945, "flow").engine
    assert shared.cohorts == alone.cohorts
    assert 0 < shared.events - alone.events < 64 * alone.cohorts


def test_twice_the_microbatches_cost_no_more_events() -> None:
    # What a steady pipeline does again is not simulated again.
    once, twice = (
        trnsim.simulate(trnsim.load("trn3-ultraserver", ["run.steps=1", f"training.global_batch={2 * count}"])).engine
        for count in (36, 72)
    )
    assert once.cohorts == twice.cohorts == 2 * 9  # a team and a tail for each stage
    assert 0 < once.events == twice.events < 6 * 9 * 36


def test_run_of_a_million_chips_needs_no_table_package() -> None:
    code = (
        "import sys, atexit\n"
        "heavy = {'pandas', 'pyarrow', 'matplotlib', 'numpy', 'joblib', 'IPython'}\n"
        "atexit.register(lambda: print(heavy & set(sys.modules), file=sys.stderr))\n"
        "from trnsim.cli import main; main(['run', 'trn3-million', '--json', '-'])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stderr.splitlines()[-1] == "set()"


def test_the_package_runs_as_a_module() -> None:
    code = [sys.executable, "-m", "trnsim", "list", "chips"]
    assert subprocess.run(code, capture_output=True, text=True, check=True).stdout.startswith("AWS\n  trainium1 ")


def test_a_slow_chip_costs_as_many_events_at_a_million_chips() -> None:
    # Cost follows the exceptions: one slow chip makes the same teams in 10 and in 6,945 UltraServers.
    slow = 'perturbations=[{"name": "slow", "of": "chips", "speed": 0.9, "at": ["server 3/chip 20"]}]'
    found = []
    for servers in (10, 100, 6945):
        batch = f"training.global_batch={servers * MICROBATCHES}"
        overrides = [f"cluster.servers={servers}", batch, "run.fidelity=closed_form", slow]
        found.append(trnsim.simulate(trnsim.load("trn3-million", overrides)).engine)
    assert len({(engine.cohorts, engine.events) for engine in found}) == 1
