"""Figures of collectives and networks: what is drawn is what the frames hold."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.patches import FancyArrowPatch

import trnsim
from trnsim.plots.collective import collective_figure
from trnsim.plots.topology import topology_figure
from trnsim.results.topology_facts import picture_frames
from trnsim.simulation.topology import find_topology, topology_picture
from trnsim.study.log_comparison import compare_log

STAR: dict[str, Any] = {"on": "star", "link_bandwidth": "50 GB/s", "link_latency": "250 ns"}
LOG = Path(__file__).parents[1] / "study" / "logs" / "nccl_all_reduce_2x8_h100.txt"


def test_time_bound_and_bandwidth_of_every_size() -> None:
    times = trnsim.collective("all-reduce", ranks=8, sizes="1KiB:1MiB", algorithm="ring", **STAR)
    figure = collective_figure(times.frame(), title="a star")
    time, rate = figure.axes
    assert np.asarray(time.lines[0].get_ydata()).tolist() == pytest.approx([row.time_s * 1e6 for row in times.rows])
    assert np.asarray(time.lines[1].get_ydata()).tolist() == pytest.approx([row.bound_s * 1e6 for row in times.rows])
    busbw = [(row.busbw_bytes_per_s or 0.0) / 1e9 for row in times.rows]
    assert np.asarray(rate.lines[0].get_ydata()).tolist() == pytest.approx(busbw)
    assert (time.get_xscale(), time.get_yscale()) == ("log", "log")


def test_measured_points_are_drawn_by_the_same_convention() -> None:
    # busbw = 2 (16 - 1) / 16 x bytes / time
    comparison = compare_log(str(LOG), "all-reduce", ranks=16, fidelity="closed_form", algorithm="ring", **STAR)
    figure = collective_figure(comparison.times.frame(), title="a log", measured=comparison.frame())
    drawn = np.asarray(figure.axes[1].collections[-1].get_offsets())[:, 1]
    assert drawn.tolist() == pytest.approx([1.875 * row.bytes / row.measured_s / 1e9 for row in comparison.rows])


def test_a_barrier_without_a_size_can_be_drawn() -> None:
    frame = trnsim.collective("barrier", ranks=8, **STAR).frame()
    file = io.BytesIO()
    collective_figure(frame, title="a barrier").savefig(file, format="png")
    assert file.getvalue().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["trn2.48xlarge", "clos-three-tier", "unequal-pods"])
def test_every_node_and_every_edge_is_drawn(name: str) -> None:
    nodes, edges = picture_frames(topology_picture(find_topology(name)))
    (axis,) = topology_figure(nodes, edges, title=name).axes
    assert sum(len(np.asarray(points.get_offsets())) for points in axis.collections) == len(nodes)
    assert sum(isinstance(patch, FancyArrowPatch) for patch in axis.patches) == len(edges)
    assert {text.get_text() for text in axis.texts} == set(nodes["name"])


def test_names_are_left_out_where_they_would_cover_everything() -> None:
    nodes, edges = picture_frames(topology_picture(find_topology("trn2-ultraserver")))
    figure = topology_figure(nodes, edges, title="64 chips")
    assert len(figure.axes[0].texts) == 0
    file = io.BytesIO()
    figure.savefig(file, format="svg")
    assert (
        b"neuronlink-z, 43.5 GB/s" in file.getvalue() or b"64 x chip" in file.getvalue() or len(file.getvalue()) > 1000
    )
