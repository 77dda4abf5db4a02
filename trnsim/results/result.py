"""What one run found.

``simulation`` fills a :class:`Result`; everything that shows one (the terminal summary, the JSON document, the tables,
the trace) reads it from here and adds no physics of its own.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003  (part of the public annotations)
from typing import TYPE_CHECKING, Any

from trnsim.record import Record
from trnsim.results.records import (  # noqa: TC001  (part of the public annotations)
    Assumptions,
    ClusterFacts,
    CollectiveUse,
    EngineFacts,
    LinkUse,
    Memory,
    ModelFacts,
    PerturbationCost,
    Provenance,
    StageFacts,
    Step,
    Tier,
    WaterfallLine,
)
from trnsim.results.timeline import Timeline

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Result"]


class Result(Record):
    """What one run found.

    Parameters
    ----------
    name
        Name of the scenario.
    provenance, cluster, step, memory, collectives, links, engine, model
        See their types. Links come busiest first.
    stages, tiers, waterfall
        The pipeline stages, the network kinds that each axis crosses, and the way from peak to achieved.
    assumptions
        How much rests on inferred or assumed numbers.
    derived, defaults
        What trnsim worked out, and what it took because the scenario did not say; key to text.
    warnings
        What is legal but deserves a look.
    perturbations
        What each perturbation of the scenario costs.
    timeline
        What a trace shows; not part of the JSON document.
    """

    name: str
    provenance: Provenance
    cluster: ClusterFacts
    step: Step
    memory: Memory
    collectives: tuple[CollectiveUse, ...]
    links: tuple[LinkUse, ...]
    engine: EngineFacts
    model: ModelFacts
    stages: tuple[StageFacts, ...]
    tiers: tuple[Tier, ...]
    waterfall: tuple[WaterfallLine, ...]
    assumptions: Assumptions
    derived: Mapping[str, str]
    defaults: Mapping[str, str]
    warnings: tuple[str, ...]
    perturbations: tuple[PerturbationCost, ...] = ()
    timeline: Timeline = Timeline()

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document of the run as plain dictionaries, lists, numbers and text."""
        from trnsim.results.document import to_dict

        return to_dict(self)

    def summary(self) -> str:
        """Return the run on one screen, as plain text of at most 50 lines and 110 columns."""
        from trnsim.results.summary import summary_text

        return summary_text(self)

    def table(self, name: str) -> pd.DataFrame:
        """Return one table as a tidy frame.

        Parameters
        ----------
        name
            A key of :data:`trnsim.results.TABLES`: step, breakdown, waterfall, memory, stages, collectives, links, tiers.

        Raises
        ------
        KeyError
            If there is no such table; the message lists them.
        """
        from trnsim.results.tables import frame

        return frame(self, name)

    def _repr_html_(self) -> str:
        from trnsim.results.html import html_table

        return html_table(self)
