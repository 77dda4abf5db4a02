"""What a model costs: shapes and counts, operators of a pipeline stage on one rank, memory by term.

A :class:`Transformer` is a shape, from the catalog, a file or a Hugging Face configuration. A :class:`Shard` says what
one rank takes of it. :func:`stage_blocks` lists what that rank computes, exchanges with its tensor-parallel group and
keeps, without a clock; :func:`pass_memory` adds it up.
"""

from trnsim.workload.blocks import Block, Item, stage_blocks, stage_parameters
from trnsim.workload.huggingface import is_huggingface, parse_huggingface
from trnsim.workload.memory import (
    CROSS_ENTROPY,
    GRADIENT_BYTES,
    STATES,
    WEIGHT_BYTES,
    MemoryTerms,
    Moment,
    PassMemory,
    RankMemory,
    StateBytes,
    pass_memory,
)
from trnsim.workload.model import LatentAttention, Mixture, ShapeError, Transformer, flops_per_token
from trnsim.workload.operators import Exchange, Work
from trnsim.workload.reading import load_model, model_names, read_model
from trnsim.workload.shard import (
    EMBEDDING_OPERATORS,
    HEAD_OPERATORS,
    LAYER_OPERATORS,
    LINEAR_OPERATORS,
    Shard,
    kv_replication,
    padded_vocabulary,
    recomputed_operators,
    refusal,
)
from trnsim.workload.table import ModelTable

__all__ = [
    "CROSS_ENTROPY",
    "EMBEDDING_OPERATORS",
    "GRADIENT_BYTES",
    "HEAD_OPERATORS",
    "LAYER_OPERATORS",
    "LINEAR_OPERATORS",
    "STATES",
    "WEIGHT_BYTES",
    "Block",
    "Exchange",
    "Item",
    "LatentAttention",
    "MemoryTerms",
    "Mixture",
    "ModelTable",
    "Moment",
    "PassMemory",
    "RankMemory",
    "ShapeError",
    "Shard",
    "StateBytes",
    "Transformer",
    "Work",
    "flops_per_token",
    "is_huggingface",
    "kv_replication",
    "load_model",
    "model_names",
    "padded_vocabulary",
    "parse_huggingface",
    "pass_memory",
    "read_model",
    "recomputed_operators",
    "refusal",
    "stage_blocks",
    "stage_parameters",
]
