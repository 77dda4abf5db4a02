"""How large a machine each fidelity takes; known without loading what computes them."""

MOST_CHUNK_RANKS = 16_384
"""Ranks whose messages are followed one by one."""
