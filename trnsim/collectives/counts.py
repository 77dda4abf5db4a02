"""What a collective must move, whatever the algorithm."""

from __future__ import annotations

__all__ = ["busbw_factor"]


def busbw_factor(op: str, ranks: int) -> float:
    r"""Return bus bandwidth over algorithm bandwidth, the convention of nccl-tests and nccom-test.

    .. math:: f = 2\frac{N-1}{N} \text{ (all-reduce)}, \quad
              f = \frac{N-1}{N} \text{ (all-gather, reduce-scatter, all-to-all)}, \quad f = 1 \text{ (others)}

    Parameters
    ----------
    op
        Canonical name of the operation, as `op_names` lists it.
    ranks
        :math:`N`, members of the group. >= 1.

    Raises
    ------
    ValueError
        If `ranks` is below 1.

    References
    ----------
    NVIDIA nccl-tests, doc/PERFORMANCE.md

    Examples
    --------
    >>> busbw_factor("all-reduce", 8), busbw_factor("all-gather", 8), busbw_factor("send-recv", 8)
    (1.75, 0.875, 1.0)
    """
    if ranks < 1:
        raise ValueError(f"a group has at least one member, not {ranks}")
    passes = {"all-reduce": 2, "all-gather": 1, "reduce-scatter": 1, "all-to-all": 1}
    return passes[op] * (ranks - 1) / ranks if op in passes else 1.0
