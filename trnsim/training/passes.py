"""Stage passes: the blocks of a stage priced into the activities that its ranks perform."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from trnsim.engine import Activity, Part, seconds
from trnsim.workload import Exchange, Work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from trnsim.engine import Transfer
    from trnsim.training.rates import Rates
    from trnsim.workload import Block

    _Runs = tuple[tuple[str, Sequence[Work | Exchange]], ...]

COMPUTE, RECOMPUTE, SKEW, OVERHEAD, EXPOSED_TP = "compute", "recompute", "skew", "overhead", "exposed_tp"
STRAGGLER_WAIT = "straggler_wait"
HOST_SHARE_OF_RECOMPUTE = {"none": 0.0, "full": 1.0}
HOST_SHARE_OF_PARTIAL_RECOMPUTE = 0.3  # fitted with selective recompute, Megatron-LM on A100


class Bucket(NamedTuple):
    """Gradients that are reduced together.

    Attributes
    ----------
    number
        Its place among all buckets of a rank, in the order in which they are complete.
    parameters
        Their parameters on one rank.
    blocks
        How many blocks they come from.
    """

    number: int
    parameters: int
    blocks: int

    @property
    def name(self) -> str:
        """What it is called in logs and tables."""
        return f"gradients {self.number}"


@dataclass(frozen=True, slots=True)
class StagePasses:
    """What the ranks of one virtual stage compute for one microbatch.

    Attributes
    ----------
    forward, backward
        The whole pass.
    segments
        The same backward pass, cut where a bucket of gradients is complete.
    buckets
        The bucket that each segment completes, in the same order.
    """

    forward: Activity
    backward: Activity
    segments: tuple[Activity, ...]
    buckets: tuple[Bucket, ...]


def gradient_buckets(blocks: Sequence[Block], bucket_parameters: int, first: int = 0) -> tuple[Bucket, ...]:
    """Fill buckets with the gradients of a backward pass, in the order in which they become ready.

    A bucket is closed at the end of the block in which it reaches its size, so gradients of one
    block travel together.

    Parameters
    ----------
    blocks
        Blocks of a virtual stage in forward order.
    bucket_parameters
        Parameters at which a bucket is full. > 0.
    first
        Number of the first bucket.
    """
    buckets: list[Bucket] = []
    parameters = opened = 0
    for number, block in enumerate(reversed(blocks), start=1):
        parameters += block.parameters
        if parameters >= bucket_parameters or number == len(blocks):
            buckets.append(Bucket(first + len(buckets), parameters, number - opened))
            parameters, opened = 0, number
    return tuple(buckets)


def stage_passes(
    blocks: Sequence[Block],
    rates: Rates,
    transfer: Callable[[Exchange], Transfer],
    buckets: Sequence[Bucket],
    recompute: str | frozenset[str],
    *,
    pace: Rates | None = None,
) -> StagePasses:
    """Price the blocks of a virtual stage.

    Parameters
    ----------
    blocks
        Its blocks in forward order.
    rates
        Speed of the rank.
    transfer
        What a tensor-parallel collective is, skew of its ranks included.
    buckets
        Gradient buckets, at whose ends the backward pass can be cut.
    recompute
        Recompute mode, for the host's share of launching it.
    pace
        Speed of the slowest rank of the tensor group, by default this one's. From its first collective on a pass goes at
        that pace, and the group leaves it together; what a faster rank waits is a part of its own.
    """
    host_layers_s = rates.host_layer_s * sum(block.name == "layer" for block in blocks)
    again = HOST_SHARE_OF_RECOMPUTE.get(str(recompute or "none"), HOST_SHARE_OF_PARTIAL_RECOMPUTE)
    forward = _Pricing(transfer, _forward_runs, host_layers_s + rates.host_pass_s, blocks)
    backward = _Pricing(transfer, _backward_runs, host_layers_s * (1 + again) + rates.host_pass_s, blocks[::-1])
    forward_parts, backward_parts = (each.paced(rates, pace or rates) for each in (forward, backward))
    return StagePasses(
        _activity("forward", forward_parts),
        _activity("backward", backward_parts),
        tuple(_activity("backward", run) for run in _cut(backward_parts, [bucket.blocks for bucket in buckets])),
        tuple(buckets),
    )


def _forward_runs(block: Block) -> _Runs:
    return ((COMPUTE, block.forward),)


def _backward_runs(block: Block) -> _Runs:
    return ((RECOMPUTE, block.recompute), (COMPUTE, block.backward))


@dataclass(frozen=True, slots=True)
class _Pricing:
    """One pass over blocks, at whatever speed."""

    transfer: Callable[[Exchange], Transfer]
    runs: Callable[[Block], _Runs]
    host_s: float
    blocks: Sequence[Block]

    def parts(self, rates: Rates) -> list[list[Part]]:
        return _PassPricer(rates, self.transfer, self.runs, self.host_s).parts(self.blocks)

    def paced(self, rates: Rates, pace: Rates) -> list[list[Part]]:
        """Return the parts of a rank whose group waits at each collective for one that has another pace."""
        own = self.parts(rates)
        if pace == rates:
            return own
        blocks = [list(_padded(*pair)) for pair in zip(own, self.parts(pace), strict=True)]
        first = next(index for index, parts in enumerate(own) if any(part.heading == EXPOSED_TP for part in parts))
        head = next(index for index, part in enumerate(own[first]) if part.heading == EXPOSED_TP)
        tail = _padded(own[first][head:], self.parts(pace)[first][head:])
        return [*own[:first], [*own[first][:head], *tail], *blocks[first + 1 :]]


def _padded(own: Sequence[Part], pace: Sequence[Part]) -> Iterator[Part]:
    """Follow each part by the wait for who takes longer; host time that hides in the wait is not booked."""
    for mine, theirs in zip(own, pace, strict=True):
        yield mine if mine.duration_ps <= theirs.duration_ps else theirs
        if waits_ps := max(0, theirs.duration_ps - mine.duration_ps):
            yield Part(f"{mine.name}: slower chips", STRAGGLER_WAIT, seconds(waits_ps))


@dataclass(frozen=True, slots=True)
class _PassPricer:
    """Prices the blocks of one pass; the host lengthens all of them by one ratio."""

    rates: Rates
    transfer: Callable[[Exchange], Transfer]
    runs: Callable[[Block], _Runs]
    host_s: float

    def parts(self, blocks: Sequence[Block]) -> list[list[Part]]:
        """Return the parts of each block: its operators and collectives, then overhead and skew.

        The layers of a stage are one block, many times; it is priced once.
        """
        device = {id(block): (block, list(self._device_parts(block))) for block in blocks}
        lengths_s = {key: sum(part.duration_s for part in parts) for key, (_, parts) in device.items()}
        stretch = self.rates.host_stretch(sum(lengths_s[id(block)] for block in blocks), self.host_s) - 1.0
        whole = {
            key: [*parts, *self._extra_parts(block.name, lengths_s[key], stretch)]
            for key, (block, parts) in device.items()
        }
        return [whole[id(block)] for block in blocks]

    def _device_parts(self, block: Block) -> Iterator[Part]:
        for heading, items in self.runs(block):
            work = [item for item in items if isinstance(item, Work)]
            for is_work, run in groupby(items, key=lambda item: isinstance(item, Work)):
                if is_work:
                    members = [item for item in run if isinstance(item, Work)]
                    yield Part(f"{block.name} {heading}", heading, self.rates.work_s(members))
                else:
                    for item in run:
                        if isinstance(item, Exchange):
                            yield self._exchange_part(f"{block.name} {item.op} {item.name}", item)
            yield Part(f"{block.name} memory traffic", heading, self.rates.exposed_memory_s(work))

    def _exchange_part(self, name: str, exchange: Exchange) -> Part:
        transfer = self.transfer(exchange)
        return Part(name, EXPOSED_TP, transfer.duration_s, transfer.busy_s)

    def _extra_parts(self, name: str, device_s: float, stretch: float) -> Iterator[Part]:
        overhead_s = device_s * stretch
        if overhead_s:
            yield Part(f"{name} host launch", OVERHEAD, overhead_s)
        if self.rates.scale_skew_fraction:
            yield Part(f"{name} skew", SKEW, (device_s + overhead_s) * self.rates.scale_skew_fraction)


def _cut(parts: Sequence[list[Part]], lengths: Sequence[int]) -> Iterator[Sequence[list[Part]]]:
    start = 0
    for length in lengths:
        yield parts[start : start + length]
        start += length


def _activity(name: str, blocks: Sequence[list[Part]]) -> Activity:
    kept = tuple(part for parts in blocks for part in parts if part.duration_s)
    meeting = next((number for number, part in enumerate(kept) if part.heading == EXPOSED_TP), None)
    return Activity(name, kept, meeting)
