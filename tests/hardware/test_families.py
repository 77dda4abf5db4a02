"""The software families: what was fitted, on what, and how far that goes."""

from __future__ import annotations

import pytest

from trnsim.hardware import every_value, family_for, load_chip, load_family, names


def test_each_chip_names_a_family_that_describes_it() -> None:
    for name in names("chips"):
        assert name in family_for(load_chip(name)).chips


def test_trn1_is_fitted_on_seven_rows() -> None:
    family = load_family("neuron-trn1")
    efficiency, skew, jitter = family.gemm_efficiency, family.collective_skew_s, family.scale_skew_fraction
    assert (efficiency.value, efficiency.kind) == (0.754, "inferred")
    # +- 10 % and +- 72 %
    assert (efficiency.low, efficiency.high) == pytest.approx((0.754 * 0.9, 0.754 * 1.1), rel=1e-3)
    assert skew.value == pytest.approx(107e-6, rel=1e-12)
    assert (skew.low, skew.high) == pytest.approx((107e-6 * 0.28, 107e-6 * 1.72), rel=2e-3)
    assert (jitter.value, jitter.kind) == (0.014, "assumed")
    assert (family.measured_rows, family.recompute_fitted, family.byte_term) == (7, "full", "hidden")
    assert family.host_layer_s.value == family.host_pass_s.value == 0.0
    assert family.memory_efficiency.value == 0.80
    assert {regime: error.value for regime, error in family.errors.items()} == {"general": 0.103}


def test_trn2_rests_on_one_row_and_has_no_error_to_state() -> None:
    family, first = load_family("neuron-trn2"), load_family("neuron-trn1")
    efficiency = family.gemm_efficiency
    assert (efficiency.low, efficiency.value, efficiency.high) == (0.258, 0.344, first.gemm_efficiency.value)
    assert efficiency.kind == "inferred"
    assert family.measured_rows == 1
    assert family.errors == {}
    assert family.collective_skew_s.value == first.collective_skew_s.value
    assert family.collective_skew_s.kind == family.scale_skew_fraction.kind == "assumed"


def test_trn3_takes_trn2s_values_and_assumes_all_of_them() -> None:
    family, second = load_family("neuron-trn3"), load_family("neuron-trn2")
    values, origin = dict(every_value(family)), dict(every_value(second))
    assert {value.kind for value in values.values()} == {"assumed"}
    assert {name for name in values if values[name].value != origin[name].value} == {"measured_rows"}
    assert family.measured_rows == 0


@pytest.mark.parametrize(
    ("name", "efficiency", "recompute"),
    [("neuron-trn1@selective", 0.551, "selective"), ("neuron-trn2@no-recompute", 0.258, "none")],
)
def test_the_unpublished_recompute_mode_is_a_variant(name: str, efficiency: float, recompute: str) -> None:
    family = load_family(name)
    assert (family.gemm_efficiency.value, family.recompute_fitted) == (efficiency, recompute)
    assert family.name == name
