"""Whole steps on GPUs and TPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import trnsim
from trnsim import documents
from trnsim.errors import InputError
from trnsim.hardware import load_family, load_server, names
from trnsim.topology.forms import form_of
from trnsim.topology.network_files import load_graph

if TYPE_CHECKING:
    from pathlib import Path

OTHERS = [name for name in names("servers") if load_server(name).chip.neuron_cores is None]
FABRICS = {"a100": "infiniband-hdr", "nvl72": "infiniband-nvl72", "tpu": "tpu-dcn"}
TEXT = """\
schema: 1
cluster: {{server: {server}, servers: 2, fabric: {fabric}}}
model: {{layers: 2, hidden_size: 1024, attention_heads: 8, kv_heads: 2, ffn_size: 4096, vocabulary: 32000}}
training: {{sequence_length: 2048, global_batch: {batch}}}
layout: {{tp: 4, pp: 2}}
"""


@pytest.fixture
def two_servers(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    server = request.param
    fabric = next((fabric for word, fabric in FABRICS.items() if word in server), "infiniband-ndr")
    path = tmp_path / "two.yaml"
    path.write_text(TEXT.format(server=server, fabric=fabric, batch=load_server(server).chips))
    return path


@pytest.mark.parametrize("two_servers", OTHERS, indirect=True)
def test_every_server_runs_and_folding_changes_nothing(two_servers: Path) -> None:
    # folded == unfolded, with one fingerprint; the parts sum to the step
    scenario = trnsim.load(two_servers)
    folded = trnsim.simulate(scenario)
    assert folded.step.breakdown_s.total_s == pytest.approx(folded.step.time_s, abs=1e-11)
    assert folded.cluster.lnc is None
    if scenario.ranks <= 32:
        plain = trnsim.simulate(trnsim.load(two_servers, ["run.folding=off"]))
        assert plain.provenance.fingerprint == folded.provenance.fingerprint


def test_a_ring_over_the_gpus_of_a_node() -> None:
    # 2 (n-1) steps of S/(2n) each way at once on a chip's link: 2 (n-1)/n S / B; two links of latency a step
    link = load_server("dgx-h100").scale_up.switch  # type: ignore[union-attr] # a star
    (row,) = trnsim.collective(
        "all-reduce", on="dgx-h100", servers=2, fabric="infiniband-ndr", ranks=8, sizes="1GiB", algorithm="ring"
    ).rows
    expected = 14 * (2**30 / 8 / link.effective_bytes_per_s + 2 * link.latency_s.value)
    assert row.time_s == pytest.approx(expected, rel=1e-6)


def test_a_graph_and_the_server_of_its_name_are_one_machine() -> None:
    # law: whichever description is taken, chips, rate and latency are the same, and so is the time of a ring
    both = [name for name in documents.names("topologies") if name in names("servers") and _is_graph(name)]
    assert both == ["dgx-h100", "dgx-h200", "nvl72"]
    for name in both:
        graph, server = load_graph(name), load_server(name)
        link, (kind,) = server.scale_up.switch, graph.kinds.values()  # type: ignore[union-attr] # a star
        assert graph.network().endpoints == server.chips
        assert set(graph.network().bytes_per_s) == {round(link.effective_bytes_per_s)}
        assert kind.achieved_fraction.value == link.achieved_fraction.value
        for end in ("low", "value", "high"):
            assert getattr(kind.latency_s, end) == getattr(link.latency_s, end)
        assert _ring_s(name, 1, None) == pytest.approx(_ring_s(name, 2, "infiniband-ndr"), rel=1e-6)


def _ring_s(name: str, servers: int, fabric: str | None) -> list[float]:
    """Return the times of rings over the chips of one server, alone or among others."""
    chips, sizes = load_server(name).chips, [2**20, 2**30]
    found = trnsim.collective(
        "all-reduce", on=name, servers=servers, fabric=fabric, ranks=chips, sizes=sizes, algorithm="ring"
    )
    return [row.time_s for row in found.rows]


def _is_graph(name: str) -> bool:
    return form_of(documents.read_document(documents.locate("topologies", name))) == "graph"


def test_a_server_of_gpus_names_no_fabric_by_itself() -> None:
    # EFA is Trainium's: several DGX need the name of a fabric
    with pytest.raises(InputError, match="due for several dgx-a100: infiniband-hdr"):
        trnsim.collective("all-reduce", on="dgx-a100", servers=2)


def test_chips_of_a_slice_keep_in_step_and_slices_do_not(tmp_path: Path) -> None:
    # 8 chips are two hosts and one slice: pass x (1 + j log2(slices)), and not of hosts
    path = tmp_path / "slices.yaml"
    path.write_text(TEXT.format(server="tpu-v6e-16x16@2x4", fabric="tpu-dcn", batch=64))
    share = load_family("maxtext-v6e").scale_skew_fraction.value
    assert share > 0
    for servers, doublings in ((1, 0), (2, 1), (4, 2)):
        scenario = trnsim.load(path, [f"cluster.servers={servers}", "run.fidelity=closed_form"])
        parts = trnsim.simulate(scenario).step.breakdown_s
        passes_s = parts.compute + parts.recompute + parts.exposed_tp
        assert parts.skew == pytest.approx(share * doublings * passes_s, rel=1e-6)
