"""Rules by which software chooses algorithms, instead of by the predicted time."""

from __future__ import annotations

__all__ = ["neuron_algorithm"]

_MESH_BELOW_BYTES = 10**6
_RING_ABOVE_BYTES = 56 * 10**6


def neuron_algorithm(size_bytes: float) -> str:
    """Return the algorithm that Neuron's rules name for a buffer inside a server.

    References
    ----------
    AWS Neuron SDK documentation, Intra-node collective communications, read 2026-11-30: mesh below 1 MB, recursive
    doubling and halving up to 56 MB, KangaRing above

    Examples
    --------
    >>> [neuron_algorithm(size) for size in (999_999, 1_000_000, 56_000_000, 56_000_001)]
    ['direct', 'recursive-halving-doubling', 'recursive-halving-doubling', 'kangaring']
    """
    if size_bytes < _MESH_BELOW_BYTES:
        return "direct"
    return "recursive-halving-doubling" if size_bytes <= _RING_ABOVE_BYTES else "kangaring"
