"""What single messages can be followed through, ``run.fidelity: chunk``, and what can be replayed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsim.fabric.limits import MOST_CHUNK_RANKS
from trnsim.scenario.rules.perturbations import strikes_links
from trnsim.scenario.rules.ranks import RANK_KEYS, ranks_of
from trnsim.scenario.rules.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnsim.errors import Problem
    from trnsim.scenario.draft import Draft

__all__ = ["RULES"]


def messages_can_be_followed(draft: Draft) -> Iterator[Problem]:
    """Rule 22: single messages are followed on machines of limited size."""
    ranks = ranks_of(draft)
    if draft.file.run.fidelity != "chunk" or ranks is None or ranks.used is None or ranks.used <= MOST_CHUNK_RANKS:
        return
    message = (
        f"{ranks.replica_text} x dp {ranks.dp:,} = {ranks.used:,} ranks, and chunk follows the messages of up to "
        f"{MOST_CHUNK_RANKS:,}; use flow, or dp {MOST_CHUNK_RANKS // ranks.replica:,}"
    )
    if ranks.replica > MOST_CHUNK_RANKS:
        message = message.rpartition(",")[0]
    yield draft.document.problem("run.fidelity", message)


def nothing_is_folded(draft: Draft) -> Iterator[Problem]:
    """With chunk every rank is simulated, so there is no fold to be verified."""
    if draft.file.run.fidelity == "chunk" and draft.file.run.folding == "verify":
        message = "chunk follows every rank by itself, and there is no fold to verify; leave it out"
        yield draft.document.problem("run.folding", message)


def links_are_whole(draft: Draft) -> Iterator[Problem]:
    """With chunk no link is degraded or failed: the routes of single messages do not know of it."""
    if draft.file.run.fidelity == "chunk":
        for key in strikes_links(draft):
            message = "chunk follows messages over links that are whole; use flow, or slow chips only"
            yield draft.document.problem(f"{key}.of", message)


def collectives_are_alone(draft: Draft) -> Iterator[Problem]:
    """With chunk no tensor-parallel collective goes on beside a matmul: which message waits for which part is not known."""
    if draft.file.run.fidelity == "chunk" and draft.file.training.tensor_parallel_overlap == "ring":
        message = "chunk does not follow the messages of a ring beside a matmul; use flow, or none"
        yield draft.document.problem("training.tensor_parallel_overlap", message)


def passes_can_be_replayed(draft: Draft) -> Iterator[Problem]:
    """Replays are of what is folded: single ranks and single messages go by events."""
    run = draft.file.run
    if run.engine == "replay" and (run.fidelity == "chunk" or run.folding == "off"):
        because = "fidelity chunk follows single messages" if run.fidelity == "chunk" else "folding off runs every rank"
        message = f"{because}, and nothing of that is replayed; use auto or events"
        yield draft.document.problem("run.engine", message)


RULES = (
    Rule(("run.engine", "run.fidelity", "run.folding"), passes_can_be_replayed),
    Rule(("run.fidelity", "training.tensor_parallel_overlap"), collectives_are_alone),
    Rule(("run.fidelity", *RANK_KEYS), messages_can_be_followed),
    Rule(("run.fidelity", "run.folding"), nothing_is_folded),
    Rule(("run.fidelity", "perturbations", "cluster.server", "cluster.servers", "cluster.fabric"), links_are_whole),
)
