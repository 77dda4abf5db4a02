"""How data-parallel ranks share what they hold of a model, and when they exchange it."""

from __future__ import annotations

from trnsim.record import Record


class Sharding(Record):
    """The data-parallel side of a layout.

    Parameters
    ----------
    zero
        What the ranks of a sharing group share: nothing (0), the optimizer states (1), the gradients too (2), the
        weights too (3, also called FSDP).
    ranks
        Data-parallel ranks. >= 1.
    group
        Consecutive ones of them that share: a divisor of `ranks`. Fewer than all is hybrid sharding: such groups hold
        the same.
    overlap
        What travels beside the passes: ``none``; gradient ``buckets``, beside the backward pass; with ``prefetch`` the
        weights too, ahead of the blocks that need them.
    prefetch
        Buckets whose weights are gathered ahead under ZeRO-3. >= 1.
    reshard_after_forward
        Whether weights that ZeRO-3 gathered are dropped after the forward pass and gathered again for the backward
        pass, or kept until the update.
    gradient_bytes, reduce_bytes
        Bytes of one gradient as it is kept, and as it travels.

    References
    ----------
    Rajbhandari et al., "ZeRO", 2019, arXiv:1910.02054. Zhao et al., "PyTorch FSDP", 2023, arXiv:2304.11277.

    Examples
    --------
    >>> hybrid = Sharding(3, ranks=64, group=16, overlap="prefetch")
    >>> hybrid.weight_shards, hybrid.copies, Sharding(1, ranks=64, group=64).gradient_shards
    (16, 4, 1)
    """

    zero: int
    ranks: int
    group: int
    overlap: str = "none"
    prefetch: int = 1
    reshard_after_forward: bool = True
    gradient_bytes: int = 4
    reduce_bytes: int = 4

    @property
    def copies(self) -> int:
        """Sharing groups that hold the same."""
        return self.ranks // self.group

    @property
    def optimizer_shards(self) -> int:
        """Ranks that share the optimizer states."""
        return self.group if self.zero >= 1 else 1

    @property
    def gradient_shards(self) -> int:
        """Ranks that share the gradients."""
        return self.group if self.zero >= 2 else 1

    @property
    def weight_shards(self) -> int:
        """Ranks that share the weights."""
        return self.group if self.zero == 3 else 1

    @property
    def reduce_op(self) -> str:
        """The collective that sums gradients over a sharing group."""
        return "reduce-scatter" if self.zero else "all-reduce"

    @property
    def gathers_ahead(self) -> int:
        """Buckets of weights that ZeRO-3 gathers before their turn."""
        return self.prefetch if self.overlap == "prefetch" else 0

    @property
    def gathers_in_passes(self) -> bool:
        """Whether weights are gathered while passes go on, and not after the update."""
        return self.zero == 3 or (self.zero > 0 and self.overlap == "prefetch")

    def reductions_a_step(self, microbatches: int) -> int:
        """Count how often the gradients of a bucket travel: shared ones with every microbatch."""
        return microbatches if self.zero >= 2 else 1

    def gathers_a_step(self, microbatches: int) -> int:
        """Count how often the weights of a bucket are gathered.

        Examples
        --------
        >>> kept = Sharding(3, ranks=8, group=8, reshard_after_forward=False)
        >>> Sharding(3, ranks=8, group=8).gathers_a_step(4), kept.gathers_a_step(4), Sharding(1, 8, 8).gathers_a_step(4)
        (8, 1, 1)
        """
        if self.zero == 3 and self.reshard_after_forward:
            return 2 * microbatches
        return 1 if self.zero else 0
