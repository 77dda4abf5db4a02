"""Files of topologies/ have one of three forms, and one that is not wanted is refused with those that are."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

import numpy as np
import pytest

from trnsim.documents import names
from trnsim.errors import InputError
from trnsim.hardware import every_value, load_server
from trnsim.hardware import names as catalog_names
from trnsim.topology import cluster_topology, load_fabric
from trnsim.topology.cluster_network import cluster_network
from trnsim.topology.forms import Form, topology_names
from trnsim.topology.network_files import load_graph, load_network, server_of

if TYPE_CHECKING:
    from pathlib import Path


def test_every_file_has_one_form() -> None:
    assert sorted(name for form in get_args(Form) for name in topology_names(form)) == list(names("topologies"))


@pytest.mark.parametrize("name", topology_names("graph"))
def test_every_value_of_every_graph_has_its_source(name: str) -> None:
    # chips, one number per sort of switches, perhaps reduces; bandwidth, latency and achieved fraction of each kind
    spec = load_graph(name)
    values = list(every_value(spec))
    assert len(values) == 1 + len(spec.switches) + (spec.reduces is not None) + 3 * len(spec.kinds)
    assert all(value.source and value.read and value.kind for _, value in values)


@pytest.mark.parametrize("name", topology_names("server"))
def test_a_topology_with_the_name_of_a_server_is_that_server(name: str) -> None:
    assert server_of(name).name == name
    network, catalog = load_network(name), cluster_network(cluster_topology(load_server(name), 1, None))
    assert network.counts() == catalog.counts()
    np.testing.assert_array_equal(network.bytes_per_s, catalog.bytes_per_s)


def test_every_server_with_several_chips_has_a_topology() -> None:
    several = [name for name in catalog_names("servers") if load_server(name).chips > 1]
    assert set(several) <= set(names("topologies"))
    assert set(topology_names("server")) <= set(several)


def test_a_server_of_the_user(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("description: d\nserver: trn2.48xlarge\n")
    assert load_network("mine.yaml", relative_to=tmp_path).endpoints == 16
    path.write_text("description: d\nserver: trn2.48xlarge\nservers: 4\n")
    with pytest.raises(InputError, match="servers"):
        load_network(str(path))


def test_a_graph_is_no_fabric() -> None:
    with pytest.raises(InputError, match=r"a graph, where a fabric is due: .*ultracluster, ultracluster-2to1"):
        load_fabric("dgx-h100")


def test_a_server_is_no_fabric() -> None:
    with pytest.raises(InputError, match="a server, where a fabric is due"):
        load_fabric("trn2-ultraserver")


def test_a_fabric_is_no_graph() -> None:
    with pytest.raises(InputError, match="a fabric, where a graph is due: clos-three-tier"):
        load_network("ultracluster")


def test_a_file_of_no_form_is_told_what_it_lacks(tmp_path: Path) -> None:
    path = tmp_path / "empty.yaml"
    path.write_text("description: d\n")
    with pytest.raises(InputError, match="tiers"):
        load_fabric(str(path))
