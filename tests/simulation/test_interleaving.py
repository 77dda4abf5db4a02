"""Interleaved schedules in whole simulations: the same work, more messages, a smaller bubble, other memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from small import load_small, simulate_small

from trnsim.schedules import schedule_kind, schedule_names
from trnsim.simulation.machine import build_machine, build_rates, build_step
from trnsim.training.stages import pipeline_stages

if TYPE_CHECKING:
    from pathlib import Path

    from trnsim import Result

ALONE = {"run__fidelity": "closed_form", "run__steps": 1}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    """Run 8 layers on 2 stages, 16 microbatches, with every schedule; 2 virtual stages where there can be several."""
    folder = tmp_path_factory.mktemp("small")
    return {name: run(folder, name) for name in schedule_names()}


def run(folder: Path, name: str, **overrides: object) -> Result:
    virtual_stages = 2 if schedule_kind(name).interleaves else 1
    named = {"schedule__kind": name, "schedule__virtual_stages": virtual_stages}
    return simulate_small(folder, **{**ALONE, **named, **overrides})


def test_all_schedules_do_the_same_work(results: dict[str, Result]) -> None:
    # FLOPs that are executed = HFU x time x peak, and what tensor-parallel ranks exchange, do not depend on the order
    flops = {name: result.step.hfu * result.step.time_s for name, result in results.items()}
    assert list(flops.values()) == pytest.approx([flops["1f1b"]] * len(flops), rel=1e-12)
    for result in results.values():
        assert [(stage.layers, stage.parameters) for stage in result.stages] == [
            (stage.layers, stage.parameters) for stage in results["1f1b"].stages
        ]
        uses = {(use.op, use.count * use.bytes) for use in result.collectives if use.axis == "tp"}
        assert uses == {(use.op, use.count * use.bytes) for use in results["1f1b"].collectives if use.axis == "tp"}


def test_interleaving_divides_the_bubble(tmp_path: Path) -> None:
    # A vocabulary of 64 makes the ends of the pipeline almost as light as its middle: v virtual stages leave 1/v of the bubble,
    # but for embedding, head and what messages shift.
    even = {"model__vocabulary": 64, "run__skew": "off", "schedule__kind": "interleaved-1f1b"}
    plain = run(tmp_path, "1f1b", model__vocabulary=64, run__skew="off").step
    for virtual_stages in (2, 4):
        step = run(tmp_path, "interleaved-1f1b", **even, schedule__virtual_stages=virtual_stages).step
        assert step.breakdown_s.bubble == pytest.approx(plain.breakdown_s.bubble / virtual_stages, rel=0.05)
        assert step.time_s < plain.time_s


def test_messages_go_round(results: dict[str, Result]) -> None:
    # A rank of the first stage sends each of 16 microbatches forward once for each of its virtual stages, and back once for
    # all but the first; one of the last stage the other way round.
    for name, result in results.items():
        virtual_stages = 2 if schedule_kind(name).interleaves else 1
        counts = {use.name: use.count for use in result.collectives if use.axis == "pp"}
        is_first = result.step.breakdown_rank < 2  # order tp, pp: ranks 0 and 1 are of stage 0
        many, few = 16 * virtual_stages, 16 * (virtual_stages - 1)
        forward, back = (many, few) if is_first else (few, many)
        due = {
            "send activation": forward,
            "receive gradient": forward,
            "send gradient": back,
            "receive activation": back,
        }
        assert counts == {way: count for way, count in due.items() if count}


def test_memory_follows_what_is_in_flight(results: dict[str, Result]) -> None:
    # 16 microbatches, p = 2, v = 2: stage s holds p - s passes of 1F1B, 2 (p - s - 1) + (v - 1) p + 1 of half the size
    # interleaved, all 16 v breadth-first. The embedding keeps something as well, so the shares are not exact.
    held = {name: [stage.in_flight for stage in result.stages] for name, result in results.items()}
    assert held == {"1f1b": [2, 1], "gpipe": [16, 16], "interleaved-1f1b": [5, 3], "breadth-first": [32, 32]}
    kept = {name: result.stages[0].memory_bytes.activations for name, result in results.items()}
    assert kept["interleaved-1f1b"] == pytest.approx(5 / 2 / 2 * kept["1f1b"], rel=0.1)
    assert kept["breadth-first"] == kept["gpipe"] == 8 * kept["1f1b"]


@pytest.mark.parametrize("name", schedule_names())
def test_events_are_at_most_6_for_each_pass_of_a_virtual_stage(tmp_path: Path, name: str) -> None:
    # A step where stage passes are alone: one event each, one for each message between virtual stages, from the last stage to
    # the first too, and at most 6 p v M in all; without folding, where what repeats is simulated as well.
    shape = {"layout__pp": 4, "layout__dp": 1, "layout__tp": 1, "training__global_batch": 64, "run__folding": "off"}
    result = run(tmp_path, name, **shape)
    virtual_stages = 2 if schedule_kind(name).interleaves else 1
    assert result.engine.cohorts == 4
    passes, messages = 2 * 4 * virtual_stages * 64, 2 * (4 * virtual_stages - 1) * 64
    assert passes + messages < result.engine.events <= 6 * 4 * virtual_stages * 64


def test_buckets_stay_inside_a_virtual_stage(tmp_path: Path) -> None:
    # One bucket would hold a whole stage; with two virtual stages there are two, numbered as backward passes complete them:
    # that of the later virtual stage first.
    shape = {"schedule__kind": "interleaved-1f1b", "schedule__virtual_stages": 2, "training__bucket_parameters": "1e9"}
    scenario = load_small(tmp_path, **shape)
    for stage in pipeline_stages(build_step(scenario, build_machine(scenario), build_rates(scenario), folding=True)):
        early, late = stage.virtual_stages.values()
        assert list(stage.virtual_stages) == [stage.number, stage.number + 2]
        assert [(bucket.number, bucket.blocks) for bucket in late.buckets] == [(0, len(late.blocks))]
        assert [(bucket.number, bucket.blocks) for bucket in early.buckets] == [(1, len(early.blocks))]
        assert sum(bucket.parameters for bucket in (*early.buckets, *late.buckets)) == stage.parameters


@pytest.mark.parametrize("name", ["interleaved-1f1b", "breadth-first"])
def test_sends_beside_the_work_are_no_later(tmp_path: Path, name: str) -> None:
    # stages on different servers, so that messages take EFA
    apart = {
        "cluster__server": "trn2.48xlarge",
        "cluster__servers": 2,
        "layout__tp": 16,
        "layout__dp": 1,
        "layout__pp": 2,
    }
    blocking, overlapped = (run(tmp_path, name, **apart, schedule__sends=sends) for sends in ("blocking", "overlapped"))
    assert overlapped.step.time_s < blocking.step.time_s
    assert overlapped.step.breakdown_s.exposed_pp < blocking.step.breakdown_s.exposed_pp
