"""The records, the JSON document and the waterfall of a result."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from itertools import pairwise

import pytest
from fakes import PARTS, fake_result
from hypothesis import given
from hypothesis import strategies as st

from trnsim.results import Breakdown, json_text, waterfall

BREAKDOWN_KEYS = [
    "compute",
    "recompute",
    "skew",
    "overhead",
    "exposed_tp",
    "exposed_cp",
    "exposed_ep",
    "exposed_pp",
    "exposed_dp",
    "straggler_wait",
    "bubble",
    "optimizer",
]


def test_document_holds_the_promised_keys_in_order() -> None:
    # The contract of the JSON of a run: these keys, spelled so, in every document.
    document = fake_result().to_dict()
    assert list(document)[:8] == [
        "name",
        "provenance",
        "cluster",
        "step",
        "memory",
        "collectives",
        "links",
        "engine",
    ]
    assert list(document["provenance"]) == ["trnsim", "scenario_sha256", "seed", "fingerprint"]
    assert {"server", "servers", "chips", "ranks"} <= document["cluster"].keys()
    step_keys = (
        "time_s first_step_time_s tokens tokens_per_s sequences_per_s mfu mfu_causal hfu peak_flops_per_s_per_chip peak "
        "flops_rule error_band breakdown_s"
    )
    assert set(step_keys.split()) <= document["step"].keys()
    assert list(document["step"]["breakdown_s"]) == BREAKDOWN_KEYS
    assert list(document["memory"]) == ["limit_bytes", "worst_rank", "worst_stage", "bytes", "by_term_bytes"]
    terms = ["weights", "gradients", "optimizer", "activations", "communication", "buffers"]
    assert list(document["memory"]["by_term_bytes"]) == terms
    collective_keys = (
        "name op axis algorithm group_size bytes count time_s algbw_bytes_per_s busbw_bytes_per_s exposed_s"
    )
    assert list(document["collectives"][0]) == collective_keys.split()
    assert list(document["links"][0]) == ["name", "kind", "count", "bytes", "utilization_fraction"]
    assert list(document["engine"]) == ["ranks", "cohorts", "processes", "events", "folding", "engine"]


def test_document_is_plain_and_survives_json() -> None:
    # Reading the text back gives the document: only dictionaries, lists, numbers, text and null are in it.
    document = fake_result().to_dict()
    assert json.loads(json_text(document)) == document


def test_document_leaves_the_timeline_out() -> None:
    assert "timeline" not in fake_result().to_dict()


def test_document_has_the_same_bytes_whatever_the_hash_seed() -> None:
    # Same result, same bytes: PYTHONHASHSEED reorders sets, so no set may reach the document.
    code = (
        "from fakes import fake_result; from trnsim.results import json_text; print(json_text(fake_result().to_dict()))"
    )
    texts = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": "tests"},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1")
    ]
    assert texts[0] == texts[1]


def test_json_refuses_what_json_cannot_say() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_text({"time_s": math.inf})


def test_parts_sum_to_the_step() -> None:
    # Each instant belongs to one part: 5 + 1 + 0.25 + 0.75 + 0.5 + 0.25 + 2 + 0.25 = 10.
    assert PARTS.total_s == 10.0


def test_waterfall_closed_form() -> None:
    # peak 1; matmuls lose C/T (1 - e) = 0.8 x 0.5; the bubble loses 0.2; the rest is what lies between and the MFU.
    lines = waterfall(parts=Breakdown(compute=8.0, bubble=2.0), gemm_efficiency=0.5, mfu=0.3)
    assert [line.loss_fraction for line in lines] == pytest.approx([0.0, 0.4, 0.2, 0.1])
    assert [line.left_fraction for line in lines] == pytest.approx([1.0, 0.6, 0.4, 0.3])


@given(
    times_s=st.lists(st.floats(0.0, 100.0), min_size=12, max_size=12).filter(lambda times: sum(times) > 1e-3),
    gemm_efficiency=st.floats(0.05, 1.0),
    mfu=st.floats(0.0, 1.0),
)
def test_waterfall_accounts_for_everything(times_s: list[float], gemm_efficiency: float, mfu: float) -> None:
    # 1 - sum of losses = MFU, and each line leaves what the one before left less its own loss.
    lines = waterfall(
        parts=Breakdown(**dict(zip(BREAKDOWN_KEYS, times_s, strict=True))), gemm_efficiency=gemm_efficiency, mfu=mfu
    )
    assert 1.0 - sum(line.loss_fraction for line in lines) == pytest.approx(mfu, abs=1e-9)
    for before, after in pairwise(lines):
        assert after.left_fraction == pytest.approx(before.left_fraction - after.loss_fraction, abs=1e-12)


def test_waterfall_of_no_time_is_refused() -> None:
    with pytest.raises(ValueError, match="positive time"):
        waterfall(parts=Breakdown(), gemm_efficiency=0.5, mfu=0.0)


def test_records_need_no_heavy_package() -> None:
    # A run without tables loads neither pandas nor numpy: they are imported inside the functions that make frames.
    code = (
        "import sys; from fakes import fake_result; from trnsim.results import csv_text, trace_text; r = fake_result();"
        "r.summary(); r._repr_html_(); csv_text(r, 'step'); trace_text(r);"
        "print({'numpy', 'pandas', 'matplotlib', 'rich', 'click'} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": "tests"}, capture_output=True, check=True)
    assert run.stdout.decode().strip() == "set()"
