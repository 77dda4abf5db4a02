"""Stage passes: the blocks of a stage priced into the activities that its ranks perform."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from trnsim.engine import Activity, Part, Transfer, seconds
from trnsim.record import Record
from trnsim.workload import Exchange, Work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from trnsim.parallel import Sharding
    from trnsim.training.rates import Rates
    from trnsim.workload import Block, Item

    _Runs = tuple[tuple[str, Sequence[Work | Exchange], bool], ...]
    """Heading, what runs, and whether it makes gradients."""

COMPUTE, RECOMPUTE, SKEW, OVERHEAD, EXPOSED_TP = "compute", "recompute", "skew", "overhead", "exposed_tp"
STRAGGLER_WAIT = "straggler_wait"
HOST_SHARE_OF_RECOMPUTE = {"none": 0.0, "full": 1.0}
HOST_SHARE_OF_PARTIAL_RECOMPUTE = 0.3  # fitted with selective recompute, Megatron-LM on A100


class Bucket(NamedTuple):
    """Parameters whose gradients are reduced together, and whose weights are gathered together.

    Attributes
    ----------
    number
        Its place among all buckets of a rank, in the order in which they are complete.
    parameters
        How many they are on one rank.
    blocks
        How many blocks they belong to.
    """

    number: int
    parameters: int
    blocks: int


class StagePasses(Record):
    """What the ranks of one virtual stage compute for one microbatch.

    Attributes
    ----------
    forward, backward
        The whole pass.
    forward_segments
        The same forward pass, cut where it comes to the weights of another bucket.
    segments
        The same backward pass, cut where a bucket of gradients is complete.
    buckets
        Numbers of the buckets that the segments complete, in the same order; the forward pass meets them last first.
    """

    forward: Activity
    backward: Activity
    forward_segments: tuple[Activity, ...]
    segments: tuple[Activity, ...]
    buckets: tuple[int, ...]


def bucket_size(sharding: Sharding, bucket_parameters: int) -> int:
    """Return the parameters at which a bucket is full: ZeRO-3 exchanges block by block."""
    return 1 if sharding.zero == 3 else bucket_parameters


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


class PricedBlocks(NamedTuple):
    """What a rank does in the blocks of a virtual stage, each block for itself.

    Attributes
    ----------
    forward, backward
        The parts of each block, in the order of the pass; blocks that are one share them.
    """

    forward: list[list[Part]]
    backward: list[list[Part]]


def priced_blocks(
    blocks: Sequence[Block],
    rates: Rates,
    transfer: Callable[[Exchange], Transfer],
    *,
    recompute: str | frozenset[str],
    ring_ranks: int = 1,
) -> PricedBlocks:
    """Price the blocks of a virtual stage.

    Parameters
    ----------
    blocks
        Its blocks in forward order.
    rates
        Speed of the rank.
    transfer
        What a tensor-parallel collective is, skew of its ranks included.
    recompute
        Recompute mode, for the host's share of launching it.
    ring_ranks
        Ranks of a ring in which tensor-parallel collectives go round beside their matmul; 1 for none.
    """
    host_layers_s = rates.host_layer_s * sum(block.name == "layer" for block in blocks)
    again = HOST_SHARE_OF_RECOMPUTE.get(str(recompute or "none"), HOST_SHARE_OF_PARTIAL_RECOMPUTE)
    hosts_s = host_layers_s + rates.host_pass_s, host_layers_s * (1 + again) + rates.host_pass_s
    return PricedBlocks(
        _PassPricer(rates, transfer, ring_ranks, _forward_runs, hosts_s[0]).parts(blocks),
        _PassPricer(rates, transfer, ring_ranks, _backward_runs, hosts_s[1]).parts(blocks[::-1]),
    )


def stage_passes(own: PricedBlocks, pace: PricedBlocks, buckets: Sequence[Bucket]) -> StagePasses:
    """Put the passes of a virtual stage together.

    Parameters
    ----------
    own
        What the rank does in its blocks.
    pace
        What the slowest rank of the tensor group does. From its first collective on a pass, and each segment of one, goes at
        that pace, and the group leaves it together; what a faster rank waits is a part of its own.
    buckets
        Gradient buckets, at whose ends the backward pass can be cut.
    """
    lengths = [bucket.blocks for bucket in buckets]
    forward, backward = _Paced(own.forward, pace.forward), _Paced(own.backward, pace.backward)
    return StagePasses(
        _activity("forward", forward.whole()),
        _activity("backward", backward.whole()),
        tuple(_activity("forward", run) for run in forward.cut(lengths[::-1])),
        tuple(_activity("backward", run) for run in backward.cut(lengths)),
        tuple(bucket.number for bucket in buckets),
    )


def _forward_runs(block: Block) -> _Runs:
    return ((COMPUTE, block.forward, False),)


def _backward_runs(block: Block) -> _Runs:
    return ((RECOMPUTE, block.recompute, False), (COMPUTE, block.backward, True))


class _Paced(NamedTuple):
    """The parts of each block of a pass, of a rank and of the one for which its group waits at each collective."""

    own: list[list[Part]]
    pace: list[list[Part]]

    def whole(self) -> list[Part]:
        """Return the parts of the whole pass."""
        (found,) = self.cut([len(self.own)])
        return found

    def cut(self, lengths: Sequence[int]) -> Iterator[list[Part]]:
        """Yield the parts of each segment of so many blocks.

        To the first collective of a segment each rank works as fast as it can: it may not begin together with the others.
        A segment without collectives takes as long as that of the slowest, if the group has met before.
        """
        padded = {id(own): list(_padded(own, pace)) for own, pace in zip(self.own, self.pace, strict=True)}
        start, has_met = 0, False
        for length in lengths:
            own = list(chain.from_iterable(self.own[start : start + length]))
            first = next((number for number, part in enumerate(own) if _meets(part)), None)
            alone = (0 if has_met else len(own)) if first is None else first
            yield own if self.own is self.pace else list(self._paced(range(start, start + length), alone, padded))
            start, has_met = start + length, has_met or first is not None

    def _paced(self, blocks: Iterable[int], alone: int, padded: Mapping[int, list[Part]]) -> Iterator[Part]:
        """Yield the parts of some blocks, of which so many are not at the pace of the group; blocks that are one share the others."""
        for number in blocks:
            own = self.own[number]
            if alone <= 0:
                yield from padded[id(own)]
            else:
                yield from own[:alone]
                yield from _padded(own[alone:], self.pace[number][alone:])
            alone -= len(own)


def _padded(own: Sequence[Part], pace: Sequence[Part]) -> Iterator[Part]:
    """Follow each part by the wait for who takes longer; host time that hides in the wait is not booked.

    The collective beside a matmul is that of the whole group, and on its links for as long as the slowest has it there.
    """
    for mine, theirs in zip(own, pace, strict=True):
        faster = mine if mine.duration_ps <= theirs.duration_ps else theirs
        yield replace(faster, transfer=theirs.transfer)
        if waits_ps := theirs.duration_ps - faster.duration_ps:
            rest = Transfer(0.0) if theirs.transfer else None  # what is on links is told by the part before
            yield Part(f"{mine.name}: slower chips", STRAGGLER_WAIT, seconds(waits_ps), rest)


class _PassPricer(Record):
    """Prices the blocks of one pass; the host lengthens all of them by one ratio."""

    rates: Rates
    transfer: Callable[[Exchange], Transfer]
    ring_ranks: int
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
        for heading, items, makes_gradients in self.runs(block):
            rates = self.rates.of_gradients if makes_gradients else self.rates
            work = [item for item in items if isinstance(item, Work)]
            for members, exchange in _pieces(items, in_rings=self.ring_ranks > 1):
                compute_s = rates.work_s(members)
                if exchange is None:
                    yield Part(f"{block.name} {heading}", heading, compute_s)
                else:
                    yield from self._exchanged(
                        f"{block.name} {exchange.op} {exchange.name}", heading, compute_s, exchange
                    )
            yield Part(f"{block.name} memory traffic", heading, rates.exposed_memory_s(work))

    def _exchanged(self, name: str, heading: str, compute_s: float, exchange: Exchange) -> Iterator[Part]:
        r"""Yield a matmul, if there is one, with a collective beside it, and what of the collective outlasts it.

        In a ring of :math:`t` ranks one of t parts of the matmul has nothing to wait for or to send beside it, so

        .. math:: \max\left(0, T_{collective} - \frac{t-1}{t} T_{matmul}\right)

        is exposed (Wang et al., ASPLOS 2023, doi:10.1145/3567955.3567959).
        """
        transfer = self.transfer(exchange)
        if self.ring_ranks == 1:
            yield Part(name, EXPOSED_TP, transfer.duration_s, transfer)
            return
        exposed_s = max(0.0, transfer.duration_s - compute_s * (1 - 1 / self.ring_ranks))
        share = exposed_s / transfer.duration_s if transfer.duration_s else 0.0
        yield Part(f"{name} matmul", heading, compute_s, _share(transfer, compute_s, 1 - share))
        yield Part(name, EXPOSED_TP, exposed_s, replace(_share(transfer, exposed_s, share), task=transfer.task))

    def _extra_parts(self, name: str, device_s: float, stretch: float) -> Iterator[Part]:
        overhead_s = device_s * stretch
        if overhead_s:
            yield Part(f"{name} host launch", OVERHEAD, overhead_s)
        if self.rates.scale_skew_fraction:
            yield Part(f"{name} skew", SKEW, (device_s + overhead_s) * self.rates.scale_skew_fraction)


def _share(transfer: Transfer, duration_s: float, share: float) -> Transfer:
    """Return a part of a transfer: its share of the time on links."""
    return Transfer(duration_s, {kind: busy_s * share for kind, busy_s in transfer.busy_s.items()})


def _pieces(items: Sequence[Item], *, in_rings: bool) -> Iterator[tuple[list[Work], Exchange | None]]:
    """Divide a pass into work without a collective, collectives alone, and matmuls with theirs where those go in rings."""
    partners = dict(_partners(items)) if in_rings else {}
    waiting: list[Work] = []
    for number, item in enumerate(items):
        if isinstance(item, Work) and number not in partners.values():
            waiting.append(item)
            continue
        if waiting:
            yield waiting, None
            waiting = []
        if isinstance(item, Exchange):
            partner = items[partners[number]] if number in partners else None
            yield [partner] if isinstance(partner, Work) else [], item
    if waiting:
        yield waiting, None


def _partners(items: Sequence[Item]) -> Iterator[tuple[int, int]]:
    """Yield each collective that goes in a ring and its matmul: what a gather feeds, what feeds a reduce-scatter."""
    for number, item in enumerate(items):
        if isinstance(item, Exchange) and item.op != "all-reduce":
            partner = number + 1 if item.op == "all-gather" else number - 1
            other = items[partner] if 0 <= partner < len(items) else None
            if isinstance(other, Work) and other.flops:
                yield number, partner


def _activity(name: str, parts: Sequence[Part]) -> Activity:
    kept = tuple(part for part in parts if part.duration_s)
    meeting = next((number for number, part in enumerate(kept) if _meets(part)), None)
    return Activity(name, kept, meeting)


def _meets(part: Part) -> bool:
    """Whether a part needs the tensor group: a collective, or a matmul with one beside it."""
    return part.heading == EXPOSED_TP or part.transfer is not None
