"""The machine: logical cores, instances, fabric, peaks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsim.scenario.rules.rule import Rule, one_of
from trnsim.topology.forms import topology_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnsim.errors import Problem
    from trnsim.scenario.draft import Draft

__all__ = ["RULES"]


def lnc_exists(draft: Draft) -> Iterator[Problem]:
    """Rule 16: a Trainium chip has some logical-core configurations, and a job has one of them; other chips have none."""
    if draft.server is None:
        return
    chip = draft.server.chip
    if chip.neuron_cores is None and draft.file.cluster.lnc is not None:
        yield draft.document.problem("cluster.lnc", f"{chip.name} has no NeuronCores; leave the key out")
    elif chip.neuron_cores is not None and draft.lnc not in chip.neuron_cores.lnc:
        yield draft.document.problem("cluster.lnc", f"{chip.name} has LNC {one_of(chip.neuron_cores.lnc)}")


def chip_is_divided_into_ranks(draft: Draft) -> Iterator[Problem]:
    """Rule 16: only the NeuronCores of a Trainium chip are ranks of their own."""
    if draft.server is not None and draft.server.chip.neuron_cores is None and draft.file.layout.rank != "chip":
        message = f"{draft.server.chip.name} has no logical cores; each chip is one rank: chip"
        yield draft.document.problem("layout.rank", message)


def neurons_rules_are_for_neuron(draft: Draft) -> Iterator[Problem]:
    """Neuron chooses algorithms by size on Trainium only."""
    if (
        draft.server is not None
        and draft.server.chip.neuron_cores is None
        and draft.file.collectives.policy == "neuron"
    ):
        message = f"Neuron does not run on {draft.server.chip.name}; choose fastest"
        yield draft.document.problem("collectives.policy", message)


def the_way_to_the_host_is_known(draft: Draft) -> Iterator[Problem]:
    """States of the optimizer can stay with the host where the catalog knows how they get there."""
    if draft.file.training.optimizer_offload and draft.server and draft.server.host_bandwidth_bytes_per_s is None:
        message = f"the catalog has no host_bandwidth of {draft.server.name}, so nothing can be left with its host"
        yield draft.document.problem("training.optimizer_offload", message)


def servers_can_be_several(draft: Draft) -> Iterator[Problem]:
    """Rule 17: a server without scale-out links (EFA) is alone."""
    if draft.server is not None and draft.server.scale_out is None and draft.file.cluster.servers > 1:
        message = f"{draft.server.name} has no EFA and no collectives between instances; 1 is the only number"
        yield draft.document.problem("cluster.servers", message)


def fabric_joins_servers(draft: Draft) -> Iterator[Problem]:
    """Several servers need a fabric, and one whose tiers hold all their chips."""
    cluster, server = draft.file.cluster, draft.server
    if cluster.servers == 1 or server is None or server.scale_out is None:
        return
    if draft.fabric is None:
        message = (
            f"missing; {cluster.servers:,} servers need a fabric: {', '.join(topology_names('fabric'))}, or a path"
        )
        yield draft.document.problem("cluster.fabric", message, value=None)
        return
    problem = draft.fabric.problem(server.chips, cluster.servers)
    if problem is not None:
        yield draft.document.problem(problem.key, problem.message)


def peak_is_known(draft: Draft) -> Iterator[Problem]:
    """Rule 21: MFU needs the dense peak of the run's dtype."""
    precision = draft.file.training.precision
    if draft.server is not None and precision not in draft.server.chip.peak_flops_per_s:
        chip = draft.server.chip
        message = f"{chip.name} has no dense peak for it; it has {', '.join(sorted(chip.peak_flops_per_s))}"
        yield draft.document.problem("training.precision", message)


def tensor_engine_peak_is_known(draft: Draft) -> Iterator[Problem]:
    """Rule 21, where MFU is asked for against the tensor engines alone."""
    precision, file = draft.file.training.precision, draft.file
    if draft.server is None or file.run.mfu_peak == "chip":
        return
    chip = draft.server.chip
    if precision not in chip.tensor_engine_flops_per_s:
        known = ", ".join(sorted(chip.tensor_engine_flops_per_s)) or "none"
        message = f"{chip.name} has no peak of its tensor engines for {precision}; it has {known}; use chip"
        yield draft.document.problem("run.mfu_peak", message)


RULES = (
    Rule(("cluster.server", "cluster.lnc"), lnc_exists),
    Rule(("cluster.server", "layout.rank"), chip_is_divided_into_ranks),
    Rule(("cluster.server", "collectives.policy"), neurons_rules_are_for_neuron),
    Rule(("cluster.server", "cluster.servers"), servers_can_be_several),
    Rule(("cluster.server", "cluster.servers", "cluster.fabric"), fabric_joins_servers),
    Rule(("cluster.server", "training.optimizer_offload"), the_way_to_the_host_is_known),
    Rule(("cluster.server", "training.precision"), peak_is_known),
    Rule(("cluster.server", "training.precision", "run.mfu_peak"), tensor_engine_peak_is_known),
)
