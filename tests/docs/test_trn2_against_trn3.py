"""What docs/trn2-against-trn3.md says in words about its tables."""

from __future__ import annotations

import math

import pytest
import trn3_over_trn2 as chips


@pytest.mark.parametrize("precision", chips.PRECISIONS)
def test_factors_multiply_to_the_ratio(precision: str) -> None:
    assert math.prod(chips.factors(precision)) == pytest.approx(chips.speedup(precision), rel=1e-12)


@pytest.mark.parametrize("precision", chips.PRECISIONS)
def test_peak_counts_less_than_the_ratio_of_peaks_and_hbm_next_to_nothing(precision: str) -> None:
    trn2, trn3 = (chips.load(name, precision).cluster.server.chip for name in ("trn2-cluster", "trn3-cluster"))
    ratio = trn3.peak_flops_per_s[precision].value / trn2.peak_flops_per_s[precision].value
    peak, hbm, _, _ = chips.factors(precision)
    assert 1 < peak < ratio
    assert 1 < hbm < 1.001


@pytest.mark.parametrize("precision", chips.PRECISIONS)
def test_hosts_cost_what_the_skew_law_says_or_a_little_less(precision: str) -> None:
    # every stage pass is longer by 1 + j log2(hosts); what is no pass, optimizer and exposed dp, is not
    trn2, trn3 = (chips.load(name, precision).cluster for name in ("trn2-cluster", "trn3-cluster"))
    skew = trn3.software.scale_skew_fraction.value
    law = (1 + skew * math.log2(trn2.hosts)) / (1 + skew * math.log2(trn3.hosts))
    assert (trn2.hosts, trn3.hosts) == (576, 2304)
    assert law <= chips.factors(precision)[3] < law + 0.002


def test_links_weigh_more_where_compute_is_shorter() -> None:
    assert chips.factors("fp8")[2] > chips.factors("bf16")[2] > 1


@pytest.mark.parametrize("cluster", ["trn2-cluster", "trn3-cluster"])
def test_exposed_tp_takes_the_same_seconds_in_both_precisions(cluster: str) -> None:
    bf16, fp8 = (chips.simulate(cluster, precision).step.breakdown_s for precision in chips.PRECISIONS)
    assert bf16.exposed_tp == pytest.approx(fp8.exposed_tp, rel=1e-9)


@pytest.mark.parametrize("precision", chips.PRECISIONS)
@pytest.mark.parametrize("cluster", ["trn2-cluster", "trn3-cluster"])
def test_bubble_is_about_the_passes_of_the_other_stages(cluster: str, precision: str) -> None:
    # (p - 1) microbatches of the m that the stage works on
    scenario, parts = chips.load(cluster, precision), chips.simulate(cluster, precision).step.breakdown_s
    passes = parts.compute + parts.recompute + parts.skew + parts.exposed_tp
    theory = passes * (scenario.layout.pp - 1) / scenario.microbatches
    assert parts.bubble == pytest.approx(theory, rel=0.2)


def test_both_families_reach_the_same_share_of_the_peak() -> None:
    trn2, trn3 = (chips.load(name, "bf16").cluster.software for name in ("trn2-cluster", "trn3-cluster"))
    assert trn2.gemm_efficiency.value == trn3.gemm_efficiency.value
    assert trn3.gemm_efficiency.kind == "assumed"
