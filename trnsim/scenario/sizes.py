"""Sizes that no model has: refused before anything is counted with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from trnsim.workload import Transformer

__all__ = ["absurd_size"]

_MOST: Final = {
    "layers": 10_000,
    **dict.fromkeys(
        ("hidden_size", "attention_heads", "kv_heads", "head_dim", "ffn_size", "vocabulary", "learned_positions"),
        1_000_000_000,
    ),
}


def absurd_size(model: Transformer) -> str | None:
    """Say which size of a model is beyond every model that anybody trains; ``None`` where none is.

    Examples
    --------
    >>> from msgspec.structs import replace
    >>> from trnsim.workload import load_model
    >>> model = load_model("llama3-8b")
    >>> absurd_size(model), absurd_size(replace(model, layers=32_000))
    (None, 'layers of Llama 3 8B are 32,000, and at most 10,000 can be simulated')
    """
    for size, most in _MOST.items():
        if getattr(model, size) > most:
            return f"{size} of {model.name} are {getattr(model, size):,}, and at most {most:,} can be simulated"
    return None
