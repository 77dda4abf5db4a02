"""Laws of the whole simulation, on small machines."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from small import json_of_small, load_small, simulate_small

import trnsim
from trnsim.documents import data_folder
from trnsim.errors import InputError
from trnsim.parallel import split_layers
from trnsim.results import json_text
from trnsim.schedules import interleaved_names, schedule_kind, schedule_names

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("small")


SERVERS = {  # server: (chips, logical cores of a chip)
    "trn3-gen2-ultraserver": (144, 4),
    "trn2-ultraserver": (64, 4),
    "trn2.48xlarge": (16, 4),
    "trn1.32xlarge": (16, 2),
}


@pytest.fixture(scope="session")
def small_switches(folder: Path) -> Path:
    """Write a fabric of 20-port switches, the lowest 3:1 oversubscribed: 15 chips a switch group, out of step with any server."""
    text = (data_folder("topologies") / "ultracluster.yaml").read_text(encoding="utf-8")
    path = folder / "small-switches.yaml"
    path.write_text(text.replace("value: 128", "value: 20").replace("value: 1\n", "value: 3\n", 1), encoding="utf-8")
    return path


@settings(max_examples=40)
@given(
    server=st.sampled_from(list(SERVERS)),
    rank=st.sampled_from(["chip", "logical_core"]),
    order=st.permutations(["tp", "dp", "pp"]),
    tp=st.sampled_from([1, 2, 4, 8, 16]),
    pp=st.integers(1, 8),
    dp=st.integers(1, 12),
    microbatches=st.integers(1, 4),
    kind=st.sampled_from(schedule_names()),
    virtual_stages=st.integers(2, 3),
    sends=st.sampled_from(["blocking", "overlapped"]),
    zero=st.integers(0, 3),
    sharing=st.sampled_from([1, 1, 2, 3]),
    overlap=st.sampled_from(["none", "buckets", "prefetch"]),
    prefetch=st.integers(1, 3),
    reshard=st.sampled_from(["true", "false"]),
    tied=st.sampled_from(["true", "false"]),
    recompute=st.sampled_from(["none", "selective", "full"]),
    ring=st.sampled_from(["none", "ring"]),
    algorithm=st.sampled_from(["auto", "ring", "direct", "hierarchical", "recursive-halving-doubling"]),
    is_small=st.booleans(),
)
def test_folding_changes_nothing(
    folder: Path,
    small_switches: Path,
    server: str,
    rank: str,
    order: list[str],
    tp: int,
    pp: int,
    dp: int,
    microbatches: int,
    kind: str,
    virtual_stages: int,
    sends: str,
    zero: int,
    sharing: int,
    overlap: str,
    prefetch: int,
    reshard: str,
    tied: str,
    recompute: str,
    ring: str,
    algorithm: str,
    is_small: bool,
) -> None:
    # Law (D4): one process per colour gives every rank the trajectory that one process per rank gives:
    # one fingerprint, one step time, one breakdown. Groups straddle sleds, racks,
    # instances, servers and switch groups here.
    interleaves = schedule_kind(kind).interleaves
    pp = min(max(2, pp), 10 // virtual_stages) if interleaves else pp
    virtual_stages = virtual_stages if interleaves else 1
    microbatches = microbatches * pp if kind == "interleaved-1f1b" else microbatches
    ranks = tp * pp * dp
    chips, cores = SERVERS[server]
    per_server = chips * (cores if rank == "logical_core" else 1)
    assume(ranks <= 200)
    overrides = {
        "cluster__server": server,
        "cluster__servers": max(1, -(-ranks // per_server)),
        "layout__rank": rank,
        "layout__order": [order[0], "cp", *order[1:]],
        "layout__tp": tp,
        "layout__pp": pp,
        "layout__dp": dp,
        "layout__zero": zero,
        "layout__zero_group": dp // sharing if dp % sharing == 0 and dp // sharing > 1 else "all",
        "layout__reshard_after_forward": reshard,
        "training__prefetch": prefetch,
        "training__global_batch": microbatches * dp,
        "training__data_parallel_overlap": overlap,
        "training__recompute": recompute,
        "training__tensor_parallel_overlap": ring,
        "model__tied_embeddings": tied,
        "schedule__kind": kind,
        "schedule__virtual_stages": virtual_stages,
        "schedule__sends": sends,
        "layout__stages": even_split(8, pp * virtual_stages),
        "collectives__algorithm": algorithm,
        "cluster__fabric": small_switches if is_small else "ultracluster",
    }
    try:
        folded = simulate_small(folder, **overrides)
    except InputError:  # an instance takes only some numbers of cores (rule 15)
        assume(False)
    off = simulate_small(folder, **overrides, run__folding="off")
    assert off.engine.cohorts == ranks
    assert folded.engine.cohorts <= ranks
    assert folded.provenance.fingerprint == off.provenance.fingerprint
    assert folded.step == off.step
    assert folded.links == off.links


@pytest.mark.parametrize("algorithm", ["recursive-halving-doubling", "direct", "hierarchical"])
def test_switch_groups_that_end_inside_a_server_tell_replicas_apart(
    folder: Path, small_switches: Path, algorithm: str
) -> None:
    # Replicas of 24 ranks on servers of 16 chips and switch groups of 15: an exchange between distant members of a
    # tensor group turns round in a tier that its neighbours in the ring do not show.
    overrides = {
        "cluster__server": "trn2.48xlarge",
        "cluster__servers": 12,
        "cluster__fabric": small_switches,
        "layout__order": ["pp", "tp", "cp", "dp"],
        "layout__tp": 8,
        "layout__pp": 3,
        "layout__dp": 8,
        "collectives__algorithm": algorithm,
    }
    folded = simulate_small(folder, **overrides)
    off = simulate_small(folder, **overrides, run__folding="off")
    assert folded.provenance.fingerprint == off.provenance.fingerprint
    assert (folded.step, folded.links) == (off.step, off.links)


@pytest.mark.parametrize(
    ("servers", "dp", "group", "layout"), [(24, 24, 4, {"tp": 8, "pp": 2}), (12, 48, 6, {"tp": 4, "pp": 1})]
)
def test_groups_that_share_fold_by_how_they_lie(
    folder: Path, small_switches: Path, servers: int, dp: int, group: int, layout: dict[str, int]
) -> None:
    # Hybrid sharding over switch groups of 15 chips, out of step with servers of 16: groups of one size differ in the
    # tiers at which their members meet, inside and across.
    overrides = {
        "cluster__server": "trn2.48xlarge",
        "cluster__servers": servers,
        "cluster__fabric": small_switches,
        "layout__dp": dp,
        "layout__zero": 3,
        "layout__zero_group": group,
        "training__global_batch": dp,
        "collectives__algorithm": "direct",
        "run__steps": 1,
        **{f"layout__{axis}": size for axis, size in layout.items()},
    }
    folded = simulate_small(folder, **overrides)
    off = simulate_small(folder, **overrides, run__folding="off")
    assert folded.engine.cohorts < off.engine.cohorts
    assert folded.provenance.fingerprint == off.provenance.fingerprint
    assert (folded.step, folded.links) == (off.step, off.links)


def test_folding_really_folds(folder: Path) -> None:
    # 2 stages x 2 tensor ranks x 36 replicas on one UltraServer: what differs is the stage, not the rank. Each has a team
    # and a tail, or with ZeRO-2, whose ranks are folded without, one cohort.
    for zero, cohorts in ((1, 4), (2, 2)):
        result = simulate_small(folder, layout__dp=36, training__global_batch=72, layout__zero=zero)
        assert result.engine.ranks == 144
        assert result.engine.cohorts == cohorts


def even_split(layers: int, stages: int) -> list[int]:
    """Split layers; ends without any if there are too few."""
    if stages <= layers:
        return list(split_layers(layers, stages))
    return [0, *split_layers(layers, stages - 2), 0]


@pytest.mark.parametrize("kind", schedule_names())
def test_64_more_microbatches_add_exactly_64_slots(folder: Path, kind: str) -> None:
    # Beyond the fill, a step grows by the same slot per microbatch: T(128) - T(64) = 64 slots, to the picosecond.
    virtual_stages = 2 if kind in interleaved_names() else 1
    alone = {"schedule__kind": kind, "schedule__virtual_stages": virtual_stages, "run__fidelity": "closed_form"}
    ends = [
        round(simulate_small(folder, training__global_batch=4 * m, **alone).step.time_s * 1e12) for m in (64, 96, 128)
    ]
    assert ends[2] - ends[1] == ends[1] - ends[0]
    assert (ends[2] - ends[0]) % 64 == 0


def test_shared_links_lengthen_a_step(folder: Path) -> None:
    # Gradient buckets leave while tensor collectives run over the same links of a sled: both get slower, so the step
    # is longer than with every transfer alone on its links, and by less than all that travels.
    parts = {}
    for fidelity in ("closed_form", "flow"):
        step = simulate_small(folder, layout__pp=1, layout__dp=8, run__fidelity=fidelity).step
        parts[fidelity] = (step.time_s, step.breakdown_s.exposed_tp + step.breakdown_s.exposed_dp)
    longer_s = parts["flow"][0] - parts["closed_form"][0]
    assert 0 < longer_s < parts["closed_form"][1]
    assert parts["flow"][1] - parts["closed_form"][1] == pytest.approx(longer_s, rel=1e-6)


def test_parts_sum_to_the_step(folder: Path) -> None:
    # Each instant of the rank that finishes last belongs to one part: the sum is exact in picoseconds.
    for overrides in ({}, {"layout__pp": 4}, {"layout__tp": 8, "run__steps": 3}, {"run__steps": 1}):
        step = simulate_small(folder, **overrides).step
        parts = step.breakdown_s.parts().values()
        assert sum(round(part * 1e12) for part in parts) == round(step.time_s * 1e12)


def test_one_slow_layer_split_lengthens_the_step_by_what_theory_says(folder: Path) -> None:
    # The last stage (it has the head) sets the beat: T = F_0 + m (F_1 + B_1) + B_0 + sends. One layer moved from the
    # first stage to the last adds m layers there and saves one in the fill: 15 layers for 16 microbatches.
    alone = {"run__skew": "off", "run__fidelity": "closed_form"}
    even = simulate_small(folder, **alone)
    uneven = simulate_small(folder, **alone, layout__stages=[3, 5])
    before, after = even.stages[0], uneven.stages[0]
    layer_s = before.forward_s + before.backward_s - after.forward_s - after.backward_s
    pipeline_s = [
        result.step.time_s - result.step.breakdown_s.optimizer - result.step.breakdown_s.exposed_dp
        for result in (even, uneven)
    ]
    assert pipeline_s[1] - pipeline_s[0] == pytest.approx(15 * layer_s, rel=1e-6)


def test_skew_multiplies_passes(folder: Path) -> None:
    # D16: pass x (1 + j log2(hosts)); 16 chips are 4 sleds (hosts): log2 = 2. Skew is that share of compute and exposed tp.
    alone = {"cluster__software": "neuron-trn3", "run__fidelity": "closed_form"}
    step = simulate_small(folder, layout__pp=1, layout__dp=8, **alone).step
    parts = step.breakdown_s
    passes_s = parts.compute + parts.recompute + parts.exposed_tp
    assert parts.skew == pytest.approx(0.014 * 2 * passes_s, rel=1e-6)
    assert simulate_small(folder, run__skew="off").step.breakdown_s.skew == 0


def test_a_group_of_one_sends_nothing(folder: Path) -> None:
    # Rule 11: no transfer, no time, not listed.
    result = simulate_small(folder, layout__tp=1, layout__pp=1, layout__dp=1)
    assert result.collectives == ()
    assert result.tiers == ()
    assert result.step.breakdown_s.parts().keys() >= {"exposed_tp"}
    assert sum(v for k, v in result.step.breakdown_s.parts().items() if k.startswith("exposed")) == 0


def test_mfu_is_the_palm_rule(folder: Path) -> None:
    # tokens/s x (6 N + 12 L h s) / (chips x peak): computed by hand for the small GPT. N: matmul parameters,
    # output projection in: 8 x (4 h^2 + 2 h f) + V h.
    scenario = load_small(folder)
    result = trnsim.simulate(scenario)
    matmul = 8 * (4 * 1024**2 + 2 * 1024 * 4096) + 4096 * 1024
    per_token = 6 * matmul + 12 * 8 * 1024 * 512
    assert result.step.mfu == pytest.approx(result.step.tokens_per_s * per_token / (144 * 671e12), rel=1e-12)
    assert result.step.tokens == 64 * 512


def test_data_parallelism_halves_the_work_of_a_replica(folder: Path) -> None:
    # At a fixed global batch, twice the replicas do half the microbatches: compute halves exactly.
    one, two = (simulate_small(folder, layout__pp=1, layout__dp=dp, run__skew="off").step.breakdown_s for dp in (4, 8))
    assert two.compute == pytest.approx(one.compute / 2, rel=1e-9)


def test_json_does_not_depend_on_hash_seeds(folder: Path) -> None:
    # The same bytes from processes with PYTHONHASHSEED 0 and 1.
    first, second = (json_of_small(folder, hash_seed=seed) for seed in ("0", "1"))
    assert first == second
    assert json.loads(first) == json.loads(json_text(trnsim.simulate(load_small(folder)).to_dict()))


def test_mfu_against_the_tensor_engines_alone(folder: Path) -> None:
    # The same step against 632 instead of 671 TFLOP/s: MFU and HFU grow by 671/632, the time does not change.
    chip, engines = (simulate_small(folder, run__mfu_peak=peak).step for peak in ("chip", "tensor-engine"))
    assert engines.time_s == chip.time_s
    assert engines.mfu / chip.mfu == pytest.approx(671 / 632)
    assert engines.hfu / chip.hfu == pytest.approx(671 / 632)
    assert "tensor engines of trainium3" in engines.peak


def test_logical_cores_of_half_the_size_share_the_core_links(folder: Path) -> None:
    # 4 ranks a chip at LNC 2, 8 at LNC 1: a logical core of one physical core moves half the bytes in the same time.
    two, one = (
        simulate_small(
            folder, cluster__lnc=lnc, layout__rank="logical_core", layout__tp=2, layout__pp=1, run__skew="off"
        )
        for lnc in (2, 1)
    )
    times_s = [
        next(use.time_s for use in run.collectives if use.op == "all-gather" and use.axis == "tp") for run in (two, one)
    ]
    latency_s = 1.07e-6
    assert (times_s[1] - latency_s) / (times_s[0] - latency_s) == pytest.approx(2, rel=0.01)


def test_skew_beyond_the_largest_measured_run_is_marked(folder: Path) -> None:
    # D16: extrapolated above 12,288 accelerators; without skew there is nothing to mark.
    large = {"cluster__servers": 100, "layout__dp": 3600, "training__global_batch": 3600, "run__steps": 1}
    assert any("extrapolated: 14,400 chips" in warning for warning in simulate_small(folder, **large).warnings)
    assert not any("extrapolated" in w for w in simulate_small(folder, **large, run__skew="off").warnings)


def test_a_family_fitted_under_another_recompute_mode_says_so(folder: Path) -> None:
    full = simulate_small(folder, training__recompute="full").step.error_band.source
    none = simulate_small(folder, training__recompute="none").step.error_band.source
    assert "fitted under full recompute" in none
    assert "fitted under" not in full


def test_a_run_longer_than_the_clock_is_refused(folder: Path, tmp_path: Path) -> None:
    # 2^63 ps are 107 days: a chip slow enough, and the sentence instead of an overflow.
    text = (data_folder("topologies") / "ultracluster.yaml").read_text(encoding="utf-8")
    path = tmp_path / "far-away.yaml"
    path.write_text(text.replace("latency: {value: 0 s", "latency: {value: 1e8 s"), encoding="utf-8")
    with pytest.raises(InputError, match=r"2\^63 ps|latency"):
        simulate_small(folder, cluster__fabric=path, cluster__servers=2, layout__dp=72, training__global_batch=144)


def test_neurons_policy_goes_by_size_inside_servers(folder: Path) -> None:
    # Neuron's rules: mesh below 1 MB, recursive halving and doubling to 56 MB, above it KangaRing, for which no two
    # ranks sit on a chip here, so the ring.
    result = simulate_small(folder, collectives__policy="neuron")
    due = {
        (use.bytes < 10**6 and "direct") or (use.bytes <= 56 * 10**6 and "recursive-halving-doubling") or "ring"
        for use in result.collectives
        if use.axis == "tp"
    }
    assert {use.algorithm for use in result.collectives if use.axis == "tp"} == due


@pytest.mark.parametrize(("algorithm", "lacking"), [("kangaring", "on each chip"), ("in-network", "a switch")])
def test_an_algorithm_that_a_group_cannot_have_is_an_input_error(folder: Path, algorithm: str, lacking: str) -> None:
    with pytest.raises(InputError, match=rf"collectives.algorithm = {algorithm} .*{lacking}.*leave it out") as error:
        simulate_small(folder, collectives__algorithm=algorithm)
    assert error.value.exit_code == 2
