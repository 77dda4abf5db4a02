"""What a run found: the records, the JSON document, the tables and the trace. It adds no physics and knows no training."""

from trnsim.results.columns import TABLES, Column
from trnsim.results.document import json_text, to_dict
from trnsim.results.records import (
    Assumptions,
    Breakdown,
    ClusterFacts,
    CollectiveUse,
    EngineFacts,
    ErrorBand,
    LinkUse,
    Memory,
    MemoryTerms,
    ModelFacts,
    PerturbationCost,
    Provenance,
    StageFacts,
    Step,
    Tier,
    WaterfallLine,
)
from trnsim.results.result import Result
from trnsim.results.summary import summary_text
from trnsim.results.tables import csv_text, frame_of
from trnsim.results.timeline import Slice, Timeline, Track
from trnsim.results.trace import trace_document, trace_notice, trace_text
from trnsim.results.waterfall import PART_NAMES, waterfall

__all__ = [
    "PART_NAMES",
    "TABLES",
    "Assumptions",
    "Breakdown",
    "ClusterFacts",
    "CollectiveUse",
    "Column",
    "EngineFacts",
    "ErrorBand",
    "LinkUse",
    "Memory",
    "MemoryTerms",
    "ModelFacts",
    "PerturbationCost",
    "Provenance",
    "Result",
    "Slice",
    "StageFacts",
    "Step",
    "Tier",
    "Timeline",
    "Track",
    "WaterfallLine",
    "csv_text",
    "frame_of",
    "json_text",
    "summary_text",
    "to_dict",
    "trace_document",
    "trace_notice",
    "trace_text",
    "waterfall",
]
