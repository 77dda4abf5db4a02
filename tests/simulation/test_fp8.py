"""Which matrix products run in fp8, by time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import trnsim

if TYPE_CHECKING:
    from pathlib import Path

TEXT = """\
schema: 1
cluster: {server: trn3-gen2-ultraserver, allow_idle: true}
model: {layers: 2, hidden_size: 4096, attention_heads: 32, ffn_size: 16384, vocabulary: 32000}
training: {sequence_length: 2048, global_batch: 1, recompute: none}
layout: {dp: 1}
run: {skew: off}
"""
BF16, FP8 = 671e12, 2517e12
ATTENTION = 2 * 4 * 2048 * 2048 * 4096 * 3.5  # two layers, forward and 2.5 times backward
LOGITS = 3 * 2 * 2048 * 4096 * 32000
LINEAR = 2 * 3 * 2 * 2048 * (4 * 4096 + 3 * 16384) * 4096


def compute_s(path: Path, *overrides: str) -> float:
    return trnsim.simulate(trnsim.load(path, overrides)).step.breakdown_s.compute


@pytest.fixture
def one_chip(tmp_path: Path) -> Path:
    path = tmp_path / "one.yaml"
    path.write_text(TEXT)
    return path


@pytest.mark.parametrize(
    ("overrides", "seconds_at_the_peak"),
    [
        ((), (ATTENTION + LOGITS + LINEAR) / BF16),
        (("training.precision=fp8",), (ATTENTION + LOGITS + LINEAR) / FP8),
        (("training.precision=fp8", "training.fp8_matmuls=linear"), (ATTENTION + LOGITS) / BF16 + LINEAR / FP8),
        (("training.precision=MXFP8", "training.fp8_matmuls=linear"), (ATTENTION + LOGITS) / BF16 + LINEAR / FP8),
    ],
)
def test_each_matmul_takes_its_flops_over_its_peak(
    one_chip: Path, overrides: tuple[str, ...], seconds_at_the_peak: float
) -> None:
    # bytes hide behind matmuls but for the embedding, which is the same in every precision
    efficiency = trnsim.load(one_chip).cluster.software.gemm_efficiency.value
    embedding_s = compute_s(one_chip) - (ATTENTION + LOGITS + LINEAR) / BF16 / efficiency
    expected = embedding_s + seconds_at_the_peak / efficiency
    assert compute_s(one_chip, *overrides) == pytest.approx(expected, rel=1e-9)


def test_mfu_is_held_against_the_peak_of_the_precision(one_chip: Path) -> None:
    step = trnsim.simulate(trnsim.load(one_chip, ["training.precision=mxfp8"])).step
    assert step.peak_flops_per_s_per_chip == FP8
    assert step.peak == "dense mxfp8 peak of trainium3 as AWS prints it"


def test_operands_in_fp8_need_less_memory(one_chip: Path) -> None:
    whole, narrow = (
        trnsim.simulate(trnsim.load(one_chip, ["training.precision=fp8", f"training.fp8_operands={operands}"]))
        for operands in ("false", "true")
    )
    assert narrow.memory.by_term_bytes.activations < whole.memory.by_term_bytes.activations
    assert narrow.memory.by_term_bytes.weights == whole.memory.by_term_bytes.weights
